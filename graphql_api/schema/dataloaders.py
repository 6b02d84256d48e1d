"""Dataloaders of one request: load records and pages in batches, each at most once.

Every field reads through `Dataloaders`.
"""

from asyncio import create_task, shield, sleep
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from graphql_api.database import Database, first_of
from graphql_api.errors import QueryTooCostly, ShardQLError
from graphql_api.model import Entity, EntitySpec
from graphql_api.query import PYTHON_NAMES, NamingScheme, SearchRequest
from graphql_api.query.execution import Count, Page, PointLookup
from graphql_api.storage import Key

T = TypeVar("T")

Path = Sequence[str | int]
"""Path of a field in the response."""

ExplainCallback = Callable[[Path, Mapping[str, Any]], None]
"""Receives the explain output of a read, and the path of the field that needed it."""

MAX_LISTED_IDS = 10_000
"""Ids that all lists of ids in one operation may hold. Their length is unknown when the cost is computed."""

IDLE_TURNS = 3
"""Turns of the event loop without a new read before a batch is dispatched: nested fields start a few turns later."""


class SharedTask(Generic[T]):
    """A task with several waiters. It runs once, and is cancelled when the last waiter is cancelled."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = create_task(work)
        self._waiters = 0
        self.is_cancelled = False

    async def wait(self) -> T:
        """Return the result of the task, or raise its exception."""
        self._waiters += 1
        try:
            return await shield(self._task)
        finally:
            self._waiters -= 1
            if not self._waiters and not self._task.done():
                self.is_cancelled = True
                self._task.cancel()


BatchResult = Mapping[Hashable, Entity | ShardQLError | None]
"""The record of each read, by cache key; None if it does not exist, an error if it is invalid."""


class _Batch:
    """Reads by key that are sent to the store in one call."""

    def __init__(self, load: Callable[["_Batch"], Coroutine[Any, Any, BatchResult]]) -> None:
        self.reads: dict[Hashable, PointLookup] = {}
        self.paths: dict[str, Path] = {}
        """The first path of each field that needs a record of the batch, by the path without list indexes."""
        self.result = SharedTask(load(self))

    def add(self, cache_key: Hashable, read: PointLookup, path: Path) -> None:
        """Add a read to the batch, for the field at this path."""
        self.reads[cache_key] = read
        self.paths.setdefault(".".join(part for part in path if isinstance(part, str)), path)


class Dataloaders:
    """The dataloaders of one request, for pages of searches and for records.

    Without `cache` nothing is loaded from memory, and all reads are consistent. Mutations need this: a field must
    see what an earlier field of the same operation wrote.
    """

    def __init__(self, database: Database, on_explain: ExplainCallback | None = None, *, cache: bool = True) -> None:
        self._database = database
        self._on_explain = on_explain
        self._caches = cache
        self._pages: dict[Hashable, SharedTask[Page[Any]]] = {}
        self._batches: dict[Hashable, _Batch] = {}
        """The batch of each read, by cache key."""
        self._pending: dict[bool, _Batch] = {}
        """Batches that are not dispatched yet, by whether they read consistently."""
        self._listed_ids = 0

    # --- searches ----------------------------------------------------------------------------------------------

    async def load_page(self, request: SearchRequest, path: Path) -> Page[Any]:
        """Load a page of a search for the field at this path. Equal requests share one read."""
        if not self._caches:
            return await self._read_page(replace(request, consistent=True), path)
        cache_key = repr(replace(request, why=None))
        task = self._pages.get(cache_key)
        if task is None or task.is_cancelled:
            task = self._pages[cache_key] = SharedTask(self._read_page(request, path, cache_key))
        return await task.wait()

    async def load_count(self, request: SearchRequest, at_most: Any, path: Path) -> Count:
        """Count the records of all pages of a search."""
        count = await self._database.count_of(request, at_most)
        if self._on_explain is not None:
            self._on_explain(path, count.explain)
        return count

    async def _read_page(self, request: SearchRequest, path: Path, cache_key: Hashable = None) -> Page[Any]:
        try:
            page = await self._database.page(request)
        except Exception:
            self._pages.pop(cache_key, None)  # A later load reads again instead of raising this error.
            raise
        if self._on_explain is not None:
            self._on_explain(path, page.explain)
        return page

    # --- records by key ----------------------------------------------------------------------------------------

    def check_listed_ids(self, count: int) -> None:
        """Add to the number of ids in lists. Raise QueryTooCostly if the operation exceeds MAX_LISTED_IDS."""
        self._listed_ids += count
        if self._listed_ids > MAX_LISTED_IDS:
            raise QueryTooCostly(
                f"The lists of ids in this response name more than {MAX_LISTED_IDS:,} records. Request fewer at once.",
                limit=MAX_LISTED_IDS,
            )

    async def load_record(
        self,
        entity: EntitySpec,
        values: Sequence[Any],
        path: Path,
        *,
        keys: Sequence[Key] | None = None,
        consistent: bool = False,
        batch: bool = True,
        why: str | None = None,
        naming: NamingScheme = PYTHON_NAMES,
    ) -> Entity | None:
        """Load the record with these values of its primary key, for the field at this path.

        If `values` lacks the sub ids, load the current entry of the id. `keys`: the only keys that the record can have,
        if they are known. `batch`: load it in one call with other records that are requested at the same time.
        """
        consistent = consistent or not self._caches
        read = PointLookup(entity, keys, consistent, why) if keys is not None else None
        read_or_search = read or self._database.wanted(entity, values, consistent=consistent, why=why, naming=naming)
        if isinstance(read_or_search, SearchRequest):
            return first_of(await self.load_page(read_or_search, path))
        result = await self._load(read_or_search, path, batched=batch)
        if isinstance(result, ShardQLError):
            raise result
        return result

    async def _load(self, read: PointLookup, path: Path, *, batched: bool) -> Entity | ShardQLError | None:
        cache_key = (read.entity.name, tuple(read.keys), read.consistent)
        batch = self._batches.get(cache_key)
        if batch is None or batch.result.is_cancelled:
            batch = self._batches[cache_key] = self._batch_for(read.consistent) if batched else _Batch(self._dispatch)
            batch.add(cache_key, read, path)
        return (await batch.result.wait())[cache_key]

    def _batch_for(self, consistent: bool) -> _Batch:
        """Return the pending batch, or a new one."""
        batch = self._pending.get(consistent)
        if batch is None or batch.result.is_cancelled:
            batch = self._pending[consistent] = _Batch(self._dispatch_when_idle)
        return batch

    async def _dispatch_when_idle(self, batch: _Batch) -> BatchResult:
        """Dispatch the batch after all fields of this level of the response have added their reads."""
        size, idle_turns = 0, 0
        while idle_turns < IDLE_TURNS:
            await sleep(0)
            size, idle_turns = len(batch.reads), idle_turns + 1 if len(batch.reads) == size else 0
        self._pending = {consistent: other for consistent, other in self._pending.items() if other is not batch}
        return await self._dispatch(batch)

    async def _dispatch(self, batch: _Batch) -> BatchResult:
        try:
            result = await self._database.read_records([*batch.reads.values()])
        except Exception:
            self._evict(batch)
            raise
        if not self._caches:
            self._evict(batch)
        if self._on_explain is not None and result.explain:
            fields = {"fields": [*batch.paths]} if len(batch.reads) > 1 else {}
            self._on_explain(next(iter(batch.paths.values())), {**fields, **result.explain})
        return dict(zip(batch.reads, result.results, strict=True))

    def _evict(self, batch: _Batch) -> None:
        """Remove a batch from the cache, so that later loads read again."""
        self._batches = {cache_key: other for cache_key, other in self._batches.items() if other is not batch}
