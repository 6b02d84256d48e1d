"""Records are fetched if their index does not cover the search, and expired records are left out."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Timestamp, Ttl
from graphql_api.database import Database
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.support.distributed_store import open_lagging
from tests.support.store_doubles import CountingStore, IndependentReadsStore

NOW = 1_000


class NarrowProjections(Entity, shards=Shards(3)):
    """A record whose indexes project only some properties."""

    key: Id[str]
    position: int
    note: str | None = None
    size: int = 7

    by_position = Index(sort="position", projection="KEYS_ONLY")
    by_note = Index(sort="note", projection=["size"])


class Expiring(Entity, shards=Shards(3)):
    """A record that expires."""

    key: Id[str]
    position: int
    expires: Ttl[Timestamp] | None = None

    by_position = Index(sort="position")


async def _database(store: Store, entity: type[Entity]) -> Database:
    catalog = Catalog(entity)
    await store.ensure_table(catalog.table_definition())
    return Database(catalog, store, TokenSeal([b"s" * 32]), clock=lambda: NOW)


async def _all_records(db: Database, index: Any, **arguments: Any) -> list[Any]:
    found: list[Any] = []
    token = None
    while True:
        page = await db.search(index, **arguments, next_token=token)
        found += page.items
        token = page.next_token
        if token is None:
            return found


@pytest.mark.parametrize("index", [NarrowProjections.by_position, NarrowProjections.by_note])
async def test_unprojected_properties_are_fetched_in_one_batch_per_page(index: Any, tmp_path: Path) -> None:
    """Properties that an index does not project are fetched, never null or default; a page costs one batch more."""
    store = CountingStore(await open_sqlite(tmp_path / "x.db"))
    db = await _database(store, NarrowProjections)
    records = [NarrowProjections(key=f"k{at:02}", position=at, note=f"n{at:02}", size=at) for at in range(30)]
    await db.put_many(records)
    store.counts.gets = 0
    assert await _all_records(db, index, limit=7) == records
    assert store.counts.gets == 30 + 4
    assert (await db.search(index, limit=7)).explain["read"]["fetched"] == 8
    await store.close()


async def test_stale_index_entries_are_left_out_and_do_not_end_the_traversal(tmp_path: Path) -> None:
    """While index entries lag, deleted and moved records are left out, and empty pages do not end the traversal."""
    store = await open_lagging(tmp_path / "x.db", 1_000)
    db = await _database(store, NarrowProjections)
    records = [NarrowProjections(key=f"k{at:02}", position=at) for at in range(9)]
    await db.put_many(records)
    await store.catch_up_indexes()
    for at in (2, 3, 4):
        await db.delete(NarrowProjections, f"k{at:02}")
    await db.put(NarrowProjections(key="k05", position=100))
    assert [item.position for item in await _all_records(db, NarrowProjections.by_position, limit=2)] == [0, 1, 6, 7, 8]
    await store.close()


@pytest.mark.parametrize("reverse", [False, True])
async def test_expired_records_are_left_out_and_pages_stay_full(reverse: bool, tmp_path: Path) -> None:
    """Expired records that the engine has not removed yet are left out, and every page but the last is full."""
    inner = await open_sqlite(tmp_path / "x.db")
    for store in (inner, IndependentReadsStore(inner, max_rows=2)):
        db = await _database(store, Expiring)
        records = [Expiring(key=f"k{at:02}", position=at, expires=[None, NOW, NOW + 1][at % 3]) for at in range(40)]
        await db.put_many(records)
        visible = [record for record in records if record.expires != NOW]
        page = await db.search(Expiring.by_position, limit=11, reverse=reverse)
        assert len(page.items) == 11
        expected = visible[::-1] if reverse else visible
        assert await _all_records(db, Expiring.by_position, limit=4, reverse=reverse) == expected
        assert await db.get(Expiring, "k01") is None
        assert await db.get(Expiring, "k02") == records[2]
    await inner.close()


async def test_stale_index_entries_return_no_record_that_does_not_match(tmp_path: Path) -> None:
    """A record whose hash property has changed is not returned for the old value, even while the index entry lags."""

    class Ticket(Entity):
        """A record with a state."""

        key: Id[str]
        state: str
        at: int
        note: str = ""

        by_state = Index(hash="state", sort="at", projection="KEYS_ONLY")

    store = await open_lagging(tmp_path / "x.db", 100)
    db = await _database(store, Ticket)
    await db.put_many([Ticket(key=f"k{at}", state="open", at=at) for at in range(4)])
    await store.catch_up_indexes()
    await db.put(Ticket(key="k2", state="closed", at=2))
    assert [item.key for item in await _all_records(db, Ticket.by_state, state="open", limit=2)] == ["k0", "k1", "k3"]
    await store.close()


class InterleavedFetchStore(ForwardingStore):
    """Runs an action before each fetch by key, after the index was read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.action: Callable[[], Awaitable[None]] | None = None

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.action is not None:
            await self.action()
        return await super().get_many(keys, consistent)


