"""Estimate the capacity units of reads before they run: the least, the expected and the most. Pure: no I/O.

`least` and `most` contain every charge: `most` follows from the read budget and the greatest size of a record. They
exclude requests that an engine repeats after a failure. `expected` is the charge of the same page read from a model
store, whose shards have the given number of records, evenly mixed. DynamoDB charges exactly that if its shards are so.
"""

from collections.abc import Coroutine, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Any, cast

from graphql_api.codecs import KeyRange
from graphql_api.model import EntitySpec
from graphql_api.query import NO_STATISTICS, IndexScan, ReadStatistics, RowView, SearchPlan, ShardProgress
from graphql_api.query.execution.page_reader import read_page
from graphql_api.storage import (
    PAGE_BYTES,
    READ_UNIT_BYTES,
    Item,
    Key,
    RangeRead,
    ReadResult,
    Row,
    RowPage,
    Store,
    UnitEstimate,
    most_queries,
    read_units,
)

MAPPING_BYTES = 300
"""of a usual mapping item"""
_VALUES = 10**12
"""range values of the model store"""


def explain_search(plan: SearchPlan, statistics: ReadStatistics = NO_STATISTICS) -> dict[str, Any]:
    """Return a plan with the estimate of its capacity units, for explain output."""
    return {**plan.describe(), "estimate": estimate_search(plan, statistics).describe()}


def estimate_search(plan: SearchPlan, statistics: ReadStatistics = NO_STATISTICS) -> UnitEstimate:
    """Estimate one page of a search, or a count."""
    starts = [plan.reads_of(scan, plan.traversal.start, plan.limit) for scan in plan.scans]
    first = next((reads for number in plan.traversal.index_numbers() if (reads := starts[number])), [])
    least = sum(read_units(0, consistent=read.consistent) for read in first)
    return UnitEstimate(least, _expected_units(plan, statistics), _most_units(plan, starts))


def _most_units(plan: SearchPlan, starts: Sequence[Sequence[RangeRead]]) -> float:
    """Return the most units of a page.

    Rounds end once the read budget is spent, and each read of a round examines at least one record or ends its shard.
    In the plain case, where each row that is read is a match, a shard is read again only while it holds one of the
    next rows of the page, so the page size is a closer bound. The last read of a shard at most doubles the one before.
    """
    entity, reads = plan.entity, [read for start in starts for read in start]
    if not reads:
        return 0.0
    shards, widest = len(reads), max(map(len, starts))
    records = plan.request.read_budget - 1 + widest
    requests = records + shards
    fetches = any(scan.fetches_records for scan in plan.scans)
    if plan.filter is None and len(plan.scans) == 1 and not fetches and not entity.visibility_properties:
        wanted = plan.limit + 1
        records = min(records, shards * (3 * wanted + 1))
        requests = min(requests, shards * (wanted + 1))
    row_bytes = max(read.row_bytes for read in reads)
    blocks = max(map(most_queries, reads)) * requests + records * row_bytes // READ_UNIT_BYTES
    fetched = records * max(scan.fetch_units(entity.max_record_bytes) for scan in plan.scans)
    return blocks * (1.0 if any(read.consistent for read in reads) else 0.5) + fetched


# --- the model store -------------------------------------------------------------------------------------------


def _expected_units(plan: SearchPlan, statistics: ReadStatistics) -> float:
    store = _ModelStore(statistics.record_size(plan.entity))
    entity = replace(plan.entity, ttl=None)
    scans = tuple(_modelled(scan, entity, plan, store, statistics) for scan in plan.scans)
    traversal, numbers = plan.traversal, plan.traversal.index_numbers()
    start = ShardProgress(traversal.cursor_before(numbers[0]))
    model = replace(
        plan,
        entity=entity,
        scans=scans,
        filter=None,
        order_by=None,
        traversal=replace(traversal, start=start),
        token=plan.token._replace(cursor=start.cursor, lagging=()),
    )
    Context().run(_run, read_page(cast(Store, store), model))  # Nothing here counts in the statistics of the request.
    return store.units


def _run(page: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that never waits."""
    try:
        page.send(None)
    except StopIteration:
        return
    raise AssertionError("the model store never waits")


def _modelled(
    scan: IndexScan, entity: EntitySpec, plan: SearchPlan, store: "_ModelStore", statistics: ReadStatistics
) -> IndexScan:
    """Return a scan of the model store, and add its rows to it."""
    size = MAPPING_BYTES if scan.index.lookup is not None else statistics.row_size(plan.entity)
    index = replace(scan.index, lookup=None)  # The rows of the model name their records by their own keys.
    view = RowView(entity, index, scan.row_view.known)
    read = scan.read._replace(range=KeyRange(None, None), index=str(scan.number))
    modelled = replace(scan, index=index, read=read, row_view=view, row_filter=None, filters_records=False)
    reads_bound = scan.read.descending and not scan.index.raw and scan.read.range.low is not None
    for number, shard_read in enumerate(modelled.shard_reads):
        # No two rows have the same place.
        shift = (number + 0.618) / (len(modelled.shard_reads) + 0.37)
        matches = statistics.matches(number, plan.limit + 2)
        model = _ModelShard(scan, shard_read, matches, shift, size, reads_bound=reads_bound)
        store.shards[shard_read.index, shard_read.ordinal] = model
    return modelled


@dataclass(slots=True)
class _ModelShard:
    """The rows of a shard, at even distances. Each read continues after the one before."""

    scan: IndexScan
    read: RangeRead
    count: int
    shift: float
    """share of a distance at which the rows begin, so that those of all shards are mixed"""
    size: int
    """bytes of a row"""
    reads_bound: bool
    """whether a later read examines the row again at which the one before ended, and drops it"""
    returned: int = 0

    def next_rows(self, limit: int) -> Iterator[Row]:
        """Return the next rows."""
        begin, self.returned = self.returned, min(self.count, self.returned + limit)
        read, index = self.read, self.scan.index
        for number in range(begin, self.returned):
            place = self.count - 1 - number if read.descending else number
            value = int((place + self.shift) / self.count * _VALUES)
            record = {index.hash_attribute: read.hash_key, index.range_attribute: value}
            yield Row(value, read.ordinal, Key("model!0", f"{read.index}/{read.ordinal}/{place}"), record)


@dataclass(slots=True)
class _ModelStore:
    """Charges as DynamoDB for reads of rows that exist only as numbers."""

    record_bytes: int
    units: float = 0.0
    shards: dict[tuple[str | None, int], _ModelShard] = field(default_factory=dict)
    """by index and ordinal"""
    records: dict[Key, Item] = field(default_factory=dict)
    """of all rows that were read"""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return [self._read(read, want) for read in reads]

    def _read(self, read: RangeRead, want: int) -> RowPage:
        shard = self.shards[read.index, read.ordinal]
        dropped = int(shard.reads_bound and shard.returned > 0)
        limit = min(read.limit, want + dropped, PAGE_BYTES // shard.size + 1)
        wanted = limit - dropped
        if not wanted:  # The dropped row fills a first query. A second one continues after it.
            self.units += read_units(shard.size, consistent=read.consistent)
            wanted = limit
        rows = [*shard.next_rows(wanted)]
        examined = limit - wanted + len(rows)
        self.units += read_units(examined * shard.size, consistent=read.consistent)
        self.records |= {row.key: row.item for row in rows}
        # A page that is exactly full does not know that it is the last one.
        return RowPage(rows, rows[-1].position if len(rows) == wanted else None, dropped + len(rows))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.units += len(keys) * read_units(self.record_bytes, consistent=consistent)
        return [self.records[key] for key in keys]
