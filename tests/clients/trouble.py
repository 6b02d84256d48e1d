"""A server that programs of other languages get into trouble: they write a file, and it is there."""

import time
from dataclasses import dataclass
from pathlib import Path

from graphql_api.storage.values import RangeRead

A_TOKENS_LIFE = 26 * 3600
SHARD = "user!"
"""the one that holds more users than any other"""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong at present: two files of a folder, which may come and go at any time."""

    folder: Path

    @property
    def late(self) -> Path:
        """While it is there, it is so much later that no token of before is good."""
        return self.folder / "late"

    @property
    def failing(self) -> Path:
        """Holds how many of the next reads of one shard fail."""
        return self.folder / "failing"

    def now(self) -> float:
        """The time."""
        return time.time() + (A_TOKENS_LIFE if self.late.exists() else 0)

    def fails(self, read: RangeRead) -> bool:
        """Whether this read fails."""
        if read.hash_key != SHARD or not self.failing.exists():
            return False
        left = int(self.failing.read_text()) - 1
        if left:
            written = self.folder / "failing.next"
            written.write_text(str(left))
            written.replace(self.failing)  # a reader sees a whole number at any time
        else:
            self.failing.unlink()
        return True
