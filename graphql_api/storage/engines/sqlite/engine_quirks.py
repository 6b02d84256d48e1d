"""Options for tests that make the embedded engine behave like a distributed one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

TieOrder = Literal["hashed", "key"]


@dataclass(frozen=True, slots=True)
class EngineQuirks:
    """Behaviour of one opened file. The defaults are the behaviour in production."""

    tie_order: TieOrder = "hashed"
    """order of rows with equal hash key and range value: by a digest of their table key, or by that key"""
    index_lag: int = 0
    """number of writes by which index entries lag the records"""
    page_bytes: int = 1024 * 1024
    """a page ends after the record that exceeds this size"""
    throttle: Callable[[str], bool] | None = None
    """called with the name of the operation; True refuses the operation as throttled"""


NO_QUIRKS = EngineQuirks()
"""the behaviour in production"""
