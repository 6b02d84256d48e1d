"""Admission control: how many operations run at the same time, how many wait for a place, and which are refused.

Each operation that runs shares the memory budget for the replies of the store.

The limit follows the delay that operations have in this process itself. They wait in the queue of its event loop, and
for the connections of the store. That delay rises when too many operations share the CPU or the connections. A
slow store alone does not raise it. So the limit finds the concurrency that keeps the bottleneck busy, whatever an
operation costs (docs/decisions/0010-own-admission-control.md).

As in CoDel, the least delay of a window counts. A burst is harmless; a delay that never ends is a standing queue. The
delay of the event loop is measured in CPU time of its thread, so that the load of other processes does not count.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import ceil, inf
from random import random
from time import thread_time

from graphql_api.errors import Overloaded
from graphql_api.runtime import MemoryBudget, RequestStatistics, current_statistics

FIRST_LIMIT = 16
"""operations at the same time, until the delay has been measured"""
MAX_DELAY_SECONDS = 0.02
"""more CPU time in the queue of the event loop, all the time, is a standing queue

A shorter one would admit fewer small operations at the same time. Those that run together share the iterations of the
event loop, and cost less each.
"""
MAX_WAITING_SHARE = 0.5
"""a larger share of the requests to the store that wait for a connection, all the time, is a standing queue"""
MAX_QUEUE = 100
"""operations that may wait, for each second that one of them may wait

