"""The memory budget of a process: bounds the replies of the store that operations in progress hold.

An operation reserves memory before its first read, and waits for it in the order of arrival. If its reads need more
than the whole budget, it waits until it is alone. Further reads of an operation never wait: otherwise operations could
wait for each other. They count, so that new operations wait until there is room again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar


class MemoryBudget:
    """A number of bytes, and the operations that share it."""

    def __init__(self, max_bytes: int, wait_seconds: float, refuse: Callable[[], Exception]) -> None:
        self.max_bytes = max_bytes
        self._wait_seconds = wait_seconds
        self._refuse = refuse
        """returns the error of an operation that has waited too long"""
        self.used = 0
        self._waiting = deque[tuple[int, asyncio.Future[None]]]()

    @contextmanager
    def operation(self) -> Iterator["OperationMemory"]:
        """Account for the memory of the block, which is released at its end."""
        memory = OperationMemory(self)
        token = _current.set(memory)
        try:
            yield memory
        finally:
            _current.reset(token)
            self.change(-memory.held)

    async def wait_for(self, size: int) -> None:
        """Take a number of bytes as soon as they fit, or as nothing is used."""
        if self._waiting or not self._fits(size):
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, place))
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await place
            except BaseException as problem:
                if place.done() and not place.cancelled():
                    self.change(-size)
                else:
                    with suppress(ValueError):
                        self._waiting.remove((size, place))
                    self.change(0)
                if isinstance(problem, TimeoutError):
                    raise self._refuse() from None
                raise
        else:
            self.used += size

    def change(self, size: int) -> None:
        """Take or release a number of bytes without waiting. Operations that wait continue if they fit."""
        self.used += size
        while self._waiting and self._fits(self._waiting[0][0]):
            next_size, place = self._waiting.popleft()
            if not place.done():  # Otherwise its operation is being cancelled.
                self.used += next_size
                place.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self.used or self.used + size <= self.max_bytes


class OperationMemory:
    """The memory of one operation."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.held = 0
        self.may_wait = True
        """an operation that may have written something is not refused, so it does not wait"""

    async def reserve(self, size: int) -> None:
        """Reserve memory for replies. Only the first reservation of an operation waits."""
        if self.held or not self.may_wait:
            self.budget.change(size)
        else:
            await self.budget.wait_for(size)
        self.held += size

    def adjust(self, size: int) -> None:
        """Add to a reservation, or release a part of it, when the size of the replies is known."""
        self.held += size
        self.budget.change(size)


_current: ContextVar[OperationMemory | None] = ContextVar("memory of the operation", default=None)


def current_memory() -> OperationMemory | None:
    """Return the memory of the current operation, if it is bounded."""
    return _current.get()
