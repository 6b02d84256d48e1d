"""Dataloaders of one request: load records and pages in batches, each at most once. Every field reads through them."""

from asyncio import CancelledError, gather, get_running_loop
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

from graphql_api.codecs import RecordKey
from graphql_api.database import Database, first_of
from graphql_api.errors import QueryTooCostly, ShardQLError
from graphql_api.model import Entity, EntitySpec, UniqueSpec
from graphql_api.query import PYTHON_NAMES, NamingScheme, SearchRequest
from graphql_api.query.execution import Count, Page, PointLookup
from graphql_api.runtime import CoalescedCall, RequestCoalescer, SharedResult, is_being_cancelled, wait_for_all

Path = Sequence[str | int]
"""Path of a field in the response."""

ExplainCallback = Callable[[Path, Mapping[str, Any]], None]
"""Receives the explain output of a read, and the path of the field that needed it."""

MAX_LISTED_IDS = 10_000
"""Ids that all lists of ids in one operation may hold. Their length is unknown when the cost is computed."""

IDLE_TURNS = 3
"""Turns of the event loop without a new read before a batch is dispatched: nested fields start a few turns later."""


_SEPARATE = frozenset({"why", "naming", "arguments"})
"""fields of a request that do not decide on its page, and the one that is compared as text"""
_KEY_VALUES = attrgetter(*(field.name for field in fields(SearchRequest) if field.name not in _SEPARATE))
_HASHABLE = frozenset({str, int, bool, NoneType, frozenset})


def _page_key(request: SearchRequest) -> Hashable:
    """Return what equal requests have in common, whatever the reasons for their index."""
    values, arguments = _KEY_VALUES(request), repr(request.arguments)
    if _HASHABLE.issuperset(map(type, values)):
        return values, arguments
    return tuple(value if type(value) in _HASHABLE else repr(value) for value in values), arguments


class _Read(NamedTuple):
    """A read by key that is part of a batch."""

    cache_key: Hashable
    lookup: PointLookup
    path: Path
    """Path of the first field that needed the record."""


class _PageRead(NamedTuple):
    """A page that is part of a batch."""

    cache_key: Hashable
    request: SearchRequest


_RecordCall = CoalescedCall[_Read, Entity | ShardQLError | None]
"""Its result is None if the record does not exist, and an error if the record is invalid."""