@pytest.mark.parametrize("filter", [{"size": 7}, {"size": {"lt": 8}, "position": {"ge": 0}}])
async def test_a_record_newer_than_its_index_entry_is_tested_again(filter: Any, tmp_path: Path) -> None:
    """The whole filter is tested again on the fetched record, and other records fill the page."""
    inner = await open_sqlite(tmp_path / "x.db")
    store = InterleavedFetchStore(inner)
    db = await _database(store, NarrowProjections)
    records = [NarrowProjections(key=f"k{at}", position=at, note=f"n{at}") for at in range(6)]
    await db.put_many(records)
    store.action = partial(db.put, records[1].model_copy(update={"size": 8}))
    for index in (NarrowProjections.by_note, NarrowProjections.by_position):
        await db.put(records[1])
        page = await db.search(index, filter=filter, limit=4)
        assert [item.key for item in page.items] == ["k0", "k2", "k3", "k4"]
    await inner.close()


async def test_rare_matches_take_few_batches(tmp_path: Path) -> None:
    """If matches become rare, each batch is larger than the last, so that few batches read thousands of records."""
    inner = await open_sqlite(tmp_path / "x.db")
    db = await _database(CountingStore(inner), NarrowProjections)
    records = [NarrowProjections(key=f"k{at:04}", position=at, size=int(at < 20 or at == 5_999)) for at in range(6_000)]
    await db.put_many(records)
    for engine in (inner, IndependentReadsStore(inner)):
        store = CountingStore(engine)
        page = await Database(db.catalog, store, db.seal).search(
            NarrowProjections.by_position, filter={"size": 1}, limit=21
        )
        assert [item.position for item in page.items] == [*range(20), 5_999]
        assert page.next_token is None
        assert store.counts.rounds <= 12
        assert store.counts.gets == 6_000
    await inner.close()


class ExpiringUnprojected(Entity, shards=Shards(3)):
    """A record that expires, in an index that does not project the expiry."""

    key: Id[str]
    position: int
    expires: Ttl[Timestamp]

    by_position = Index(sort="position", projection="KEYS_ONLY")


async def test_pages_are_full_if_the_index_does_not_project_the_expiry(tmp_path: Path) -> None:
    """Pages are full even if the expiry is known only after a fetch, and no page is empty."""
    store = await open_sqlite(tmp_path / "x.db")
    db = await _database(store, ExpiringUnprojected)
    await db.put_many([ExpiringUnprojected(key=f"k{at:02}", position=at, expires=NOW + 20 - at) for at in range(40)])
    await db.put_many([ExpiringUnprojected(key=f"l{at:02}", position=100 + at, expires=NOW + 1) for at in range(20)])
    for reverse in (False, True):
        token, sizes = None, []
        while True:
            page = await db.search(ExpiringUnprojected.by_position, limit=8, reverse=reverse, next_token=token)
            sizes.append(len(page.items))
            token = page.next_token
            if token is None:
                break
        assert sizes == [8, 8, 8, 8, 8]
    await store.close()


async def test_a_run_of_expired_records_is_read_once_in_few_rounds(tmp_path: Path) -> None:
    """A run of expired records is read once, in few growing rounds, and the next page starts after it."""
    inner = await open_sqlite(tmp_path / "x.db")
    for engine in (inner, IndependentReadsStore(inner)):
        store = CountingStore(engine)
        db = await _database(store, Expiring)
        await db.put_many([Expiring(key=f"a{at:02}", position=at) for at in range(20)])
        await db.put_many([Expiring(key=f"b{at:04}", position=100 + at, expires=NOW) for at in range(2_000)])
        await db.put_many([Expiring(key=f"c{at:02}", position=9_000 + at) for at in range(20)])
        store.counts.rounds = store.counts.records_read = 0
        page = await db.search(Expiring.by_position, limit=20)
        assert len(page.items) == 20
        assert store.counts.rounds <= 14
        first = store.counts.records_read
        rest = await db.search(Expiring.by_position, limit=20, next_token=page.next_token)
        assert len(rest.items) == 20
        assert store.counts.records_read - first <= 200
    await inner.close()
