"""Concurrency limits, and circuit breakers per shard."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from graphql_api.errors import StoreUnavailable
from graphql_api.storage.engines.dynamodb.dynamodb_settings import DynamoSettings

MAX_TRACKED_SHARDS = 10_000


class _Limit(asyncio.Semaphore):
    """A semaphore that can also be acquired at once, without a coroutine."""

    def acquire_now(self) -> bool:
        """Acquire it if that needs no waiting."""
        if self._value <= 0 or self._waiters:
            return False
        self._value -= 1
        return True


@dataclass(slots=True)
class ShardState:
    """Concurrency limit and circuit breaker of one shard: a hash key of an index."""

    semaphore: _Limit
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
        self._all = _Limit(settings.in_flight)
        self._operations = defaultdict[str, _Limit](lambda: _Limit(settings.in_flight_of_operation))
        self._shards = defaultdict[str, ShardState](lambda: ShardState(_Limit(settings.in_flight_of_shard)))

    def slot(self, operation: str, shard: str | None) -> "Slot":
        """Return a slot of each semaphore that applies to a request. Waiting for it is limited by the caller."""
        return Slot(self, shard, (self._operations[operation], self._all))

    def enter(self, shard: str) -> ShardState:
        """Return the state of a shard, and count a request that uses it."""
        state = self._shards[shard]
        state.in_use += 1
        return state

    def leave(self, shard: str, state: ShardState, *, is_probe: bool) -> None:
        """Count a request less."""
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

    def admit(self, name: str, shard: ShardState) -> bool:
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


class Slot:
    """A slot of the semaphores of one request: first that of its shard, then the shared ones.

    It is no generator, since each query of a page enters one.
    """

    __slots__ = ("_held", "_is_probe", "_limiter", "_shard", "_shared", "_state")

    def __init__(self, limiter: ConcurrencyLimiter, shard: str | None, shared: Sequence[_Limit]) -> None:
        self._limiter = limiter
        self._shard = shard
        self._shared = shared
        self._held: list[_Limit] = []
        self._state: ShardState | None = None
        self._is_probe = False

    def enter_now(self) -> bool:
        """Enter if that needs no waiting, and if no circuit breaker is open."""
        shard, held = self._shard, self._held
        state = None
        if shard is not None:
            state = self._limiter.enter(shard)
            if state.open_until or not state.semaphore.acquire_now():
                self._limiter.leave(shard, state, is_probe=False)
                return False
            held.append(state.semaphore)
        self._state = state
        for limit in self._shared:
            if not limit.acquire_now():
                self.leave()
                return False
            held.append(limit)
        return True

    async def __aenter__(self) -> None:
        try:
            if self._shard is not None:
                state = self._state = self._limiter.enter(self._shard)
                await self._wait_for(state.semaphore)
                self._is_probe = self._limiter.admit(self._shard, state)
            for limit in self._shared:
                await self._wait_for(limit)
        except BaseException:
            self.leave()
            raise

    async def _wait_for(self, limit: _Limit) -> None:
        await limit.acquire()
        self._held.append(limit)

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Release what is held."""
        while self._held:
            self._held.pop().release()
        if self._shard is not None and self._state is not None:
            self._limiter.leave(self._shard, self._state, is_probe=self._is_probe)
            self._state = None
