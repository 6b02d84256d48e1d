"""The capacity ceiling of a request: its reads and writes together never charge more units.

Before a request is sent to an engine, the most units that it can charge are reserved. Afterwards, the reservation is
settled with the actual charge. An engine that repeats a request after an attempt with unknown outcome extends the
reservation first, because the lost attempt may have been charged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from graphql_api.runtime.request_statistics import CapacityMeter


@dataclass(slots=True)
class CapacityCeiling:
    """The most capacity units that one request may use. Read units and write units count alike."""

    max_units: float
    charged: float = 0.0
    """units of all settled reservations"""
    reserved: float = 0.0
    """units of reservations that are not settled yet"""

    @property
    def left(self) -> float:
        """Return the units that can still be reserved."""
        return self.max_units - self.charged - self.reserved

    def reserve(self, units: float) -> "Reservation | None":
        """Reserve units. Return None if they do not fit."""
        reservation = Reservation(self)
        return reservation if reservation.extend(units) else None


@dataclass(slots=True)
class Reservation:
    """Reserved units of a ceiling."""

    ceiling: CapacityCeiling
    units: float = 0.0

    def extend(self, units: float) -> bool:
        """Reserve further units. Return False, and reserve nothing, if they do not fit."""
        if units > self.ceiling.left:
            return False
        self.ceiling.reserved += units
        self.units += units
        return True

    def settle(self, charge: float) -> None:
        """Replace the reservation by the actual charge."""
        self.ceiling.reserved -= self.units
        self.ceiling.charged += charge
        self.units = 0.0

    def settle_by(self, meter: CapacityMeter) -> None:
        """Settle with what a meter has counted; with all reserved units if an engine did not report its charge."""
        self.settle(self.units if meter.total is None else meter.total)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the engine extend this reservation within the block."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Reservation | None] = ContextVar("capacity reservation", default=None)


def current_reservation() -> Reservation | None:
    """Return the reservation of the current store call, if the request has a ceiling."""
    return _current.get()
