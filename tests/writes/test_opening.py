"""A server that starts on a new table: that transactions meet, or that a reply is lost, costs it time alone."""

from pathlib import Path
from random import Random

from graphql_api.evolution.table_record import TABLE_RECORD_KEY, prepare_table
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.writes.troubles import TroubledStore
from tests.writes.world import CATALOG


async def test_a_table_is_opened_among_conflicts(tmp_path: Path) -> None:
    """Whoever meets another one that records the table looks again, and opens it."""
    store = TroubledStore(await open_sqlite(tmp_path / "new.db"), Random(1), conflicts=0.5)
    try:
        await prepare_table(store, CATALOG, 1.0)
        assert store.met == 1
        assert (await store.get_many([TABLE_RECORD_KEY], True))[0] is not None
    finally:
        await store.close()


async def test_a_table_is_opened_although_a_reply_is_lost(tmp_path: Path) -> None:
    """Whoever does not hear that the table was recorded asks again, and opens it."""
    store = TroubledStore(await open_sqlite(tmp_path / "new.db"), Random(9), lost=0.5)
    try:
        await prepare_table(store, CATALOG, 1.0)
        assert store.met
        assert (await store.get_many([TABLE_RECORD_KEY], True))[0] is not None
    finally:
        await store.close()
