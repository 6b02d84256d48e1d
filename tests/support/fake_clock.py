"""A clock for tests."""

from dataclasses import dataclass


@dataclass
class FakeClock:
    """A clock that changes only when a test sets `now`."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now
