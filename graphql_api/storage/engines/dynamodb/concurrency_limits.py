"""How much may be on its way at once, and how often the process may try again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from graphql_api.errors import StoreUnavailable
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings

MAX_SHARDS_REMEMBERED = 10_000
_BURST = 10
"""the budget holds at most so many times its floor"""


class RetryBudget:
    """Retries as a share of requests, with a floor so that a fresh process can try again too."""

    def __init__(self, share: float, floor: float, clock: Callable[[], float]) -> None:
        self._share = share
        self._floor = floor
        self._clock = clock
        self._tokens = floor
        self._filled_at = clock()

    def earn(self) -> None:
        """Counts a request."""
        self._tokens = min(self._tokens + self._share, self._floor * _BURST)

    def take(self) -> bool:
        """Whether one retry more is allowed; if so it is spent."""
        now = self._clock()
        if self._tokens < self._floor:
            self._tokens = min(self._floor, self._tokens + (now - self._filled_at) * self._floor)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Shard:
    """One hash key of an index, as a place where requests can pile up or go unanswered."""

    __slots__ = ("failures", "name", "open_until", "room", "trying", "users")

    def __init__(self, name: str, room: int) -> None:
        self.name = name
        self.room = asyncio.Semaphore(room)
        self.users = 0
        self.failures = 0
        self.open_until = 0.0
        self.trying = False


@dataclass(slots=True)
class Traffic:
    """The semaphores of one store: by shard first, so that a silent one never holds the places of the others."""

    settings: DynamoSettings
    clock: Callable[[], float]
    _all: asyncio.Semaphore = field(init=False)
    _operations: dict[str, asyncio.Semaphore] = field(init=False, default_factory=dict)
    _shards: dict[str, Shard] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._all = asyncio.Semaphore(self.settings.in_flight)

    @asynccontextmanager
    async def place(self, operation: str, shard: str | None) -> AsyncIterator[None]:
        """Holds a place in every queue that a request has to pass; waits for it as long as the caller lets it."""
        kind = self._operations.get(operation)
        if kind is None:
            kind = self._operations[operation] = asyncio.Semaphore(self.settings.in_flight_of_operation)
        if shard is None:
            async with kind, self._all:
                yield
            return
        known = self._shards.get(shard)
        if known is None:
            known = self._shards[shard] = Shard(shard, self.settings.in_flight_of_shard)
        known.users += 1
        trial = False
        try:
            async with known.room:
                trial = self._pass_breaker(known)
                async with kind, self._all:
                    yield
        finally:
            known.users -= 1
            if trial:
                known.trying = False
            self._forget(known)

    def answered(self, shard: str | None) -> None:
        """Notes that a shard is well."""
        known = self._shards.get(shard or "")
        if known is not None:
            known.failures = 0

    def unanswered(self, shard: str | None) -> None:
        """Notes that a request to a shard got no answer; after some in a row it is left alone."""
        if shard is None:
            return
        known = self._shards.get(shard)
        if known is None:
            known = self._shards[shard] = Shard(shard, self.settings.in_flight_of_shard)
            self._forget_oldest()
        known.failures += 1
        if known.failures >= self.settings.breaker_failures:
            known.open_until = self.clock() + self.settings.breaker_seconds

    def _pass_breaker(self, shard: Shard) -> bool:
        """Refuses while the shard is left alone; True for the one request that tries it afterwards."""
        if shard.failures < self.settings.breaker_failures:
            return False
        if shard.trying or self.clock() < shard.open_until:
            raise StoreUnavailable(
                f"{shard.name} has left {shard.failures} requests in a row unanswered and is left alone for a moment. "
                "Try again a little later."
            )
        shard.trying = True
        return True

    def _forget(self, shard: Shard) -> None:
        """Keeps memory of shards that are in use or out of order."""
        if shard.users == 0 and shard.failures == 0 and self._shards.get(shard.name) is shard:
            del self._shards[shard.name]

    def _forget_oldest(self) -> None:
        """Of shards out of order, only so many are remembered."""
        if len(self._shards) > MAX_SHARDS_REMEMBERED:
            idle = next((name for name, shard in self._shards.items() if shard.users == 0), None)
            if idle is not None:
                del self._shards[idle]
