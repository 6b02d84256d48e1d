"""Time as a value that is passed in, so that tests can hold it."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""seconds since 1970-01-01 UTC"""

system_clock: Clock = time.time
