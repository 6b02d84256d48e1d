"""Concurrency limits, circuit breakers per shard, and the retry budget of a process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from graphql_api.errors import StoreUnavailable
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings

MAX_TRACKED_SHARDS = 10_000
_BURST_FACTOR = 10
"""the budget holds at most this multiple of its floor"""


class RetryBudget:
    """Limits retries to a share of requests. A floor allows retries in a new process."""

    def __init__(self, share: float, floor: float, clock: Callable[[], float]) -> None:
        self._share = share
        self._floor = floor
        self._clock = clock
        self._tokens = floor
        self._filled_at = clock()

    def deposit(self) -> None:
        """Count a request."""
        self._tokens = min(self._tokens + self._share, self._floor * _BURST_FACTOR)

    def withdraw(self) -> bool:
        """Withdraw one retry. Return False if the budget is exhausted."""
        now = self._clock()
        if self._tokens < self._floor:
            self._tokens = min(self._floor, self._tokens + (now - self._filled_at) * self._floor)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class ShardState:
    """Concurrency limit and circuit breaker of one shard: a hash key of an index."""

    __slots__ = ("failures", "in_use", "name", "open_until", "probing", "semaphore")

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.semaphore = asyncio.Semaphore(limit)
        self.in_use = 0
        self.failures = 0
        self.open_until = 0.0
        self.probing = False


@dataclass(slots=True)
class ConcurrencyLimiter:
    """The semaphores of one store.

    The semaphore of the shard is acquired first, so that a slow shard does not occupy shared slots.
    """

    settings: DynamoSettings
    clock: Callable[[], float]
    _all: asyncio.Semaphore = field(init=False)
    _operations: dict[str, asyncio.Semaphore] = field(init=False, default_factory=dict)
    _shards: dict[str, ShardState] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._all = asyncio.Semaphore(self.settings.in_flight)

    @asynccontextmanager
    async def slot(self, operation: str, shard: str | None) -> AsyncIterator[None]:
        """Hold a slot of each semaphore that applies to a request. Waiting is limited by the caller."""
        operation_semaphore = self._operations.get(operation)
        if operation_semaphore is None:
            operation_semaphore = self._operations[operation] = asyncio.Semaphore(self.settings.in_flight_of_operation)
        if shard is None:
            async with operation_semaphore, self._all:
                yield
            return
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = ShardState(shard, self.settings.in_flight_of_shard)
        state.in_use += 1
        is_probe = False
        try:
            async with state.semaphore:
                is_probe = self._admit(state)
                async with operation_semaphore, self._all:
                    yield
        finally:
            state.in_use -= 1
            if is_probe:
                state.probing = False
            self._drop_idle(state)

    def record_success(self, shard: str | None) -> None:
        """Record a response of a shard, which resets its circuit breaker."""
        state = self._shards.get(shard or "")
        if state is not None:
            state.failures = 0

    def record_failure(self, shard: str | None) -> None:
        """Record a request without response. After a number in a row the circuit breaker opens."""
        if shard is None:
            return
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = ShardState(shard, self.settings.in_flight_of_shard)
            self._evict_oldest()
        state.failures += 1
        if state.failures >= self.settings.breaker_failures:
            state.open_until = self.clock() + self.settings.breaker_seconds

    def _admit(self, shard: ShardState) -> bool:
        """Refuse while the circuit breaker is open. Return True for the one probe request afterwards."""
        if shard.failures < self.settings.breaker_failures:
            return False
        if shard.probing or self.clock() < shard.open_until:
            raise StoreUnavailable(
                f"{shard.name} did not respond to {shard.failures} requests in a row, and its circuit breaker is open. "
                "Try again later."
            )
        shard.probing = True
        return True

    def _drop_idle(self, shard: ShardState) -> None:
        """Drop the state of a shard that is idle and has no failures."""
        if shard.in_use == 0 and shard.failures == 0 and self._shards.get(shard.name) is shard:
            del self._shards[shard.name]

    def _evict_oldest(self) -> None:
        """Limit the number of tracked shards by dropping the oldest idle one."""
        if len(self._shards) > MAX_TRACKED_SHARDS:
            idle = next((name for name, shard in self._shards.items() if shard.in_use == 0), None)
            if idle is not None:
                del self._shards[idle]
