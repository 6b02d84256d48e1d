"""An event loop whose time passes only while all tasks wait for a timer: tests of timeouts are exact and instant."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _TimerSelector(selectors.DefaultSelector):
    """Advances a clock instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.worked = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "all tasks wait for something other than a timer"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The event loop."""

    def __init__(self) -> None:
        self._virtual = _TimerSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    @property
    def worked(self) -> float:
        """The CPU time that computations have used."""
        return self._virtual.worked

    def work(self, seconds: float) -> None:
        """Block the event loop for this time, as a computation does."""
        self._virtual.now += seconds
        self._virtual.worked += seconds


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def work(seconds: float) -> None:
    """Block the running event loop for this time, as a computation does."""
    _running_loop().work(seconds)


def virtual_cpu_time() -> float:
    """The CPU time that computations of the running event loop have used."""
    return _running_loop().worked


def _running_loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop
