"""Retries of one operation: exponential backoff with full jitter, up to a number of attempts and a deadline."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from secrets import SystemRandom
from typing import TypeVar

from graphql_api.errors import StoreError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStrategy:
    """How often, how long and at which pace an operation is attempted."""

    first_backoff_seconds: float
    """upper bound of the first pause; it doubles with every further pause"""
    max_backoff_seconds: float
    """upper bound of every pause"""
    max_attempts: int = sys.maxsize
    """number of attempts, including the first one"""
    max_seconds: float = inf
    """no further attempt starts this long after the start of the operation"""
    uniform: Callable[[float, float], float] = SystemRandom().uniform
    """returns the length of a pause, at random between two bounds"""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """pauses for a number of seconds"""
    clock: Callable[[], float] = lambda: asyncio.get_running_loop().time()
    """returns the time that deadlines refer to"""

    def start(self, deadline: float = inf) -> "Retries":
        """Start an operation. No further attempt starts after the deadline."""
        return Retries(self, min(deadline, self.clock() + self.max_seconds))

    async def run(
        self, attempt: Callable[[], Awaitable[T]], on_first_retry: Callable[[StoreError], None] = lambda _: None
    ) -> T:
        """Repeat an operation that is safe to repeat, while its error is a retryable one of the store."""
        retries = self.start()
        while True:
            try:
                return await attempt()
            except StoreError as problem:
                if not problem.retryable or not await retries.pause():
                    raise
                if retries.failed_attempts == 1:
                    on_first_retry(problem)


class Retries:
    """The retries of one operation."""

    def __init__(self, strategy: RetryStrategy, deadline: float) -> None:
        self._strategy = strategy
        self._deadline = deadline
        self.failed_attempts = 0
        """reset it after progress, so that the pauses are short again"""

    async def pause(self, permit: Callable[[float], Awaitable[bool]] | None = None) -> bool:
        """Count a failed attempt, and pause before the next one. Return False if no further attempt may start.

        `permit` is called after the pause, with the deadline. It may wait, or refuse the retry.
        """
        strategy = self._strategy
        self.failed_attempts += 1
        if self.failed_attempts >= strategy.max_attempts:
            return False
        longest = strategy.first_backoff_seconds * 2 ** (self.failed_attempts - 1)
        seconds = strategy.uniform(0, min(strategy.max_backoff_seconds, longest))
        if strategy.clock() + seconds >= self._deadline:
            return False
        await strategy.sleep(seconds)
        if permit is not None and not await permit(self._deadline):
            return False
        return strategy.clock() < self._deadline  # The process may have been suspended.
