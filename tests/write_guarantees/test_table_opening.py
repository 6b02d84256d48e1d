"""Opening a new table succeeds despite conflicts and lost replies."""

from pathlib import Path
from random import Random

from graphql_api.evolution import TABLE_RECORD_KEY, prepare_table
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.write_guarantees.faulty_store import FaultyStore
from tests.write_guarantees.served_catalog import CATALOG


async def test_a_table_is_opened_despite_conflicts(tmp_path: Path) -> None:
    """After a conflict with another server the table record is read again, and the table is opened."""
    store = FaultyStore(await open_sqlite(tmp_path / "new.db"), Random(1), conflicts=0.5)
    try:
        await prepare_table(store, CATALOG)
        assert store.fault_count == 1
        assert (await store.get_many([TABLE_RECORD_KEY], True))[0] is not None
    finally:
        await store.close()


async def test_a_table_is_opened_despite_a_lost_reply(tmp_path: Path) -> None:
    """After a lost reply the table record is written again, and the table is opened."""
    store = FaultyStore(await open_sqlite(tmp_path / "new.db"), Random(9), lost=0.5)
    try:
        await prepare_table(store, CATALOG)
        assert store.fault_count
        assert (await store.get_many([TABLE_RECORD_KEY], True))[0] is not None
    finally:
        await store.close()
