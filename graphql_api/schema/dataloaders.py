"""Dataloaders of one request: load records and pages in batches, each at most once. Every field reads through them."""

from asyncio import CancelledError, gather, get_running_loop
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

from graphql_api.codecs import RecordKey
from graphql_api.database import Database, first_of
from graphql_api.errors import QueryTooCostly, ShardQLError
from graphql_api.model import Entity, EntitySpec, UniqueSpec
from graphql_api.query import PYTHON_NAMES, NamingScheme, SearchBatch, SearchRequest
from graphql_api.query.execution import (
    Count,
    LookupGroups,
    Page,
    PointLookup,
    PointLookups,
    RecordResult,
    StoredResults,
    results_of_groups,
)
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
"""fields of a request that do not decide on its page, and the one that is compared value by value"""
_COMMON_VALUES = attrgetter(*(field.name for field in fields(SearchRequest) if field.name not in _SEPARATE))
_HASHABLE = frozenset({str, int, bool, NoneType, frozenset})


def _page_keys(requests: Sequence[SearchRequest]) -> list[Hashable]:
    """Return for each request what equal requests have in common, whatever the reasons for their index."""
    if not isinstance(requests, SearchBatch) or not requests.common.arguments.keys().isdisjoint(requests.names):
        return [_page_key(request.arguments, _common_key(request)) for request in requests]
    common, arguments = _common_key(requests.common), requests.common.arguments
    names, values = (*arguments, *requests.names), tuple(map(_argument_key, arguments.values()))
    return [(common, names, (*values, *map(_argument_key, row))) for row in requests.rows]


def _page_key(arguments: Mapping[str, Any], common: Hashable) -> Hashable:
    return common, (*arguments,), tuple(map(_argument_key, arguments.values()))


def _common_key(request: SearchRequest) -> Hashable:
    return tuple(value if type(value) in _HASHABLE else repr(value) for value in _COMMON_VALUES(request))


def _argument_key(value: Any) -> Hashable:
    return value if type(value) is str else (repr(value),)


class _RecordReads(NamedTuple):
    """The records that a field reads by key, as a part of a batch."""

    positions: Mapping[Hashable, int]
    """by cache key"""
    entity: EntitySpec
    lookups: Sequence[PointLookup]
    path: Path
    """Path of the first field that needed them."""


class _PageReads(NamedTuple):
    """The pages that a field reads, as a part of a batch."""

    positions: Mapping[Hashable, int]
    """by cache key"""
    requests: Sequence[SearchRequest]


_RecordCall = CoalescedCall[_RecordReads, Sequence[RecordResult]]
_PageCall = CoalescedCall[_PageReads, Sequence["Page[Any] | BaseException"]]
_Cache = dict[Hashable, SharedResult[Any]]
"""What is loaded, or being loaded. A `CoalescedCall` has several values, at the positions of its part."""


