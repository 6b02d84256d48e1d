"""The clock, which is passed as a value so that tests can control it."""

import time
from collections.abc import Callable
from operator import sub

Clock = Callable[[], float]
"""returns the seconds since 1970-01-01 UTC"""

system_clock: Clock = time.time

Instant = tuple[float, ...]
"""the time by several clocks"""

_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_clocks() -> Instant:
    """Return the time by three clocks. At least one goes on while the machine sleeps or the process is frozen."""
    return time.monotonic(), time.clock_gettime(_BOOT_CLOCK), time.time()


def seconds_between(earlier: Instant, later: Instant) -> float:
    """Return how much time may have passed at most: the largest difference of one clock."""
    seconds: float = max(map(sub, later, earlier))
    return seconds


def running_clock() -> float:
    """Return a number of seconds that also grows while the machine sleeps or the process is frozen."""
    return seconds_between(_STARTED, read_clocks())


_STARTED = read_clocks()
