"""Count the store calls, reads and retries of one request, and meter the capacity units of its reads.

Context variables carry both into every task of the request. Outside a request nothing is counted. Capacity is metered
on demand, because measuring has a price of its own. An engine that charges for reads reports its charges. Any other
engine estimates what DynamoDB would charge for the same records.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class RequestStatistics:
    """The counts of one request."""

    store_calls: int = 0
    """calls of the Store port; an engine may send several requests of its own for one call"""
    records_read: int = 0
    """records that the engine examined, over all reads"""
    retries: int = 0
    """requests that an engine sent again"""
    searches: int = 0
    """pages that were read"""
    shards_asked: int = 0
    """shards that were read, over all searches"""
    records_returned: int = 0
    """records in pages and in results of reads by id"""


_statistics: ContextVar[RequestStatistics | None] = ContextVar("request statistics", default=None)


@contextmanager
def collect_statistics() -> Iterator[RequestStatistics]:
    """Count all store activity within the block."""
    statistics = RequestStatistics()
    token = _statistics.set(statistics)
    try:
        yield statistics
    finally:
        _statistics.reset(token)


def current_statistics() -> RequestStatistics:
    """Return the counts of the current request, to read or to increase them; new ones outside a request."""
    return _statistics.get() or RequestStatistics()


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


_meter: ContextVar[CapacityMeter | None] = ContextVar("capacity meter", default=None)


@contextmanager
def meter_capacity() -> Iterator[CapacityMeter]:
    """Meter all reads within the block; an enclosing meter counts them too."""
    meter = CapacityMeter(parent=_meter.get())
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


@contextmanager
def meter_part() -> Iterator[CapacityMeter | None]:
    """Meter one part of a metered request separately; yield None if the request is not metered."""
    if _meter.get() is None:
        yield None
    else:
        with meter_capacity() as meter:
            yield meter


def current_meter() -> CapacityMeter | None:
    """Return the meter that reads must be added to, if the request is metered."""
    return _meter.get()
