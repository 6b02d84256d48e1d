"""The clock, which is passed as a value so that tests can control it."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""returns the seconds since 1970-01-01 UTC"""

system_clock: Clock = time.time