What a waiting operation needs leaves the caches of the CPU. With 700 in the queue, a page of SQLite costs a seventh
more.
"""

_PROBE_SECONDS = 0.01
_WINDOW_SECONDS = 0.1
_MAX_SECONDS_BETWEEN_INCREASES = 1.0
"""the limit grows again after the duration of an operation, but at least this often: an increase acts late"""
_MIN_PROBES = 5
_MIN_DECREASE, _MAX_DECREASE = 0.9, 0.7
_FIRST_INCREASE, _MIN_INCREASE, _MAX_INCREASE = 1.0, 0.05, 0.3
"""share by which the limit grows: at first, after a standing queue, and after further increases, which double it"""
_SMOOTHING = 0.2
"""weight of the latest window in averages"""
_MIN_QUEUE = 16
MAX_RETRY_SECONDS = 60


def overloaded_error(retry_after: int) -> Overloaded:
    """Return the error of a refused operation."""
    return Overloaded(
        f"The server is overloaded, and has not executed the operation. Try again in {retry_after} seconds.",
        retry_after=retry_after,
    )


class AdmissionController:
    """Admits operations up to a limit, lets some wait for a short time, and refuses the others."""

    def __init__(
        self,
        max_operations: int,
        queue_seconds: float,
        memory_bytes: int,
        on_change: "Callable[[AdmissionController], object]" = lambda _: None,
    ) -> None:
        self.memory = MemoryBudget(memory_bytes, queue_seconds, lambda: overloaded_error(self.refuse()))
        self._max_operations = max_operations
        self._queue_seconds = queue_seconds
        self._on_change = on_change
        """called several times a second while operations are in progress"""
        self._limit = float(min(max_operations, FIRST_LIMIT))
        self._waiting = deque[asyncio.Future[None]]()
        self.in_flight = 0
        self._in_progress: dict[int, RequestStatistics] = {}
        """by identity: equal counts are different operations"""
        self.total_refused = 0
        self._ended_per_second: float | None = None
        self._refused_per_ended = 0.0
        self._mean_seconds = 0.0
        self._increases_at = 0.0
        self._is_probing = False
        self._increase = _FIRST_INCREASE
        self._start_window(0.0)
        on_change(self)

    def _start_window(self, now: float) -> None:
        self._window_began = now
        self._probes = self._ended = self._refused = 0
        self._operation_seconds = 0.0
        self._least_delay = self._least_waiting_share = inf
        self._reached_limit = False

    @property
    def limit(self) -> int:
        """Return how many operations may run at the same time."""
        return int(self._limit)

    @property
    def queued(self) -> int:
        """Return how many operations wait."""
        return len(self._waiting)

    @property
    def max_queued(self) -> int:
        """Return how many operations may wait: those that end in half of the time that one may wait, but not many."""
        if not self._queue_seconds:
            return 0
        most = int(MAX_QUEUE * max(1.0, self._queue_seconds))
        if self._ended_per_second is None:
            return most
        return max(_MIN_QUEUE, min(most, int(self._ended_per_second * self._queue_seconds / 2)))

    def is_full(self, arriving: int = 0) -> bool:
        """Return whether an operation would be refused. `arriving`: those that the server has not submitted yet."""
        free = max(0, self.limit - self.in_flight) + self.max_queued
        return len(self._waiting) + arriving >= free

    def refuse(self) -> int:
        """Count a refused operation, and return after how many seconds to try again: at random, to spread clients."""
        self._refused += 1
        self.total_refused += 1
        seconds = min(MAX_RETRY_SECONDS // 2, ceil(max(1.0, self._queue_seconds) * (1 + self._refused_per_ended)))
        return seconds + int(random() * (seconds + 1))  # noqa: S311 - no secret

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[float]:
        """Hold a place for an operation, and provide the seconds that it has waited. Raise Overloaded if it is full."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        if self.is_full():
            raise overloaded_error(self.refuse())
        if not self._is_probing:
            self._is_probing = True
            self._start_window(arrived)
            self._probe(loop)
        if self._waiting or self.in_flight >= self.limit:
            self._reached_limit = True
            await self._wait(loop)
        else:
            self.in_flight += 1
        started, statistics = loop.time(), current_statistics()
        statistics.queued_milliseconds = int((started - arrived) * 1000)
        self._in_progress[id(statistics)] = statistics
        try:
            with self.memory.operation():
                yield started - arrived
        finally:
            del self._in_progress[id(statistics)]
            self._operation_seconds += loop.time() - started
            self._ended += 1
            self._leave()

    async def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        place = loop.create_future()
        self._waiting.append(place)
        timer = loop.call_later(self._queue_seconds, self._expire, place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._waiting.remove(place)
            else:
                self._leave()
            raise
        finally:
            timer.cancel()

    def _expire(self, place: asyncio.Future[None]) -> None:
        if not place.done():
            self._waiting.remove(place)
            place.set_exception(overloaded_error(self.refuse()))

    def _leave(self) -> None:
        self.in_flight -= 1
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            self._waiting.popleft().set_result(None)
            self.in_flight += 1

    # --- the limit

    def _probe(self, loop: asyncio.AbstractEventLoop) -> None:
        """Enter the queue of the event loop, unless nothing is in progress."""
        if self.in_flight or self._waiting or not self._probes:
            loop.call_soon(self._measure, loop, thread_time())
        else:
            self._is_probing = False
            self._on_change(self)

    def _measure(self, loop: asyncio.AbstractEventLoop, entered: float) -> None:
        now = loop.time()
        self._least_delay = min(self._least_delay, thread_time() - entered)
        waiting = sum(one.requests_waiting for one in self._in_progress.values())
        running = sum(one.requests_running for one in self._in_progress.values())
        self._least_waiting_share = min(self._least_waiting_share, waiting / max(1, waiting + running))
        self._probes += 1
        if now - self._window_began >= _WINDOW_SECONDS and self._probes >= _MIN_PROBES:
            self._adapt(now)
            self._start_window(now)
            self._admit_waiting()
            self._on_change(self)
        loop.call_later(_PROBE_SECONDS, self._probe, loop)

    def _adapt(self, now: float) -> None:
        """Set the limit and the length of the queue from the window that ends now."""
        if self._ended:
            self._mean_seconds = self._operation_seconds / self._ended
        if self._least_delay > MAX_DELAY_SECONDS or self._least_waiting_share > MAX_WAITING_SHARE:
            self._increase = _MIN_INCREASE
            if self.in_flight <= self._limit:  # Otherwise the last decrease has not taken effect yet.
                excess = MAX_DELAY_SECONDS / max(self._least_delay, 1e-6)
                self._limit = max(1.0, self._limit * min(_MIN_DECREASE, max(_MAX_DECREASE, excess)))
        elif self._reached_limit and now >= self._increases_at:
            self._limit = min(self._max_operations, max(self._limit + 1, self._limit * (1 + self._increase)))
            self._increases_at = now + min(self._mean_seconds, _MAX_SECONDS_BETWEEN_INCREASES)
            if self._increase < _MAX_INCREASE:
                self._increase = min(_MAX_INCREASE, 2 * self._increase)
        if self._reached_limit:
            rate, known = self._ended / (now - self._window_began), self._ended_per_second
            self._ended_per_second = rate if known is None else known + _SMOOTHING * (rate - known)
        load = self._refused / max(1, self._ended)
        self._refused_per_ended += _SMOOTHING * (load - self._refused_per_ended)
