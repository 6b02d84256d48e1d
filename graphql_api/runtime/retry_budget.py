"""The retry budget of a process: it bounds the retries that fail, not those that help.

A retry withdraws a token, and returns it if it succeeds. So retries cost nothing while they succeed, as after a blip
that every shard has once. While nothing succeeds, they are limited to a share of all requests, above a floor.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

_MAX_SAVED = 10
"""the tokens that requests have added are limited to this multiple of the floor"""
_ROUNDING = 1e-9


class RetryBudget:
    """Limits failed retries to a share of requests, above a floor that is available at the start and each second.

    The floor is at least the fan-out of the widest operation in progress: each of its requests may need one retry.
    """

    def __init__(self, share: float, floor: float, clock: Callable[[], float]) -> None:
        self._share = share
        self._min_floor = floor
        self._clock = clock
        self._saved = 0.0
        """tokens that requests have added"""
        self._used = 0.0
        """used share of the floor. A share, so that it stays valid when the floor changes."""
        self._refilled_at = clock()
        self._fan_outs = Counter[int]()
        """of the operations in progress"""
        self._queue = asyncio.Lock()
        self._changed = asyncio.Event()

    @contextmanager
    def operation(self, fan_out: int) -> Iterator[None]:
        """Raise the floor to the number of concurrent requests of an operation, while it is in progress."""
        self._fan_outs[fan_out] += 1
        try:
            yield
        finally:
            self._fan_outs[fan_out] -= 1
            if not self._fan_outs[fan_out]:
                del self._fan_outs[fan_out]

    def deposit(self) -> None:
        """Count a request."""
        self._saved = min(self._saved + self._share, self._min_floor * _MAX_SAVED)

    def refund(self) -> None:
        """Return the token of a retry that succeeded."""
        floor = self._refill()
        if self._used > 0:
            self._used = max(0.0, self._used - 1 / floor)
        else:
            self._saved = min(self._saved + 1, self._min_floor * _MAX_SAVED)
        self._changed.set()

    async def withdraw(self, deadline: float = inf) -> bool:
        """Withdraw one retry. Wait for it in the order of the calls. Return False at the deadline, in loop time."""
        try:
            async with asyncio.timeout_at(None if deadline == inf else deadline), self._queue:
                while not self._take():
                    await self._wait_for_token()
        except TimeoutError:
            return False
        return True

    def _take(self) -> bool:
        floor = self._refill()
        if self._saved >= 1 - _ROUNDING:
            self._saved -= 1
        elif (1 - self._used) * floor >= 1 - _ROUNDING:
            self._used += 1 / floor
        else:
            return False
        return True

    def _refill(self) -> float:
        """Restore the floor at the rate of one floor per second. Return the floor."""
        now = self._clock()
        self._used = max(0.0, self._used - (now - self._refilled_at))
        self._refilled_at = now
        return max(self._min_floor, *self._fan_outs) if self._fan_outs else self._min_floor

    async def _wait_for_token(self) -> None:
        """Wait until the floor has another token, or until one is returned."""
        self._changed.clear()
        floor = self._refill()
        timer = asyncio.get_running_loop().call_later(max(0.0, self._used - 1 + 1 / floor), self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()
