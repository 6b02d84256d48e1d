"""A store for many writers at once: what they ask for at one moment goes on as one call, and as one transaction.

Nobody depends on the others. Of transactions that are sent as one, those whose condition fails are told so for
themselves, and the rest is sent again without them. Where nobody knows whether all of them were carried out, each is
told so, and asks again under its token, which stands for that of all. So each has what it would have of the store
itself: all of its writes or none, once.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, Self

from graphql_api.errors import ConditionFailed, Conflict, StoreDenied, StoreError, for_one_of_several
from graphql_api.storage import (
    MAX_TOGETHER,
    Check,
    Item,
    Key,
    Put,
    RangeRead,
    ReadAnswer,
    ScanPage,
    Store,
    TableDefinition,
    TogetherWrite,
    Write,
)
from graphql_api.writes.item_keys import key_of
from graphql_api.writes.transactions import is_certain


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Keys that somebody asks for, and waits; the answer is None where they have to ask for themselves."""

    keys: Sequence[Key]
    answer: asyncio.Future[Sequence[Item | None] | None]


@dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """A transaction that somebody asks for, and waits; the answer is False where they have to ask for themselves."""

    writes: Mapping[Key, TogetherWrite]
    token: str
    answer: asyncio.Future[bool]


@dataclass(slots=True)
class _Group:
    """Transactions that are sent as one."""

    writes: dict[Key, TogetherWrite] = field(default_factory=dict)
    members: list[_Writing] = field(default_factory=list)
    token: str = field(default_factory=lambda: token_urlsafe(18))
    asking: asyncio.Task[bool] | None = None
    """what became of it, where nobody had heard of that: one of them asks for all"""

    def takes(self, one: _Writing) -> bool:
        """Whether another transaction finds room here, and has no key in common but to check the same of it."""
        common = self.writes.keys() & one.writes.keys()
        room = len(self.writes) + len(one.writes) - len(common) <= MAX_TOGETHER
        return room and all(_checks_the_same(self.writes[key], one.writes[key]) for key in common)


