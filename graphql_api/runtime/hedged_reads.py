"""Hedged reads: a read that takes longer than nearly all others is sent a second time, and the first response wins.

One late response delays a whole page, and a page over many shards nearly always has one. A second request is sent after
the running percentile of recent durations, so it is rarely needed. A budget bounds it while all responses are slow.
"""

import asyncio
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

MIN_SAMPLES = 64
"""durations that must be known before the first hedge"""
_MAX_SAMPLES = 1024
_SAMPLES_PER_UPDATE = 32
_MAX_SAVED = 20.0
"""hedges that the budget saves at most"""
_MAX_HEDGES = 2
"""of one read"""
_MAX_LATE_SHARE = 0.05
_MIN_LATE = 4
"""number of late reads, or their share of all reads in progress, above which they have a common cause"""
_LOOK_AGAIN_SHARE = 0.25
"""of the percentile, until a late read that was not hedged is considered again; it doubles each time"""


class LatencyPercentile:
    """A running percentile of the latest durations."""

    def __init__(self, percentile: float) -> None:
        self._percentile = percentile
        self._samples = deque[float]()
        self._sorted: list[float] = []
        self._added = 0
        self.seconds: float | None = None
        """None until enough durations are known"""

    def add(self, seconds: float) -> None:
        """Add a duration."""
        if len(self._samples) == _MAX_SAMPLES:
            del self._sorted[bisect_left(self._sorted, self._samples.popleft())]
        self._samples.append(seconds)
        insort(self._sorted, seconds)
        self._added += 1
        if self._added >= MIN_SAMPLES and self._added % _SAMPLES_PER_UPDATE == 0:
            self.seconds = self._sorted[int(self._percentile * len(self._sorted))]


class HedgedReads:
    """Sends reads, and sends those again that are later than the percentile, up to a share of all reads.

    If many reads are late at the same time, the cause is common to them, such as a lack of CPU. A second request would
    not help, and would use up the budget. So hedges wait until few reads are left.
    """

    def __init__(self, percentile: float, share: float) -> None:
        self._latencies = defaultdict[str, LatencyPercentile](lambda: LatencyPercentile(percentile))
        self._share = share
        self._saved = 0.0
        """hedges that reads have added to the budget"""
        self._reads = 0
        """reads of the operations in progress"""
        self._late = 0
        """those of them that are later than the percentile"""

    @contextmanager
    def operation(self, reads: int) -> Iterator[None]:
        """Count the reads of an operation, while it is in progress."""
        self._reads += reads
        try:
            yield
        finally:
            self._reads -= reads

    async def run(
        self,
        kind: str,
        send: Callable[[], Coroutine[Any, Any, T]],
        send_again: Callable[[], Coroutine[Any, Any, T]],
        may_hedge: Callable[[], bool],
    ) -> T:
        """Return the first response. Percentiles are those of the `kind` of read.

        `send_again` sends a hedge, if `may_hedge` permits it at that moment. An error counts only if the other
        requests fail too, and is then that of the first request.
        """
        latency = self._latencies[kind]
        loop = asyncio.get_running_loop()
        self._saved = min(_MAX_SAVED, self._saved + self._share)
        started = loop.time()
        if latency.seconds is None or not self._share:
            response = await send()
        else:
            response = await _Race(self, latency.seconds, send_again, may_hedge).run(send)
        latency.add(loop.time() - started)
        return response

    def count_late(self, change: int) -> None:
        """Count a read that became late, or one that is no longer in progress."""
        self._late += change

    def withdraw(self) -> bool:
        """Withdraw one hedge. Return False if the budget is exhausted, or if too many reads are late."""
        if self._saved < 1 or self._late > max(_MIN_LATE, _MAX_LATE_SHARE * self._reads):
            return False
        self._saved -= 1
        return True


class _Race(Generic[T]):
    """A request in the current task, and its hedges in other tasks."""

    def __init__(
        self,
        reads: HedgedReads,
        seconds: float,
        send_again: Callable[[], Coroutine[Any, Any, T]],
        may_hedge: Callable[[], bool],
    ) -> None:
        self._reads = reads
        self._seconds = seconds
        self._look_again_seconds = _LOOK_AGAIN_SHARE * seconds
        self._send_again = send_again
        self._may_hedge = may_hedge
        self._task = cast(asyncio.Task[Any], asyncio.current_task())
        self._cancelling = self._task.cancelling()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._become_late)
        self._hedges: list[asyncio.Task[T]] = []
        self._winner: asyncio.Task[T] | None = None
        self._is_late = False
        self._is_over = False

    async def run(self, send: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the first response."""
        try:
            return await send()
        except asyncio.CancelledError:
            if self._winner is None or self._task.cancelling() > self._cancelling + 1:
                raise
            return self._winner.result()
        except Exception:
            self._end()  # From here on, hedges are awaited instead of interrupting.
            for hedge in self._hedges:
                with suppress(Exception):
                    return await hedge
            raise
        finally:
            self._end()
            self._reads.count_late(-self._is_late)
            if self._winner is not None:
                self._task.uncancel()
            pending = [hedge for hedge in self._hedges if not hedge.done()]
            for hedge in pending:
                hedge.cancel()
            if pending:
                await asyncio.wait(pending)

    def _end(self) -> None:
        self._is_over = True
        self._timer.cancel()

    def _become_late(self) -> None:
        self._is_late = True
        self._reads.count_late(1)
        self._start_hedge()

    def _start_hedge(self) -> None:
        """Send a hedge, or look again later. The hedge may be late too."""
        loop = asyncio.get_running_loop()
        if self._may_hedge() and self._reads.withdraw():
            hedge = loop.create_task(self._send_again())
            hedge.add_done_callback(self._finish)
            self._hedges.append(hedge)
            next_seconds = self._seconds
        else:
            next_seconds = self._look_again_seconds
            self._look_again_seconds *= 2
        if len(self._hedges) < _MAX_HEDGES:
            self._timer = loop.call_later(next_seconds, self._start_hedge)

    def _finish(self, hedge: asyncio.Task[T]) -> None:
        """Interrupt the first request, if a hedge succeeded before it."""
        has_failed = hedge.cancelled() or hedge.exception() is not None
        if not (has_failed or self._is_over):
            self._winner = hedge
            self._end()
            self._task.cancel()
