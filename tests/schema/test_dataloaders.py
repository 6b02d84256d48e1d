"""Dataloaders of one request: batching, caching, single-flight and cancellation."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index
from graphql_api.codecs import RecordKey
from graphql_api.database import Database
from graphql_api.errors import StoreUnavailable
from graphql_api.model.specs import EntitySpec
from graphql_api.query.search_request import SearchRequest
from graphql_api.schema.dataloaders import Dataloaders
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.schema.graphql_client import client_for, open_database


class Note(Entity):
    """A note."""

    note_id: Id[str]
    text: str = "-"

    by_text = Index(sort="text")


CATALOG = Catalog(Note)
SPEC: EntitySpec = CATALOG.entity(Note)
SEARCH = SearchRequest("note", "by_text", {})


class HeldStore(ForwardingStore):
    """Holds calls while it is closed. Records the sizes of started calls and counts cancelled calls."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.open = asyncio.Event()
        self.open.set()
        self.call_sizes: list[int] = []
        self.two_started = asyncio.Event()
        """set when two calls have started"""
        self.cancelled_calls = 0
        self.fails = False

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        await self._pass(len(keys))
        return await super().get_many(keys, consistent)

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        await self._pass(len(reads))
        return await super().read_ranges(reads, want)

    async def _pass(self, size: int) -> None:
        self.call_sizes.append(size)
        if len(self.call_sizes) == 2:
            self.two_started.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled_calls += 1
            raise
        if self.fails:
            raise StoreUnavailable("The store is away: try again.")


@asynccontextmanager
async def open_dataloaders(folder: Path, **options: Any) -> AsyncIterator[tuple[Dataloaders, HeldStore]]:
    """Open the dataloaders of one request over a store that can hold calls."""
    notes = [Note(note_id=f"n{at}", text=f"t{at}") for at in range(5)]
    async with open_database(CATALOG, await open_sqlite(folder / "x.db"), *notes) as db:
        store = HeldStore(db.store)
        yield Dataloaders(Database(CATALOG, store, db.seal, db.clock), **options), store


async def note_text(loaders: Dataloaders, id: str, **options: Any) -> str | None:
    """Return the text of a note."""
    record = await loaders.load_record(SPEC, [id], ["note"], **options)
    assert record is None or isinstance(record, Note)
    return None if record is None else record.text


async def test_concurrent_lookups_are_one_call(tmp_path: Path) -> None:
    """Concurrent lookups become one call with distinct keys. Later lookups of the same records are cached."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        texts = await asyncio.gather(*(note_text(loaders, f"n{at % 6}") for at in range(12)))
        assert texts == ["t0", "t1", "t2", "t3", "t4", None] * 2
        assert store.call_sizes == [6]
        assert await note_text(loaders, "n1") == "t1"
        assert store.call_sizes == [6]


async def test_lookups_without_batching(tmp_path: Path) -> None:
    """A lookup with `batch=False` and a consistent lookup are not combined with other lookups."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        requests = [
            note_text(loaders, "n1", batch=False),
            note_text(loaders, "n2"),
            note_text(loaders, "n3"),
            note_text(loaders, "n2", consistent=True),
        ]
        assert await asyncio.gather(*requests) == ["t1", "t2", "t3", "t2"]
        assert sorted(store.call_sizes) == [1, 1, 2]


async def test_lookups_by_record_key(tmp_path: Path) -> None:
    """A lookup with a record key reads the record of that key."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        assert await note_text(loaders, "n1", key=RecordKey("note", ("n4",))) == "t4"
        assert store.call_sizes == [1]


async def test_failures_are_not_cached(tmp_path: Path) -> None:
    """A failed batch or search is read again by the next request for it."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        store.fails = True
        for _ in range(2):
            failed = await asyncio.gather(note_text(loaders, "n1"), note_text(loaders, "n2"), return_exceptions=True)
            assert [type(one) for one in failed] == [StoreUnavailable] * 2
            with pytest.raises(StoreUnavailable):
                await loaders.load_page(SEARCH, ["notes"])
        store.fails = False
        assert await note_text(loaders, "n1") == "t1"
        assert len((await loaders.load_page(SEARCH, ["notes"])).items) == 5
        assert store.call_sizes == [2, 1, 2, 1, 1, 1]


