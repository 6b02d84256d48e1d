"""A store that shows in how many steps, one after the other, an answer is read."""

from asyncio import Future, Task, create_task, get_running_loop, sleep
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.stores import WrappedStore

T = TypeVar("T")

QUIET_TURNS = 50
"""of the event loop in which nobody calls: then nothing can go on but by an answer"""


@dataclass(frozen=True)
class Call:
    """One call of the store."""

    keys: tuple[Key, ...] = ()
    """of a read by key"""
    reads: tuple[RangeRead, ...] = ()


class LevelStore(WrappedStore):
    """Holds every call until nothing else can run, and answers all that it holds together: each time is a level.

    A call that only asks on, in shards that its search has asked before, belongs to the level of the first one.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.levels: list[list[Call]] = []
        self._asked = set[tuple[str | None, str]]()
        self._held: list[tuple[Call, Future[None]]] = []
        self._running = 0
        self._watcher: Task[None] | None = None

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await self._in_turn(Call(reads=tuple(reads)), super().read_ranges(reads, want))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        return await self._in_turn(Call(keys=tuple(keys)), super().get_many(keys, consistent))

    async def _in_turn(self, call: Call, work: Awaitable[T]) -> T:
        turn: Future[None] = get_running_loop().create_future()
        self._held.append((call, turn))
        if self._watcher is None or self._watcher.done():
            self._watcher = create_task(self._watch())
        await turn
        self._running += 1
        try:
            return await work
        finally:
            self._running -= 1

    async def _watch(self) -> None:
        while self._held:
            known, quiet = 0, 0
            while quiet < QUIET_TURNS:
                await sleep(0.001 if self._running else 0)
                quiet = quiet + 1 if len(self._held) == known and not self._running else 0
                known = len(self._held)
            held, self._held = self._held, []
            self._note([call for call, _ in held])
            for _, turn in held:
                turn.set_result(None)
            await sleep(0)

    def _note(self, calls: Sequence[Call]) -> None:
        places = [[(read.index, read.hash_key) for read in call.reads] for call in calls]
        first = [call for call, asks in zip(calls, places, strict=True) if not asks or not self._asked.issuperset(asks)]
        self._asked.update(place for asks in places for place in asks)
        if first:
            self.levels.append(first)
