"""Count the reads, store calls and retries of one request, and meter its capacity units.

Context variables carry both into every task of the request. Outside a request nothing is counted. Capacity is metered
on demand, because measuring has a price of its own. An engine that charges for requests reports its charges. Any other
engine estimates what DynamoDB would charge for the same records.
"""

from collections.abc import Awaitable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, Self, TypeVar

T = TypeVar("T")

ReadKind = Literal["first_page", "next_page", "count", "key"]
"""a page of a search from its beginning, or from a token; a count of a search; a read by key"""


@dataclass(slots=True)
class IndexStatistics:
    """What one request read of one entity by one index, or by key."""

    reads: dict[ReadKind, int] = field(default_factory=dict)
    empty_reads: dict[ReadKind, int] = field(default_factory=dict)
    """reads that found nothing, although every shard answered and nothing ended them early"""
    shards_asked: int = 0
    """shards that were read, over all searches"""
    records_read: int = 0
    """records that the engine examined"""
    records_returned: int = 0
    """records in pages, and found by key"""
    dangling: int = 0
    """mapping items whose record does not exist, or has another value"""
    call_seconds: list[float] = field(default_factory=list)
    """duration of each store call"""

    def add_read(self, kind: ReadKind, *, is_empty: bool, returned: int = 0) -> None:
        """Count a read that was answered."""
        self.add_reads(kind, 1, empty=int(is_empty), returned=returned)

    def add_reads(self, kind: ReadKind, count: int, *, empty: int, returned: int) -> None:
        """Count several reads that were answered."""
        self.reads[kind] = self.reads.get(kind, 0) + count
        self.records_returned += returned
        if empty:
            self.empty_reads[kind] = self.empty_reads.get(kind, 0) + empty

    @property
    def searches(self) -> int:
        """Return the number of pages and counts."""
        return sum(count for kind, count in self.reads.items() if kind != "key")


@dataclass(slots=True)
class RequestStatistics:
    """The counts of one request."""

    store_calls: int = 0
    """calls of the Store port; an engine may send several requests of its own for one call"""
    records_read: int = 0
    """records that the engine examined, over all reads: also those of writes"""
    retries: int = 0
    """requests that an engine sent again after a failure"""
    hedges: int = 0
    """reads that an engine sent again because they were late"""
    lookup_repairs_failed: int = 0
    """written records whose mapping items in another store could not be written"""
    queued_milliseconds: int = 0
    """time for which the operation waited for a place"""
    requests_waiting: int = 0
    """requests to the store that wait for a connection at the moment"""
    requests_running: int = 0
    """requests to the store that have a connection at the moment"""
    indexes: dict[tuple[str, str], IndexStatistics] = field(default_factory=dict)
    """by the names of entity and index or union; reads by key have the primary index"""
    shard_seconds: list[tuple[str, float]] = field(default_factory=list)
    """hash key and duration of each request that read one shard, if the engine reads each shard separately"""

    def of_index(self, entity: str, index: str) -> IndexStatistics:
        """Return the counts of an index, to increase them."""
        statistics = self.indexes.get((entity, index))
        if statistics is None:
            statistics = self.indexes[entity, index] = IndexStatistics()
        return statistics

    def totals(self) -> dict[str, int]:
        """Return the counts of the whole request, by name."""
        indexes = self.indexes.values()
        return {
            "store_calls": self.store_calls,
            "records_read": self.records_read,
            "retries": self.retries,
            "hedges": self.hedges,
            "queued_milliseconds": self.queued_milliseconds,
            "searches": sum(one.searches for one in indexes),
            "shards_asked": sum(one.shards_asked for one in indexes),
            "records_returned": sum(one.records_returned for one in indexes),
        }


async def measure_call(call: Awaitable[T], statistics: Collection[IndexStatistics]) -> T:
    """Return the result of a store call, and record its duration, also if it fails or is cancelled."""
    started = perf_counter()
    try:
        return await call
    finally:
        seconds = perf_counter() - started
        for one in statistics:
            one.call_seconds.append(seconds)


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


class RequestTurn:
    """Counts a request to the store as waiting, and from `begin` on as running."""

    def __init__(self) -> None:
        self._statistics = current_statistics()
        self._is_running = False

    def __enter__(self) -> Self:
        self._statistics.requests_waiting += 1
        return self

    def begin(self) -> None:
        """Count the request as running."""
        self._statistics.requests_waiting -= 1
        self._statistics.requests_running += 1
        self._is_running = True

    def __exit__(self, *_: object) -> None:
        if self._is_running:
            self._statistics.requests_running -= 1
        else:
            self._statistics.requests_waiting -= 1


@dataclass(slots=True)
class CapacityMeter:
    """Add up the capacity units of reads and writes."""

    units: float | None = 0.0
    """read units; None once an engine did not report the units of a read"""
    write_units: float | None = 0.0
    """write units; None once an engine did not report the units of a write"""
    in_doubt: float = 0.0
    """the most units of attempts that failed, and may have been charged"""
    estimated: bool = False
    """at least one read or write was estimated, not charged"""
    parent: "CapacityMeter | None" = None
    """the enclosing meter, which counts the same reads and writes"""

    def add(self, units: float | None, *, estimated: bool = False) -> None:
        """Add a read to this meter and to all enclosing meters."""
        self.units = None if units is None or self.units is None else self.units + units
        self.estimated |= estimated
        if self.parent is not None:
            self.parent.add(units, estimated=estimated)

    def add_write(self, units: float | None, *, estimated: bool = False) -> None:
        """Add a write to this meter and to all enclosing meters."""
        self.write_units = None if units is None or self.write_units is None else self.write_units + units
        self.estimated |= estimated
        if self.parent is not None:
            self.parent.add_write(units, estimated=estimated)

    def add_in_doubt(self, units: float) -> None:
        """Add an attempt that failed, and may have been charged up to these units."""
        self.in_doubt += units
        if self.parent is not None:
            self.parent.add_in_doubt(units)

    @property
    def total(self) -> float | None:
        """Return the units of reads, writes and attempts in doubt; None if an engine did not report some of them."""
        if self.units is None or self.write_units is None:
            return None
        return self.units + self.write_units + self.in_doubt


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
