"""What an index does not carry is fetched, and what has expired is left out."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Timestamp, Ttl
from graphql_api.adapters.sqlite import Switches, open_sqlite
from graphql_api.search.seal import Seal
from graphql_api.store.port import Store
from graphql_api.wiring import Database
from tests.stores import CountingStore, ReadByRead

NOW = 1_000


class Narrow(Entity, shards=Shards(3)):
    """A record whose indexes carry only parts of it."""

    key: Id[str]
    place: int
    note: str | None = None
    size: int = 7

    by_place = Index(sort="place", projection="KEYS_ONLY")
    by_note = Index(sort="note", projection=["size"])


class Passing(Entity, shards=Shards(3)):
    """A record that expires."""

    key: Id[str]
    place: int
    expires: Ttl[Timestamp] | None = None

    by_place = Index(sort="place")


async def _database(store: Store, entity: type[Entity]) -> Database:
    catalog = Catalog(entity)
    await store.ensure_table(catalog.table_definition())
    return Database(catalog, store, Seal([b"s" * 32]), clock=lambda: NOW)


async def _walk(db: Database, index: Any, **arguments: Any) -> list[Any]:
    found: list[Any] = []
    token = None
    while True:
        page = await db.search(index, **arguments, next_token=token)
        found += page.items
        token = page.next_token
        if token is None:
            return found


@pytest.mark.parametrize("index", [Narrow.by_place, Narrow.by_note])
async def test_properties_that_an_index_lacks_are_fetched_in_one_batch(index: Any, tmp_path: Path) -> None:
    """No property is null or defaulted because its index does not carry it; a page costs one batch more."""
    store = CountingStore(await open_sqlite(tmp_path / "x.db"))
    db = await _database(store, Narrow)
    records = [Narrow(key=f"k{at:02}", place=at, note=f"n{at:02}", size=at) for at in range(30)]
    await db.put_many(records)
    store.counts.gets = 0
    assert await _walk(db, index, limit=7) == records
    assert store.counts.gets == 30
    await store.close()


async def test_a_record_that_left_its_index_entry_is_left_out_and_the_walk_goes_on(tmp_path: Path) -> None:
    """Entries may be behind: a deleted or moved record is not shown where it was, and pages of nothing end no walk."""
    store = await open_sqlite(tmp_path / "x.db", switches=Switches(index_lag=1_000))
    db = await _database(store, Narrow)
    records = [Narrow(key=f"k{at:02}", place=at) for at in range(9)]
    await db.put_many(records)
    await store.settle()
    for at in (2, 3, 4):
        await db.delete(Narrow, f"k{at:02}")
    await db.put(Narrow(key="k05", place=100))
    assert [item.place for item in await _walk(db, Narrow.by_place, limit=2)] == [0, 1, 6, 7, 8]
    await store.close()


@pytest.mark.parametrize("reverse", [False, True])
async def test_expired_records_are_left_out_and_pages_stay_full(reverse: bool, tmp_path: Path) -> None:
    """An engine removes expired records late; no answer shows them, and every page but the last is full."""
    inner = await open_sqlite(tmp_path / "x.db")
    for store in (inner, ReadByRead(inner, most=2)):
        db = await _database(store, Passing)
        records = [Passing(key=f"k{at:02}", place=at, expires=[None, NOW, NOW + 1][at % 3]) for at in range(40)]
        await db.put_many(records)
        living = [record for record in records if record.expires != NOW]
        page = await db.search(Passing.by_place, limit=11, reverse=reverse)
        assert len(page.items) == 11
        expected = living[::-1] if reverse else living
        assert await _walk(db, Passing.by_place, limit=4, reverse=reverse) == expected
        assert await db.get(Passing, "k01") is None
        assert await db.get(Passing, "k02") == records[2]
    await inner.close()
