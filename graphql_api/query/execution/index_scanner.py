"""Scan one index in rounds of reads, until enough rows are certain or the read budget is spent."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from graphql_api.errors import StoreError
from graphql_api.query import IndexScan, SearchPlan, next_limit
from graphql_api.query.execution.shard_merge import count_up_to, is_past, low_watermark, merge_rows
from graphql_api.query.execution.shard_stream import ShardStream
from graphql_api.runtime import CapacityMeter
from graphql_api.storage import Position, RangeRead, Row, RowPage, Store


@dataclass(slots=True)
class ReadCost:
    """The actual cost of reading a page."""

    rounds: int = 0
    reads: int = 0
    records_read: int = 0
    fetched: int = 0
    seconds: float = 0.0
    meter: CapacityMeter | None = None
    """capacity units, if the request is metered"""

    def record(self, seconds: float, meter: CapacityMeter | None) -> None:
        """Record the total time and capacity; a clock that was set back counts as zero seconds."""
        self.seconds, self.meter = max(0.0, seconds), meter

    def describe(self) -> dict[str, Any]:
        """Return the cost for explain output."""
        description = {
            "rounds": self.rounds,
            "reads": self.reads,
            "recordsRead": self.records_read,
            "fetched": self.fetched,
            "milliseconds": round(self.seconds * 1000, 1),
        }
        if self.meter is not None and self.meter.units is not None:
            description |= {"capacityUnits": self.meter.units, "estimated": self.meter.estimated}
        return description


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The next rows of one index in reading order."""

    rows: Sequence[Row]
    skipped: Sequence[Position]
    """positions of rows that were read and do not match"""
    watermark: Position | None
    """all rows up to this position are known; None: all rows of the index"""
    failures: Mapping[int, StoreError]
    """failed shards, by ordinal"""
    shards_read: int


class IndexScanner:
    """Read the rows of one index after the current shard progress, in steps.

    Rows that were read and not returned yet are kept for the next step.
    """

    def __init__(
        self, store: Store, plan: SearchPlan, scan: IndexScan, cost: ReadCost, excluded: Collection[int] = ()
    ) -> None:
        self._store = store
        self._plan = plan
        self._scan = scan
        self._cost = cost
        self._excluded = excluded
        self._records_read_before = cost.records_read
        self._started = False
        self._streams: dict[int, ShardStream] = {}
        self._rows: list[Row] = []
        """all rows that were read, merged; those up to `_settled` are certain to be next"""
        self._settled = 0
        self._returned = 0
        self._watermark: Position | None = None

    @property
    def has_rows(self) -> bool:
        """Whether a step can return rows without a read."""
        return self._returned < self._settled

    async def next_rows(self, wanted: int, minimum: int | None = None) -> ScanResult:
        """Return the next `wanted` rows, or fewer at the end of the index or of the read budget.

        With `minimum`, fewer rows are enough if more take another round. The budget is checked only after a complete
        round, in which every shard advances, so every page makes progress.
        """
        begin, goal = self._returned, self._returned + wanted
        rounds = 0
        while not self._is_enough(begin + (minimum or wanted)):
            await self._read_round(goal, rounds)
            rounds += 1
        self._returned = min(self._settled, goal)
        streams = self._streams.values()
        failures = {stream.ordinal: stream.failure for stream in streams if stream.failure is not None}
        skipped = [position for stream in streams for position in stream.skipped]
        return ScanResult(self._rows[begin : self._returned], skipped, self._watermark, failures, len(streams))

    def _is_enough(self, rows: int) -> bool:
        ended = self._watermark is None or self._cost.records_read >= self._plan.read_budget
        return self._started and (ended or self._settled >= rows)

    async def _read_round(self, goal: int, rounds: int) -> None:
        plan, cost, needed = self._plan, self._cost, goal - self._settled
        budget = max(1, plan.read_budget - cost.records_read)
        reads = _within_budget(self._refills(goal, rounds) if self._started else self._start(goal), budget)
        if not reads:
            return
        # An engine that stops at `want` must advance as fast as one that reads shard by shard.
        requested = sum(read.limit for read in reads)
        want = requested if rounds else needed << (0 if self._scan.filters_records else plan.selectivity_hint)
        await self._read(reads, min(budget, max(want, needed)))

    def _start(self, goal: int) -> Sequence[RangeRead]:
        plan, scan = self._plan, self._scan
        reads = plan.reads_of(scan, plan.traversal.start, goal - 1, self._excluded)
        self._started, self._streams = True, {read.ordinal: ShardStream(read, plan, scan) for read in reads}
        return reads

    def _refills(self, goal: int, rounds: int) -> Sequence[RangeRead]:
        """Return the next read of every shard that may still hold one of the missing rows."""
        rows, settled, streams = self._rows, self._settled, self._streams.values()
        scale = _scanned_per_row(self._cost.records_read - self._records_read_before, len(rows), self._plan)
        last_row = rows[goal - 1] if len(rows) >= goal else None
        certain, likely = (Counter(row.ordinal for row in rows[:end]) for end in (settled, goal))
        refills = []
        for stream in streams:
            if stream.scanned_to is None:
                continue
            if last_row is not None and not is_past(last_row, stream.scanned_to, descending=self._plan.descending):
                continue
            share = max(
                certain[stream.ordinal] / settled if certain[stream.ordinal] else 1 / len(streams),
                likely[stream.ordinal] / min(goal, len(rows)) if rows else 0,
            )
            refills.append(stream.next_read(next_limit(goal - settled, share, stream.last_limit, rounds, scale)))
        return refills

    async def _read(self, reads: Sequence[RangeRead], want: int) -> None:
        plan, cost, streams = self._plan, self._cost, self._streams
        results = await self._store.read_ranges(reads, want)
        cost.rounds += 1
        cost.reads += len(reads)
        for read, result in zip(reads, results, strict=True):
            if isinstance(result, RowPage):
                streams[read.ordinal].add_page(result)
                cost.records_read += result.records_read
            elif plan.partial:
                streams[read.ordinal].fail(result)
            else:
                raise result
        self._rows = merge_rows(streams.values(), descending=plan.descending)
        self._watermark = low_watermark(streams.values(), descending=plan.descending)
        self._settled = count_up_to(self._rows, self._watermark, descending=plan.descending)


def _scanned_per_row(scanned: int, matches: int, plan: SearchPlan) -> float:
    """Estimate the number of records to scan for each row that matches."""
    if plan.filter is None and len(plan.scans) == 1:
        return 1
    return max(1, scanned / matches if matches else 2 * scanned)


def _within_budget(reads: Sequence[RangeRead], budget: int) -> Sequence[RangeRead]:
    """Scale the limits down to the rest of the budget, which is spent in full; each read keeps at least one record."""
    requested = sum(read.limit for read in reads)
    if requested <= budget:
        return reads
    ends = [total * budget // requested for total in accumulate((read.limit for read in reads), initial=0)]
    return [replace(read, limit=max(1, end - begin)) for read, (begin, end) in zip(reads, pairwise(ends), strict=True)]
