"""A store that shows the number of sequential round trips of an operation."""

from asyncio import Future, Task, create_task, get_running_loop, sleep
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult

T = TypeVar("T")

QUIET_TURNS = 50
"""event loop turns without a new call; after them only a reply can continue the work"""


@dataclass(frozen=True)
class Call:
    """One call of the store."""

    keys: tuple[Key, ...] = ()
    """keys of a point lookup"""
    reads: tuple[RangeRead, ...] = ()


class LevelStore(ForwardingStore):
    """Holds calls until no other work can run, then answers all held calls as one level.

    Follow-up reads of the same shards count to the level of the first read.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.levels: list[list[Call]] = []
        self._seen_shards = set[tuple[str | None, str]]()
        self._held: list[tuple[Call, Future[None]]] = []
        self._running = 0
        self._watcher: Task[None] | None = None

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await self._hold(Call(reads=tuple(reads)), super().read_ranges(reads, want))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        return await self._hold(Call(keys=tuple(keys)), super().get_many(keys, consistent))

    async def _hold(self, call: Call, work: Awaitable[T]) -> T:
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
            self._record_level([call for call, _ in held])
            for _, turn in held:
                turn.set_result(None)
            await sleep(0)

    def _record_level(self, calls: Sequence[Call]) -> None:
        shards = [[(read.index, read.hash_key) for read in call.reads] for call in calls]
        first = [
            call for call, own in zip(calls, shards, strict=True) if not own or not self._seen_shards.issuperset(own)
        ]
        self._seen_shards.update(shard for own in shards for shard in own)
        if first:
            self.levels.append(first)
