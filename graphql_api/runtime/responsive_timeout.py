"""Timeouts that count only time in which the event loop was able to process a response.

A process that lacks CPU, or has much to do, reads a response late although it arrived in time. A timeout by the clock
would blame the peer for it, and the retries would add to the work. So time is counted in ticks of the event loop. A
tick that comes late counts as one that is on time. The CPU time of its thread since the last tick does not count. A
part of each tick always counts, so that a busy process gives up an unresponsive peer too.
"""

import asyncio
from math import inf
from time import thread_time
from types import TracebackType

_TICK_SECONDS = 0.02
_MIN_COUNTED_SHARE = 0.25
"""of a tick, however much CPU time the thread used"""


class ResponsiveTimer:
    """The timeouts of one event loop. It ticks only while there are any."""

    def __init__(self) -> None:
        self._counted = 0.0
        """seconds in which the event loop was responsive"""
        self._ticked_at = 0.0
        self._cpu_at = 0.0
        self._ends: dict[ResponsiveTimeout, float] = {}
        """the end of each timeout, in counted seconds"""
        self._tick_handle: asyncio.TimerHandle | None = None

    def timeout(self, seconds: float, deadline: float = inf) -> "ResponsiveTimeout":
        """Cancel the block, and raise TimeoutError, after it has lasted this number of counted seconds.

        The same happens at the `deadline`, a time of the event loop. One tick later at most.
        """
        return ResponsiveTimeout(self, seconds, deadline)

    def start(self, timeout: "ResponsiveTimeout", seconds: float) -> None:
        """Count the seconds of a timeout from now on."""
        self._ends[timeout] = self._counted + seconds
        if self._tick_handle is None:
            loop = asyncio.get_running_loop()
            self._ticked_at, self._cpu_at = loop.time(), thread_time()
            self._tick_handle = loop.call_later(_TICK_SECONDS, self._tick, loop)

    def stop(self, timeout: "ResponsiveTimeout") -> None:
        """Forget a timeout."""
        self._ends.pop(timeout, None)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now, cpu = loop.time(), thread_time()
        seconds = min(now - self._ticked_at, _TICK_SECONDS)
        self._counted += max(_MIN_COUNTED_SHARE * seconds, seconds - (cpu - self._cpu_at))
        self._ticked_at, self._cpu_at = now, cpu
        ended = [one for one, end in self._ends.items() if end <= self._counted or one.deadline <= now]
        for timeout in ended:
            del self._ends[timeout]
            timeout.expire()
        self._tick_handle = loop.call_later(_TICK_SECONDS, self._tick, loop) if self._ends else None


class ResponsiveTimeout:
    """The timeout of one block, which cancels its task as `asyncio.timeout` does."""

    __slots__ = ("_cancelling", "_has_expired", "_seconds", "_task", "_timer", "deadline")

    def __init__(self, timer: ResponsiveTimer, seconds: float, deadline: float) -> None:
        self.deadline = deadline
        self._timer = timer
        self._seconds = seconds
        self._has_expired = False

    def expire(self) -> None:
        """Cancel the block."""
        self._has_expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a timeout needs a task"
        self._task, self._cancelling = task, task.cancelling()
        self._timer.start(self, self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.stop(self)
        if self._has_expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from problem