async def test_equal_searches_are_one_call(tmp_path: Path) -> None:
    """Equal concurrent searches share one page. A search for another page is a separate call."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        requests = [SEARCH, replace(SEARCH, why="Another reason."), replace(SEARCH, limit=1)]
        pages = await asyncio.gather(*(loaders.load_page(request, ["notes"]) for request in requests))
        assert pages[0] is pages[1]
        assert [len(page.items) for page in pages] == [5, 5, 1]
        assert store.call_sizes == [1, 1]


async def test_a_cancelled_waiter_does_not_affect_others(tmp_path: Path) -> None:
    """Cancelling one waiter does not cancel the batch of others. A search that it read is read again for them."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        store.open.clear()
        requests: list[asyncio.Task[Any]] = [
            asyncio.create_task(note_text(loaders, "n1")),
            asyncio.create_task(note_text(loaders, "n1")),
            asyncio.create_task(loaders.load_page(SEARCH, ["notes"])),
            asyncio.create_task(loaders.load_page(SEARCH, ["again"])),
        ]
        await store.two_started.wait()
        requests[0].cancel()
        requests[2].cancel()
        store.open.set()
        assert await requests[1] == "t1"
        assert len((await requests[3]).items) == 5
        assert requests[0].cancelled()
        assert requests[2].cancelled()
        assert (store.call_sizes, store.cancelled_calls) == ([1, 1, 1], 1)


async def test_work_without_waiters_is_cancelled(tmp_path: Path) -> None:
    """Cancelling the last waiter cancels the store call. A later lookup starts a new call."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        store.open.clear()
        requests: list[asyncio.Task[Any]] = [
            asyncio.create_task(note_text(loaders, "n1")),
            asyncio.create_task(loaders.load_page(SEARCH, ["notes"])),
        ]
        await store.two_started.wait()
        for request in requests:
            request.cancel()
        await asyncio.wait(requests)
        store.open.set()
        assert await note_text(loaders, "n1") == "t1"
        assert len((await loaders.load_page(SEARCH, ["notes"])).items) == 5
        assert store.cancelled_calls == 2
        assert len(store.call_sizes) == 4


async def test_a_batch_cancelled_before_it_is_sent(tmp_path: Path) -> None:
    """A batch whose only waiter is cancelled before sending is never sent. Later waiters are not affected."""
    async with open_dataloaders(tmp_path) as (loaders, store):
        first = asyncio.create_task(note_text(loaders, "n1"))
        await asyncio.sleep(0)
        first.cancel()
        assert await asyncio.gather(*(note_text(loaders, id) for id in ("n1", "n2"))) == ["t1", "t2"]
        assert store.call_sizes == [2]


async def test_mutations_do_not_cache(tmp_path: Path) -> None:
    """With `cache=False`, as in mutations, every read calls the store again."""
    async with open_dataloaders(tmp_path, cache=False) as (loaders, store):
        assert await asyncio.gather(*(note_text(loaders, id) for id in ("n1", "n1"))) == ["t1", "t1"]
        assert await note_text(loaders, "n1") == "t1"
        first, second = await loaders.load_page(SEARCH, ["notes"]), await loaders.load_page(SEARCH, ["notes"])
        assert first is not second
        assert store.call_sizes == [1, 1, 1, 1]


async def test_a_request_leaves_no_cycles_of_references(tmp_path: Path) -> None:
    """What a query has loaded is freed when it ends, not by a later garbage collection."""
    notes = [Note(note_id=f"n{number}", text="x") for number in range(30)]
    query = '{ first: note(id: "n1") { text } noteByText(limit: 20) { items { noteId text } nextToken } }'
    async with open_database(CATALOG, await open_sqlite(tmp_path / "x.db"), *notes) as db:
        client = client_for(db)
        for _ in range(3):  # The first ones fill caches.
            await client.data(query)
        found = []
        for _ in range(3):  # What other tests have left may be freed in one of the rounds.
            gc.collect()
            for _ in range(5):
                await client.data(query)
            found.append(gc.collect())
        assert min(found) < 5 * 5
