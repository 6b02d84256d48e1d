"""What reading costs in capacity units: known only where somebody asks for it, since asking has a price of its own.

A bill goes along with the context of whoever opened it into every task that works for him. An engine that charges for
reads says what it charged; another one estimates what DynamoDB would charge for the same records.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Bill:
    """The capacity units of some reads."""

    units: float | None = 0.0
    """None once an engine did not say"""
    estimated: bool = False
    """a part of it was not charged by anybody"""
    around: "Bill | None" = None
    """the bill that this one is a part of"""

    def add(self, units: float | None, *, estimated: bool = False) -> None:
        """Puts a read on this bill and on those around it."""
        self.units = None if units is None or self.units is None else self.units + units
        self.estimated |= estimated
        if self.around is not None:
            self.around.add(units, estimated=estimated)


_present: ContextVar[Bill | None] = ContextVar("bill", default=None)


@contextmanager
def billed() -> Iterator[Bill]:
    """Bills all reads from here on; a bill within a bill is a part of it."""
    bill = Bill(around=_present.get())
    before = _present.set(bill)
    try:
        yield bill
    finally:
        _present.reset(before)


@contextmanager
def itemised() -> Iterator[Bill | None]:
    """Bills the reads of one part of what is billed by itself; None where nobody asked for a bill."""
    if _present.get() is None:
        yield None
    else:
        with billed() as bill:
            yield bill


def present_bill() -> Bill | None:
    """The bill that reads are to be put on, if anybody asked for one."""
    return _present.get()
