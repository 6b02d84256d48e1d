"""Coroutines that are begun before it is known whether they wait: those that never wait need no task and no timeout."""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def is_being_cancelled() -> bool:
    """Return whether the current task was requested to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class StartedCoroutine(Generic[T]):
    """A coroutine that has run in the current task up to its end, or up to the first time that it waits.

    If it waits, `finish` must be awaited in the same task.
    """

    __slots__ = ("_result", "_waits_for", "_work", "is_done")

    _result: T

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self.is_done = False
        self._waits_for: Any = None
        try:
            self._waits_for = work.send(None)
        except StopIteration as end:
            self.is_done, self._result = True, end.value

    @property
    def result(self) -> T:
        """Return the result of a coroutine that is done."""
        return self._result

    @coroutine
    def finish(self) -> Generator[Any, Any, T]:
        """Continue until the end."""
        work, waits_for = self._work, self._waits_for
        while not self.is_done:
            problem: BaseException | None = None
            try:
                yield waits_for
            except BaseException as raised:  # noqa: BLE001 - passed on
                problem = raised
            try:
                waits_for = work.send(None) if problem is None else work.throw(problem)
            except StopIteration as end:
                self.is_done, self._result = True, end.value
        return self._result
