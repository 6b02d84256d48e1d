"""Switch faults of a server on and off by files, for programs in other languages."""

import time
from dataclasses import dataclass
from pathlib import Path

from graphql_api.storage.values import RangeRead

TOKEN_LIFETIME = 26 * 3600
SHARD = "user!"
"""The shard with the most users."""


@dataclass(frozen=True, slots=True)
class FaultSwitch:
    """The current faults, controlled by two files in a folder."""

    folder: Path

    @property
    def late(self) -> Path:
        """While this file exists, the clock is late enough for all tokens to be expired."""
        return self.folder / "late"

    @property
    def failing(self) -> Path:
        """This file contains the number of further reads of one shard that fail."""
        return self.folder / "failing"

    def now(self) -> float:
        """Return the current time of the server."""
        return time.time() + (TOKEN_LIFETIME if self.late.exists() else 0)

    def fails(self, read: RangeRead) -> bool:
        """Return whether this read fails."""
        if read.hash_key != SHARD or not self.failing.exists():
            return False
        left = int(self.failing.read_text()) - 1
        if left:
            written = self.folder / "failing.next"
            written.write_text(str(left))
            written.replace(self.failing)  # Atomic, so that a reader never sees a partial number.
        else:
            self.failing.unlink()
        return True
