"""Meter the capacity units that reads consume, on demand: measuring has a price of its own.

A context variable carries the meter into every task of the request that started it. An engine that charges for reads
reports its charges. Any other engine estimates what DynamoDB would charge for the same records.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class CapacityMeter:
    """Add up the capacity units of reads."""

    units: float | None = 0.0
    """None once an engine did not report the units of a read"""
    estimated: bool = False
    """at least one read was estimated, not charged"""
    parent: "CapacityMeter | None" = None
    """the enclosing meter, which counts the same reads"""

    def add(self, units: float | None, *, estimated: bool = False) -> None:
        """Add a read to this meter and to all enclosing meters."""
        self.units = None if units is None or self.units is None else self.units + units
        self.estimated |= estimated
        if self.parent is not None:
            self.parent.add(units, estimated=estimated)


_current: ContextVar[CapacityMeter | None] = ContextVar("capacity meter", default=None)


@contextmanager
def meter_capacity() -> Iterator[CapacityMeter]:
    """Meter all reads within the block; an enclosing meter counts them too."""
    meter = CapacityMeter(parent=_current.get())
    token = _current.set(meter)
    try:
        yield meter
    finally:
        _current.reset(token)


@contextmanager
def meter_part() -> Iterator[CapacityMeter | None]:
    """Meter one part of a metered request separately; yield None if the request is not metered."""
    if _current.get() is None:
        yield None
    else:
        with meter_capacity() as meter:
            yield meter


def current_meter() -> CapacityMeter | None:
    """Return the meter that reads must be added to, if the request is metered."""
    return _current.get()