class Together:
    """Passes every call on; reads by key and transactions that are asked for at one moment as one.

    Nothing of it outlives its `async with`.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self._reads: list[_Read] = []
        self._writings: list[_Writing] = []
        self._unheard: dict[str, _Group] = {}
        """by the token of each of its members: what was sent, and nobody knows what became of it"""
        self._sent_alone = set[str]()
        """tokens of what must not go on under another one: it may have been carried out, and would be once more"""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """The records at these keys."""
        items = None
        if consistent:
            read = _Read(keys, asyncio.get_running_loop().create_future())
            self._wake()
            self._reads.append(read)
            items = await read.answer
        return await self.inner.get_many(keys, consistent) if items is None else items

    async def write_together(self, writes: Sequence[TogetherWrite], token: str) -> None:
        """Applies all writes or none."""
        unheard = self._unheard.pop(token, None)
        named = {_key(write): write for write in writes}
        done = False
        if unheard is not None:
            done = await self._heard_of(unheard, token)
        elif token not in self._sent_alone and len(named) == len(writes):  # Else the inner store says what is wrong.
            one = _Writing(named, token, asyncio.get_running_loop().create_future())
            self._wake()
            self._writings.append(one)
            done = await one.answer
        if not done:
            self._sent_alone.add(token)
            await self.inner.write_together(writes, token)

    # --- waiting for the others --------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not (self._reads or self._writings):
            asyncio.get_running_loop().call_soon(self._wait, 0)

    def _wait(self, came: int) -> None:
        """Waits until nobody comes any more of those who can go on just now."""
        waiting = len(self._reads) + len(self._writings)
        if waiting > came:
            asyncio.get_running_loop().call_soon(self._wait, waiting)
            return
        reads, self._reads = [one for one in self._reads if not one.answer.done()], []
        writings, self._writings = [one for one in self._writings if not one.answer.done()], []
        if reads:
            self._start(self._read(reads))
        for group in _groups(writings):
            self._start(self._write(group))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._keep(asyncio.get_running_loop().create_task(work))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- together ----------------------------------------------------------------------------------------------

    async def _read(self, reads: Sequence[_Read]) -> None:
        keys = [*dict.fromkeys(key for read in reads for key in read.keys)]
        try:
            found = dict(zip(keys, await self.inner.get_many(keys, consistent=True), strict=True))
        except Exception as problem:  # noqa: BLE001 - whoever asks for themselves is told the same
            for read in reads:
                _settle(read.answer, _for_all(problem), None)
        else:
            for read in reads:
                _settle(read.answer, None, [found[key] for key in read.keys])

    async def _write(self, group: _Group) -> None:
        alone = group.members if len(group.members) == 1 else []
        problem = None
        try:
            if not alone:
                await self.inner.write_together([*group.writes.values()], group.token)
        except ConditionFailed as failed:
            keys = [*group.writes]
            wrong = {keys[place] for place in failed.failures}
            alone = [one for one in group.members if not wrong.isdisjoint(one.writes)]
            for rest in _groups(one for one in group.members if wrong.isdisjoint(one.writes)):
                self._start(self._write(rest))
            group.members = alone
        except Exception as failed:  # noqa: BLE001 - whoever asks for themselves is told the same
            problem, alone = _for_all(failed), group.members
            if problem is not None and not is_certain(problem):
                self._unheard |= dict.fromkeys((one.token for one in group.members), group)
        for one in group.members:
            _settle(one.answer, problem, not alone)

    async def _heard_of(self, group: _Group, token: str) -> bool:
        """Whether a group was carried out of which nobody knew; an error as long as that is so."""
        if group.asking is None or _has_failed(group.asking):
            group.asking = asyncio.get_running_loop().create_task(self._ask(group))
            self._keep(group.asking)
        try:
            return await asyncio.shield(group.asking)
        except StoreError as problem:
            self._unheard[token] = group
            raise for_one_of_several(problem) from problem

    async def _ask(self, group: _Group) -> bool:
        try:
            await self.inner.write_together([*group.writes.values()], group.token)
        except StoreError as problem:
            if problem.retryable or isinstance(problem, StoreDenied):
                raise
            return False
        return True

    # --- passed on ---------------------------------------------------------------------------------------------

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadAnswer]:
        """Answers several reads of one index."""
        return await self.inner.read_ranges(reads, want)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Applies each write by itself."""
        return await self.inner.write(writes)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """A part of the whole table."""
        return await self.inner.scan(segment, of, after)

    async def describe(self) -> TableDefinition | None:
        """The table as it stands."""
        return await self.inner.describe()

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Makes the table, or what it lacks."""
        await self.inner.ensure_table(definition)

    async def close(self) -> None:
        """Closes the inner store."""
        await self.inner.close()


def _groups(writings: Iterable[_Writing]) -> list[_Group]:
    """As few groups as it takes, in turn."""
    groups: list[_Group] = []
    for one in writings:
        if not groups or not groups[-1].takes(one):
            groups.append(_Group())
        groups[-1].writes |= one.writes
        groups[-1].members.append(one)
    return groups


def _checks_the_same(one: TogetherWrite, other: TogetherWrite) -> bool:
    return isinstance(one, Check) and one == other


def _key(write: TogetherWrite) -> Key:
    return key_of(write.item) if isinstance(write, Put) else write.key


def _for_all(problem: Exception) -> StoreError | None:
    """A problem of the moment is one of everybody; what else there is may be that of one of them alone."""
    if isinstance(problem, StoreError) and problem.retryable and not isinstance(problem, Conflict):
        return problem
    return None


def _has_failed(task: asyncio.Task[bool]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _settle(answer: asyncio.Future[Any], problem: StoreError | None, result: Any) -> None:
    """Answers who still waits."""
    if answer.done():
        return
    if problem is None:
        answer.set_result(result)
    else:
        answer.set_exception(for_one_of_several(problem))
