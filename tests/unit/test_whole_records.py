"""What an index does not carry is fetched, and what has expired is left out."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Timestamp, Ttl
from graphql_api.database import Database
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import EngineQuirks, open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.stores import CountingStore, ReadByRead, WrappedStore

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
    return Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: NOW)


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
    assert store.counts.gets == 30 + 4
    assert (await db.search(index, limit=7)).explain["read"]["fetched"] == 8
    await store.close()


async def test_a_record_that_left_its_index_entry_is_left_out_and_the_walk_goes_on(tmp_path: Path) -> None:
    """Entries may be behind: a deleted or moved record is not shown where it was, and pages of nothing end no walk."""
    store = await open_sqlite(tmp_path / "x.db", quirks=EngineQuirks(index_lag=1_000))
    db = await _database(store, Narrow)
    records = [Narrow(key=f"k{at:02}", place=at) for at in range(9)]
    await db.put_many(records)
    await store.catch_up_indexes()
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


async def test_entries_that_are_behind_show_nothing_that_does_not_match(tmp_path: Path) -> None:
    """A record whose hash property has changed is not found under the old value, where its entry still stands."""

    class Ticket(Entity):
        """A record with a state."""

        key: Id[str]
        state: str
        at: int
        note: str = ""

        by_state = Index(hash="state", sort="at", projection="KEYS_ONLY")

    store = await open_sqlite(tmp_path / "x.db", quirks=EngineQuirks(index_lag=100))
    db = await _database(store, Ticket)
    await db.put_many([Ticket(key=f"k{at}", state="open", at=at) for at in range(4)])
    await store.catch_up_indexes()
    await db.put(Ticket(key="k2", state="closed", at=2))
    assert [item.key for item in await _walk(db, Ticket.by_state, state="open", limit=2)] == ["k0", "k1", "k3"]
    await store.close()


class Meanwhile(WrappedStore):
    """Does something before each fetch by key: between what an index says and what the record says."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.action: Callable[[], Awaitable[None]] | None = None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.action is not None:
            await self.action()
        return await super().get_many(keys, consistent)


@pytest.mark.parametrize("filter", [{"size": 7}, {"size": {"lt": 8}, "place": {"ge": 0}}])
async def test_a_record_that_is_newer_than_its_entry_is_tested_again(filter: Any, tmp_path: Path) -> None:
    """The whole filter is tested on the fetched record, also what its row has met already; others fill the page."""
    inner = await open_sqlite(tmp_path / "x.db")
    store = Meanwhile(inner)
    db = await _database(store, Narrow)
    records = [Narrow(key=f"k{at}", place=at, note=f"n{at}") for at in range(6)]
    await db.put_many(records)
    store.action = partial(db.put, records[1].model_copy(update={"size": 8}))
    for index in (Narrow.by_note, Narrow.by_place):
        await db.put(records[1])
        page = await db.search(index, filter=filter, limit=4)
        assert [item.key for item in page.items] == ["k0", "k2", "k3", "k4"]
    await inner.close()


async def test_matches_that_become_rare_take_few_batches(tmp_path: Path) -> None:
    """After a page's worth of matches but one, thousands of records without any: each batch is larger than the last."""
    inner = await open_sqlite(tmp_path / "x.db")
    db = await _database(CountingStore(inner), Narrow)
    records = [Narrow(key=f"k{at:04}", place=at, size=int(at < 20 or at == 5_999)) for at in range(6_000)]
    await db.put_many(records)
    for engine in (inner, ReadByRead(inner)):
        store = CountingStore(engine)
        page = await Database(db.catalog, store, db.seal).search(Narrow.by_place, filter={"size": 1}, limit=21)
        assert [item.place for item in page.items] == [*range(20), 5_999]
        assert page.next_token is None
        assert store.counts.rounds <= 12
        assert store.counts.gets == 6_000
    await inner.close()


class Brief(Entity, shards=Shards(3)):
    """A record that expires, in an index that does not say so."""

    key: Id[str]
    place: int
    expires: Ttl[Timestamp]

    by_place = Index(sort="place", projection="KEYS_ONLY")


async def test_pages_are_full_where_only_the_whole_record_tells_that_it_expired(tmp_path: Path) -> None:
    """Twenty expired records before twenty living ones: no empty page among the pages, and none at the end."""
    store = await open_sqlite(tmp_path / "x.db")
    db = await _database(store, Brief)
    await db.put_many([Brief(key=f"k{at:02}", place=at, expires=NOW + 20 - at) for at in range(40)])
    await db.put_many([Brief(key=f"l{at:02}", place=100 + at, expires=NOW + 1) for at in range(20)])
    for reverse in (False, True):
        token, sizes = None, []
        while True:
            page = await db.search(Brief.by_place, limit=8, reverse=reverse, next_token=token)
            sizes.append(len(page.items))
            token = page.next_token
            if token is None:
                break
        assert sizes == [8, 8, 8, 8, 8]
    await store.close()


async def test_a_run_of_expired_records_costs_few_rounds_and_is_read_once(tmp_path: Path) -> None:
    """Expired records behind a page are stepped over in growing strides, and the next page begins behind them."""
    inner = await open_sqlite(tmp_path / "x.db")
    for engine in (inner, ReadByRead(inner)):
        store = CountingStore(engine)
        db = await _database(store, Passing)
        await db.put_many([Passing(key=f"a{at:02}", place=at) for at in range(20)])
        await db.put_many([Passing(key=f"b{at:04}", place=100 + at, expires=NOW) for at in range(2_000)])
        await db.put_many([Passing(key=f"c{at:02}", place=9_000 + at) for at in range(20)])
        store.counts.rounds = store.counts.records_read = 0
        page = await db.search(Passing.by_place, limit=20)
        assert len(page.items) == 20
        assert store.counts.rounds <= 14
        first = store.counts.records_read
        rest = await db.search(Passing.by_place, limit=20, next_token=page.next_token)
        assert len(rest.items) == 20
        assert store.counts.records_read - first <= 200
    await inner.close()