class Dataloaders:
    """The dataloaders of one request, for pages of searches and for records.

    Without `cache` nothing is loaded from memory, and all reads are consistent. Mutations need this: a field must
    see what an earlier field of the same operation wrote.
    """

    def __init__(self, database: Database, on_explain: ExplainCallback | None = None, *, cache: bool = True) -> None:
        self._database = database
        self._on_explain = on_explain
        self._caches = cache
        self._shared: dict[Hashable, SharedResult[Any]] = {}
        """pages, and records by unique values"""
        self._calls: dict[Hashable, _RecordCall] = {}
        self._page_coalescer: RequestCoalescer[_PageRead, Page[Any]] | None = None
        self._coalescers: dict[bool, RequestCoalescer[_Read, Entity | ShardQLError | None]] = {}
        """by whether reads are consistent"""
        self._listed_ids = 0

    @property
    def serves_columns(self) -> bool:
        """Whether several records may be served at once: nothing of this operation belongs to single fields."""
        return self._caches and self._on_explain is None and self._database.ceiling is None

    # --- searches ----------------------------------------------------------------------------------------------

    async def load_page(self, request: SearchRequest, path: Path) -> Page[Any]:
        """Load a page of a search for the field at this path. Equal requests share one read."""
        if not self._caches:
            return await self._read_page(replace(request, consistent=True), path)
        page: Page[Any] = await self._share(_page_key(request), lambda: self._read_page(request, path))
        return page

    async def _share(self, cache_key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a read that all equal loads share. An error is not kept: a later load reads again.

        The first load reads in its own task, so that a read which never waits needs no other one. If that load is
        cancelled, the next one that waits reads again.
        """
        while (shared := self._shared.get(cache_key)) is not None and not shared.future.cancelled():
            try:
                return await shared.wait()
            except CancelledError:
                if is_being_cancelled() or not shared.future.cancelled():
                    raise
        shared = self._shared[cache_key] = SharedResult(get_running_loop().create_future())
        try:
            return await shared.provide(read())
        except Exception:
            self._shared.pop(cache_key, None)
            raise

    async def load_pages(self, requests: Sequence[SearchRequest]) -> "list[Page[Any] | BaseException]":
        """Load the page or the error of each search. They become one read, with others that are requested now.

        Only for operations without explain output, which belongs to single fields.
        """
        if not self._caches:
            pages = (self.load_page(request, ()) for request in requests)
            return await gather(*pages, return_exceptions=True)
        results: list[SharedResult[Page[Any]]] = []
        for request in requests:
            cache_key = _page_key(request)
            result = self._shared.get(cache_key)
            if result is None or result.is_cancelled:
                result = self._shared[cache_key] = self._coalesced_page(_PageRead(cache_key, request))
            results.append(result)
        return await wait_for_all(results)

    def _coalesced_page(self, read: _PageRead) -> SharedResult[Page[Any]]:
        if self._page_coalescer is None:
            self._page_coalescer = RequestCoalescer(self._send_page_reads, IDLE_TURNS)
        return self._page_coalescer.submit(read)

    async def _send_page_reads(self, calls: "Sequence[CoalescedCall[_PageRead, Page[Any]]]") -> None:
        read = set[Hashable]()
        try:
            for call, page in zip(calls, await self._database.pages([one.part.request for one in calls]), strict=True):
                if isinstance(page, Page):
                    read.add(call.part.cache_key)
                    call.succeed(page)
                elif isinstance(page, Exception):
                    call.fail(page)
        finally:
            for call in calls:
                if call.part.cache_key not in read:  # A later load reads again instead of raising this error.
                    self._shared.pop(call.part.cache_key, None)

    async def load_count(self, request: SearchRequest, at_most: Any, path: Path) -> Count:
        count = await self._database.count_of(request, at_most)
        if self._on_explain is not None:
            self._on_explain(path, count.explain)
        return count

    async def _read_page(self, request: SearchRequest, path: Path) -> Page[Any]:
        page = await self._database.page(request)
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
        key: RecordKey | None = None,
        consistent: bool = False,
        batch: bool = True,
        why: str | None = None,
        naming: NamingScheme = PYTHON_NAMES,
    ) -> Entity | None:
        """Load the record with these values of its primary key, for the field at this path.

        If `values` lacks the sub ids, load the current entry of the id. `key`: the key of the record, with its shard
        generation if known. `batch`: load it in one call with others that are requested at the same time.
        """
        consistent = consistent or not self._caches
        lookup: PointLookup | SearchRequest
        if key is not None:
            lookup = self._database.lookup_at(entity, key, consistent=consistent, why=why)
        else:
            lookup = self._database.wanted(entity, values, consistent=consistent, why=why, naming=naming)
        if isinstance(lookup, SearchRequest):
            return first_of(await self.load_page(lookup, path))
        result = await self._record_call(lookup, path, batch=batch).wait()
        if isinstance(result, ShardQLError):
            raise result
        return result

    async def load_records(
        self, entity: EntitySpec, keys: Sequence[Sequence[Any]], *, why: str | None, naming: NamingScheme
    ) -> "list[Entity | BaseException | None]":
        """Load the record or the error of each primary key: as `load_record` does, without a coroutine for each.

        Only for operations without explain output, which names the path of each field.
        """
        loaded: list[Entity | BaseException | None] = [None] * len(keys)
        calls: dict[int, _RecordCall] = {}
        searches: dict[int, SearchRequest] = {}
        for at, values in enumerate(keys):
            try:
                lookup = self._database.wanted(entity, values, consistent=not self._caches, why=why, naming=naming)
            except ShardQLError as problem:
                loaded[at] = problem
            else:
                if isinstance(lookup, SearchRequest):
                    searches[at] = lookup
                else:
                    calls[at] = self._record_call(lookup, ())
        # Either all keys of an entity need a search, or none.
        records = await wait_for_all([*calls.values()])
        for at, record in zip(calls, records, strict=True):
            loaded[at] = record
        for at, page in zip(searches, await self.load_pages([*searches.values()]), strict=True):
            loaded[at] = page if isinstance(page, BaseException) else _first_or_error(page)
        return loaded

    def _record_call(self, lookup: PointLookup, path: Path, *, batch: bool = True) -> _RecordCall:
        cache_key = (lookup.entity.name, tuple(lookup.keys), lookup.consistent)
        call = self._calls.get(cache_key)
        if call is None or call.is_cancelled:
            read = _Read(cache_key, lookup, path)
            call = self._calls[cache_key] = self._coalescer(lookup.consistent).submit(read, at_once=not batch)
        return call

    async def load_by_unique(
        self, entity: EntitySpec, unique: UniqueSpec, values: tuple[Any, ...], path: Path, *, why: str | None = None
    ) -> Entity | None:
        """Load the record with these values of a unique constraint, for the field at this path."""

        async def read() -> Entity | None:
            fetched = await self._database.read_by_unique(entity, unique, values, why)
            if self._on_explain is not None:
                self._on_explain(path, fetched.explain)
            (record,) = fetched.results
            if isinstance(record, ShardQLError):
                raise record
            return record

        if not self._caches:
            return await read()
        record: Entity | None = await self._share((entity.name, unique.name, values), read)
        return record

    def _coalescer(self, consistent: bool) -> RequestCoalescer[_Read, Entity | ShardQLError | None]:
        if consistent not in self._coalescers:
            self._coalescers[consistent] = RequestCoalescer(self._send_reads, IDLE_TURNS)
        return self._coalescers[consistent]

    def release(self) -> None:
        """Drop what refers back to the dataloaders, so that reference counting frees them, and all that they loaded."""
        self._coalescers.clear()
        self._page_coalescer = None

    async def _send_reads(self, calls: Sequence[_RecordCall]) -> None:
        cached = False
        try:
            result = await self._database.read_records([call.part.lookup for call in calls])
            cached = self._caches
        finally:
            if not cached:  # Later loads read again.
                for call in calls:
                    self._calls.pop(call.part.cache_key, None)
        explain = {} if self._on_explain is None else result.explain
        if self._on_explain is not None and explain:
            # The first path of each field, by the path without list indexes.
            paths: dict[str, Path] = {}
            for call in calls:
                path = call.part.path
                paths.setdefault(".".join(part for part in path if isinstance(part, str)), path)
            fields = {"fields": [*paths]} if len(calls) > 1 else {}
            self._on_explain(next(iter(paths.values())), {**fields, **explain})
        for call, record in zip(calls, result.results, strict=True):
            call.succeed(record)


def _first_or_error(page: Page[Any]) -> Entity | ShardQLError | None:
    try:
        return first_of(page)
    except ShardQLError as problem:
        return problem
