"""What tests may turn on to make the embedded engine as awkward as a distributed one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

TieOrder = Literal["hashed", "key"]


@dataclass(frozen=True, slots=True)
class Switches:
    """How this opening of a file behaves; the defaults are what production uses."""

    tie_order: TieOrder = "hashed"
    """in which order rows of one hash key and range value stand: by a digest of their table key, or by that key"""
    index_lag: int = 0
    """how many writes the index entries stay behind the records"""
    page_bytes: int = 1024 * 1024
    """a page ends behind the record that passes this size"""
    throttle: Callable[[str], bool] | None = None
    """asked with the operation's name; True refuses it as an engine under pressure would"""


PRODUCTION = Switches()
"""nothing awkward turned on"""
