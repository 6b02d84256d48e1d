"""Run several searches in lock-step: what they read at the same time is one call of the store.

A search is a coroutine that waits for nothing but its store. It gets a `_RoundStore`, whose reads suspend the coroutine
with the read as a value. Once all searches wait or have ended, their reads are sent together.
"""

from asyncio import gather
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType, coroutine
from typing import Any, Generic, NamedTuple, TypeVar

from graphql_api.storage import (
    ForwardingStore,
    GroupedPages,
    Item,
    Key,
    RangeRead,
    ReadGroup,
    ReadGroups,
    ReadResult,
    Store,
    index_of,
    is_descending,
    pages_of_groups,
)

T = TypeVar("T")

MAX_FETCHED = 3_000
"""records that searches fetch by key in one call"""

NO_ANSWERS: Mapping[int, Any] = MappingProxyType({})

Search = Callable[[Store], Coroutine[Any, Any, T]]
"""Reads from the given store, and awaits nothing else"""


class _Fetch(NamedTuple):
    """A request for records by key."""

    keys: Sequence[Key]
    consistent: bool


_Request = ReadGroup | _Fetch


@coroutine
def _suspend(request: _Request) -> Generator[_Request, Any, Any]:
    return (yield request)


class _RoundStore(ForwardingStore):
    """Suspends each read until the reads of all searches are known."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        results: Sequence[ReadResult] = await _suspend(ReadGroup(reads, want))
        return results

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        items: Sequence[Item | None] = await _suspend(_Fetch(keys, consistent))
        return items


async def read_in_rounds(
    store: Store, searches: Sequence[Search[T]], first_answers: Mapping[int, Any] = NO_ANSWERS
) -> list[T | BaseException]:
    """Return the result of each search, or its error.

    `first_answers`: answers to the first requests of some searches, or errors, which are known already.
    """
    rounds = _Rounds[T]([search(_RoundStore(store)) for search in searches])
    try:
        for position in range(len(searches)):
            rounds.advance(position, None)
        for position, answer in first_answers.items():
            if rounds.waiting.pop(position, None) is not None:
                rounds.advance(position, answer)
        while rounds.waiting:
            await rounds.read(store)
    finally:
        for search in rounds.searches:
            search.close()
    return rounds.results


class _Rounds(Generic[T]):
    """The searches that run, and what they wait for."""

    def __init__(self, searches: Sequence[Coroutine[Any, Any, T]]) -> None:
        self.searches = searches
        self.results: list[Any] = [None] * len(searches)
        self.waiting: dict[int, _Request] = {}

    def advance(self, position: int, answer: Any) -> None:
        """Continue a search with the answer to its request, or with the error of the call, until it waits or ends."""
        search = self.searches[position]
        try:
            if isinstance(answer, Exception):
                self.waiting[position] = search.throw(answer)
            else:
                self.waiting[position] = search.send(answer)
        except StopIteration as end:
            self.results[position] = end.value
        except Exception as problem:  # noqa: BLE001 - the caller receives it
            self.results[position] = problem

    async def read(self, store: Store) -> None:
        """Send all requests, and continue the searches with the answers."""
        waiting, self.waiting = self.waiting, {}
        calls = [*_calls(waiting)]
        if len(calls) == 1 or isinstance(store, _RoundStore):  # The rounds of a batch wait for those around them.
            answers = [await _answers_or_error(call, store) for call in calls]
        else:
            answers = await gather(*(_answers_or_error(call, store) for call in calls))
        for call, found in zip(calls, answers, strict=True):
            for position, answer in zip(call.positions, found, strict=True):
                self.advance(position, answer)


# --- calls of the store ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _RangesCall:
    """One call for the range reads of several searches."""

    positions: list[int] = field(default_factory=list)
    groups: list[ReadGroup] = field(default_factory=list)

    def add(self, position: int, group: ReadGroup) -> None:
        """Add the reads of a search."""
        self.positions.append(position)
        self.groups.append(group)

    async def send(self, store: Store) -> Sequence[Any]:
        """Return the pages for each search."""
        if len(self.groups) == 1:
            return [await store.read_ranges(*self.groups[0])]
        # A search of a batch reads for several searches itself.
        nested = [group.reads.groups if isinstance(group.reads, ReadGroups) else [group] for group in self.groups]
        reads = ReadGroups([*chain.from_iterable(nested)])
        pages = iter(pages_of_groups(reads, await store.read_ranges(reads, reads.want)))
        answers = ([*islice(pages, len(groups))] for groups in nested)
        return [
            GroupedPages(answer) if isinstance(group.reads, ReadGroups) else answer[0]
            for group, answer in zip(self.groups, answers, strict=True)
        ]


@dataclass(slots=True)
class _FetchCall:
    """One call for the records that several searches fetch by key."""

    consistent: bool
    positions: list[int] = field(default_factory=list)
    requests: list[_Fetch] = field(default_factory=list)
    keys: dict[Key, None] = field(default_factory=dict)

    def add(self, position: int, request: _Fetch) -> bool:
        """Add the keys of a search. Return False if the call would be too large."""
        if self.keys and len(self.keys) + len(request.keys) > MAX_FETCHED:
            return False
        self.positions.append(position)
        self.requests.append(request)
        self.keys |= dict.fromkeys(request.keys)
        return True

    async def send(self, store: Store) -> Sequence[Any]:
        """Return the records for each search."""
        keys = [*self.keys]
        items = dict(zip(keys, await store.get_many(keys, self.consistent), strict=True))
        return [[items[key] for key in request.keys] for request in self.requests]


def _calls(waiting: dict[int, _Request]) -> Iterator[_RangesCall | _FetchCall]:
    """Yield the calls that answer all requests: one for each index and direction, and few for records by key."""
    ranges: dict[tuple[str | None, bool], _RangesCall] = {}
    fetches: dict[bool, list[_FetchCall]] = {}
    for position, request in waiting.items():
        if isinstance(request, ReadGroup):
            kind = index_of(request.reads), is_descending(request.reads)
            ranges.setdefault(kind, _RangesCall()).add(position, request)
        else:
            calls = fetches.setdefault(request.consistent, [])
            if not (calls and calls[-1].add(position, request)):
                calls.append(_FetchCall(request.consistent))
                calls[-1].add(position, request)
    yield from ranges.values()
    for made in fetches.values():
        yield from made


async def _answers_or_error(call: _RangesCall | _FetchCall, store: Store) -> Sequence[Any]:
    """Return the answer to each search of a call; its error if it fails."""
    try:
        return await call.send(store)
    except Exception as problem:  # noqa: BLE001 - each search receives it
        return [problem] * len(call.positions)
