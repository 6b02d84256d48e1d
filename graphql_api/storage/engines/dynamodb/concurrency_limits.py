"""Concurrency limits, and circuit breakers per shard."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from graphql_api.errors import StoreUnavailable
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings

MAX_TRACKED_SHARDS = 10_000


@dataclass(slots=True)
class ShardState:
    """Concurrency limit and circuit breaker of one shard: a hash key of an index."""

    semaphore: asyncio.Semaphore
    in_use: int = 0
    failures: int = 0
    """requests without response in a row"""
    failing_since: float = 0.0
    """time of the first of these failures"""
    open_until: float = 0.0
    probing: bool = False


class ConcurrencyLimiter:
    """The semaphores of one store.

    The semaphore of the shard is acquired first, so that a slow shard does not occupy shared slots.
    """

    def __init__(self, settings: DynamoSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._all = asyncio.Semaphore(settings.in_flight)
        self._operations = defaultdict[str, asyncio.Semaphore](
            lambda: asyncio.Semaphore(settings.in_flight_of_operation)
        )
        self._shards = defaultdict[str, ShardState](lambda: ShardState(asyncio.Semaphore(settings.in_flight_of_shard)))

    @asynccontextmanager
    async def slot(self, operation: str, shard: str | None) -> AsyncIterator[None]:
        """Hold a slot of each semaphore that applies to a request. Waiting is limited by the caller."""
        if shard is None:
            async with self._operations[operation], self._all:
                yield
            return
        state = self._shards[shard]
        state.in_use += 1
        is_probe = False
        try:
            async with state.semaphore:
                is_probe = self._admit(shard, state)
                async with self._operations[operation], self._all:
                    yield
        finally:
            state.in_use -= 1
            state.probing &= not is_probe
            if not (state.in_use or state.failures) and self._shards.get(shard) is state:
                del self._shards[shard]

    def record_success(self, shard: str | None) -> None:
        """Record a response of a shard, which resets its circuit breaker."""
        state = self._shards.get(shard or "")
        if state is not None:
            state.failures, state.open_until = 0, 0.0

    def record_failure(self, shard: str | None) -> None:
        """Record a request without response.

        The circuit breaker opens after a number in a row, over at least the time of an attempt. So a burst of resets
        between responses does not open it.
        """
        if shard is None:
            return
        state, now = self._shards[shard], self._clock()
        if not state.failures:
            state.failing_since = now
        state.failures += 1
        if self._is_failing(state, now):
            state.open_until = now + self._settings.breaker_seconds
        if len(self._shards) > MAX_TRACKED_SHARDS:  # Drop the oldest idle one.
            idle = next((name for name, other in self._shards.items() if not other.in_use and other is not state), None)
            if idle is not None:
                del self._shards[idle]

    def has_free_slot(self, operation: str, shard: str | None) -> bool:
        """Return whether a further request would get a slot without waiting."""
        state = self._shards.get(shard or "")
        semaphores = [self._operations[operation], self._all, *([state.semaphore] if state is not None else ())]
        return not any(semaphore.locked() for semaphore in semaphores)

    def _is_failing(self, shard: ShardState, now: float) -> bool:
        settings = self._settings
        return shard.failures >= settings.breaker_failures and now - shard.failing_since >= settings.read_seconds

    def _admit(self, name: str, shard: ShardState) -> bool:
        """Refuse while the circuit breaker is open. Return True for the one probe request afterwards."""
        if not shard.open_until:
            return False
        if shard.probing or self._clock() < shard.open_until:
            raise StoreUnavailable(
                f"{name} did not respond to {shard.failures} requests in a row, and its circuit breaker is open. "
                "Try again later."
            )
        shard.probing = True
        return True