class Dataloaders:
    """The dataloaders of one request, for pages of searches and for records.

    Without `cache` nothing is loaded from memory, and all reads are consistent. Mutations need this: a field must
    see what an earlier field of the same operation wrote.
    """

    def __init__(self, database: Database, on_explain: ExplainCallback | None = None, *, cache: bool = True) -> None:
        self._database = database
        self._on_explain = on_explain
        self._caches = cache
        self._shared: _Cache = {}
        """pages, and records by unique values"""
        self._records: dict[tuple[str, bool], _Cache] = {}
        """by entity, and by whether reads are consistent: see `_records_of`"""
        self._page_coalescer: RequestCoalescer[_PageReads, Sequence[Page[Any] | BaseException]] | None = None
        self._coalescers: dict[bool, RequestCoalescer[_RecordReads, Sequence[RecordResult]]] = {}
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
        (cache_key,) = _page_keys([request])
        page: Page[Any] = await self._share(cache_key, lambda: self._read_page(request, path))
        return page

    async def _share(self, cache_key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a read that all equal loads share. An error is not kept: a later load reads again.

        The first load reads in its own task, so that a read which never waits needs no other one. If that load is
        cancelled, the next one that waits reads again.
        """
        while (shared := self._shared.get(cache_key)) is not None and not shared.future.cancelled():
            try:
                return await _value_of(shared, cache_key)
            except CancelledError:
                if is_being_cancelled() or not shared.future.cancelled():
                    raise
        shared = self._shared[cache_key] = SharedResult(get_running_loop().create_future())
        try:
            return await shared.provide(read())
        except Exception:
            self._shared.pop(cache_key, None)
            raise

    async def load_pages(self, requests: Sequence[SearchRequest]) -> "Sequence[Page[Any] | BaseException]":
        """Load the page or the error of each search. They become one read, with others that are requested now.

        Only for operations without explain output, which belongs to single fields.
        """
        if not self._caches:
            reads = (self.load_page(request, ()) for request in requests)
            read: list[Page[Any] | BaseException] = await gather(*reads, return_exceptions=True)
            return read
        known, cache_keys = self._shared, _page_keys(requests)
        missing = _missing(known, cache_keys)
        if missing:
            positions = [*missing.values()]
            if len(missing) == len(requests):
                new = requests
            elif isinstance(requests, SearchBatch):
                new = requests.at(positions)
            else:
                new = [requests[at] for at in positions]
            call = self._coalesced_pages(_PageReads(_numbered(missing), new))
            known |= dict.fromkeys(missing, call)
        pages: Sequence[Page[Any] | BaseException] = await _values_of(known, cache_keys)
        return pages

    def _coalesced_pages(self, reads: _PageReads) -> _PageCall:
        if self._page_coalescer is None:
            self._page_coalescer = RequestCoalescer(self._send_page_reads, IDLE_TURNS)
        return self._page_coalescer.submit(reads)

    async def _send_page_reads(self, calls: Sequence[_PageCall]) -> None:
        unread = {cache_key for call in calls for cache_key in call.part.positions}
        try:
            batches = await self._database.pages_of([call.part.requests for call in calls])
            for call, pages in zip(calls, batches, strict=True):
                unread -= {key for key, at in call.part.positions.items() if isinstance(pages[at], Page)}
                call.succeed(pages)
        finally:
            for cache_key in unread:  # A later load reads again instead of raising this error.
                self._shared.pop(cache_key, None)

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
        known = self._records_of(lookup.entity, consistent=lookup.consistent)
        cache_key = self._load(known, lookup, path, batch=batch)
        record: Entity | None = await _value_of(known[cache_key], cache_key)
        return record

    async def load_records(
        self, entity: EntitySpec, keys: Sequence[Sequence[Any]], *, why: str | None, naming: NamingScheme
    ) -> "Sequence[Entity | BaseException | None]":
        """Load the record or the error of each primary key: as `load_record` does, without a coroutine for each.

        Only for operations without explain output, which names the path of each field.
        """
        if not keys:
            return []
        lookups = self._database.wanted_records(entity, keys, consistent=not self._caches, why=why)
        if lookups is not None:
            return await self._load_all(lookups)
        results: list[Entity | BaseException | None] = [None] * len(keys)
        known: _Cache = {}
        loaded: dict[int, Hashable] = {}
        searches: dict[int, SearchRequest] = {}
        for at, values in enumerate(keys):
            try:
                lookup = self._database.wanted(entity, values, consistent=not self._caches, why=why, naming=naming)
            except ShardQLError as problem:
                results[at] = problem
            else:
                if isinstance(lookup, SearchRequest):
                    searches[at] = lookup
                else:
                    known = self._records_of(lookup.entity, consistent=lookup.consistent)
                    loaded[at] = self._load(known, lookup, ())
        # Either all keys of an entity need a search, or none.
        for at, record in zip(loaded, await _values_of(known, [*loaded.values()]), strict=True):
            results[at] = record
        for at, page in zip(searches, await self.load_pages([*searches.values()]), strict=True):
            results[at] = page if isinstance(page, BaseException) else _first_or_error(page)
        return results

    def _load(self, known: _Cache, lookup: PointLookup, path: Path, *, batch: bool = True) -> Hashable:
        """Load one record, unless it is being loaded. Return its cache key."""
        cache_key = tuple(lookup.keys)
        shared = known.get(cache_key)
        if shared is None or shared.is_cancelled:
            reads = _RecordReads({cache_key: 0}, lookup.entity, [lookup], path)
            known[cache_key] = self._coalescer(lookup.consistent).submit(reads, at_once=not batch)
        return cache_key

    async def _load_all(self, lookups: PointLookups) -> "Sequence[Entity | BaseException | None]":
        """Load several records, except those that are being loaded."""
        known = self._records_of(lookups.entity, consistent=lookups.consistent)
        cache_keys = [*map(tuple, lookups.keys)]
        missing = _missing(known, cache_keys)
        if missing:
            new = lookups if len(missing) == len(lookups) else lookups.at([*missing.values()])
            call = self._coalescer(lookups.consistent).submit(_RecordReads(_numbered(missing), lookups.entity, new, ()))
            known |= dict.fromkeys(missing, call)
        records: Sequence[Entity | BaseException | None] = await _values_of(known, cache_keys)
        return records

    def _records_of(self, entity: EntitySpec, *, consistent: bool) -> _Cache:
        """Return the records of an entity that are loaded, by all keys that they can have."""
        return self._records.setdefault((entity.name, consistent), {})

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

    def _coalescer(self, consistent: bool) -> RequestCoalescer[_RecordReads, Sequence[RecordResult]]:
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
            lookups = LookupGroups([call.part.lookups for call in calls])
            fetched = await self._database.read_records(lookups)
            cached = self._caches
        finally:
            if not cached:  # Later loads read again.
                for call in calls:
                    consistent = call.part.lookups[0].consistent
                    known = self._records_of(call.part.entity, consistent=consistent)
                    for cache_key in call.part.positions:
                        known.pop(cache_key, None)
        explain = {} if self._on_explain is None else fetched.explain
        if self._on_explain is not None and explain:
            # The first path of each field, by the path without list indexes.
            paths: dict[str, Path] = {}
            for call in calls:
                path = call.part.path
                paths.setdefault(".".join(part for part in path if isinstance(part, str)), path)
            fields = {"fields": [*paths]} if len(calls) > 1 else {}
            self._on_explain(next(iter(paths.values())), {**fields, **explain})
        for call, results in zip(calls, results_of_groups(lookups, fetched.results), strict=True):
            call.succeed(results)


def _missing(known: _Cache, cache_keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the positions of those that are not loaded, each once."""
    missing: dict[Hashable, int] = {}
    for at, cache_key in enumerate(cache_keys):
        shared = known.get(cache_key)
        if shared is None or shared.is_cancelled:
            missing.setdefault(cache_key, at)
    return missing


def _numbered(cache_keys: Iterable[Hashable]) -> dict[Hashable, int]:
    return {key: at for at, key in enumerate(cache_keys)}


async def _value_of(shared: SharedResult[Any], cache_key: Hashable) -> Any:
    """Return one value, or raise its error."""
    value = _part_of(shared, await shared.wait(), cache_key)
    if isinstance(value, BaseException):
        raise value
    return value


async def _values_of(known: _Cache, cache_keys: Sequence[Hashable]) -> Any:
    """Return the value or the error of each; as stored items, if one call loads all of them undecoded."""
    shared = [known[cache_key] for cache_key in cache_keys]
    calls = [*{id(one): one for one in shared}.values()]
    outcomes: list[Any] = await wait_for_all(calls)
    if len(calls) == 1 and isinstance(calls[0], CoalescedCall) and not isinstance(outcomes[0], BaseException):
        positions, values = calls[0].part.positions, outcomes[0]
        if [*positions] == cache_keys:
            return values
        if isinstance(values, StoredResults):
            return values.at([positions[cache_key] for cache_key in cache_keys])
    found = dict(zip(map(id, calls), outcomes, strict=True))
    return [_part_of(one, found[id(one)], cache_key) for one, cache_key in zip(shared, cache_keys, strict=True)]


def _part_of(shared: SharedResult[Any], outcome: Any, cache_key: Hashable) -> Any:
    """Return the value or the error for a cache key, from all that a read has returned."""
    if isinstance(shared, CoalescedCall) and not isinstance(outcome, BaseException):
        return outcome[shared.part.positions[cache_key]]
    return outcome


def _first_or_error(page: Page[Any]) -> Entity | ShardQLError | None:
    try:
        return first_of(page)
    except ShardQLError as problem:
        return problem
