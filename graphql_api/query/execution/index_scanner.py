"""Scan one index in rounds of reads, until enough rows are certain or the read budget is spent."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from graphql_api.errors import MissingIndex, ShardQLError, StoreError
from graphql_api.query import IndexScan, SearchPlan, lost_index_error, next_limit, within_units
from graphql_api.query.execution.shard_merge import MergedRows, ShardStream, is_past, low_watermark, matching_rows
from graphql_api.runtime import CapacityCeiling, CapacityMeter, current_statistics, measure_call
from graphql_api.storage import (
    MergedPages,
    Position,
    RangeRead,
    ReadResult,
    Row,
    RowPage,
    Store,
    resume_after,
    total_limit,
    total_records_read,
)


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

    def explain(self, plan: Mapping[str, Any], returned: int) -> dict[str, Any]:
        """Return a plan with its actual cost, for explain output."""
        read = {
            "rounds": self.rounds,
            "reads": self.reads,
            "recordsRead": self.records_read,
            "fetched": self.fetched,
            "milliseconds": round(self.seconds * 1000, 1),
        }
        if self.meter is not None and self.meter.units is not None:
            read |= {"capacityUnits": self.meter.units, "estimated": self.meter.estimated}
            if self.meter.in_doubt:
                read["unitsInDoubt"] = self.meter.in_doubt
        return {**plan, "read": {**read, "returned": returned}}


@dataclass(slots=True)
class IndexScanner:
    """Read the rows of one index after the current shard progress, in steps.

    Rows that were read and not returned yet are kept for the next step.
    """

    store: Store
    plan: SearchPlan
    scan: IndexScan
    cost: ReadCost
    excluded: Collection[int]
    """shards that failed in an earlier scan"""
    ceiling: CapacityCeiling | None = None
    reached_ceiling: bool = False
    """another round does not fit under the ceiling"""
    shards_read: int = 0
    watermark: Position | None = None
    """all rows up to this position are known; None: all rows of the index"""
    _started: bool = False
    _scanned: int = 0
    _known: MergedRows = field(init=False)
    _returned: int = 0
    _streams: dict[int, ShardStream] = field(default_factory=dict)
    """the shards that are read, by ordinal; empty as long as `_merged` holds the rows of all shards"""
    _merged: tuple[Sequence[RangeRead], MergedPages] | None = None
    """the first round, if the engine has merged it"""
    _skipped: list[Position] = field(default_factory=list)
    """of rows in `_merged` that do not match"""

    def __post_init__(self) -> None:
        self._known = MergedRows(self.plan.descending)

    @property
    def has_rows(self) -> bool:
        """Whether a step can return rows without a read."""
        return self._returned < self._known.settled

    @property
    def failures(self) -> Mapping[int, StoreError]:
        """Return the failed shards, by ordinal."""
        return {ordinal: stream.failure for ordinal, stream in self._streams.items() if stream.failure is not None}

    @property
    def skipped(self) -> Iterator[Position]:
        """Return the positions of rows that do not match."""
        yield from self._skipped
        for stream in self._streams.values():
            yield from stream.skipped

    @property
    def is_started(self) -> bool:
        """Whether a round was read. Otherwise no position of the index is known."""
        return self._started

    def put_back(self, count: int) -> None:
        """Let the next step return the last rows again."""
        self._returned -= count

    async def next_rows(self, wanted: int, minimum: int | None = None) -> Sequence[Row]:
        """Return the next `wanted` rows in reading order, or fewer at the end of the index, of the budget or ceiling.

        With `minimum`, fewer rows are enough if more take another round. The budget is checked only after a complete
        round, in which every shard advances, so every page makes progress.
        """
        begin, goal = self._returned, self._returned + wanted
        rounds, self.reached_ceiling = 0, False
        while not self._is_enough(begin + (minimum or wanted)):
            await self._read_round(goal, rounds)
            rounds += 1
        self._returned = min(self._known.settled, goal)
        return self._known.rows[begin : self._returned]

    def _is_enough(self, rows: int) -> bool:
        ended = self.watermark is None or self.cost.records_read >= self.plan.request.read_budget
        return self.reached_ceiling or (self._started and (ended or self._known.settled >= rows))

    async def _read_round(self, goal: int, rounds: int) -> None:
        plan, cost, needed = self.plan, self.cost, goal - self._known.settled
        budget = max(1, plan.request.read_budget - cost.records_read)
        is_first = not self._started
        reads = (
            plan.reads_of(self.scan, plan.traversal.start, goal - 1, self.excluded)
            if is_first
            else self._refills(goal, rounds)
        )
        affordable = self._affordable(_within_budget(reads, budget), needed)
        if reads and not affordable:
            self.reached_ceiling = True
            return
        if is_first:
            self._started, self.shards_read = True, len(reads)
        if not reads:
            return
        first_reads, reads = reads, affordable
        # An engine that stops at `want` must advance as fast as one that reads shard by shard.
        requested = total_limit(reads)
        want = requested if rounds else needed << (0 if self.scan.filters_records else plan.token.selectivity_hint)
        if self.ceiling is not None:  # The reserved units suffice for the requested rows.
            want = needed = min(requested, max(want, needed))
        statistics, entity = current_statistics(), plan.entity.declared_name
        call = self.store.read_ranges(reads, min(budget, max(want, needed)))
        try:
            results = await measure_call(call, [statistics.of_index(entity, self.scan.index.name)])
        except MissingIndex as problem:
            raise self._lost_index_error() from problem
        records_read = total_records_read(results)
        statistics.of_index(entity, plan.search_name).records_read += records_read
        cost.rounds += 1
        cost.reads += len(reads)
        cost.records_read += records_read
        self._scanned += records_read
        if is_first and isinstance(results, MergedPages):
            self._add_merged(reads, results)
            return
        if is_first:
            self._start_streams(first_reads)
        rows = self._add_pages(reads, results)
        self.watermark = low_watermark(self._streams.values(), descending=plan.descending)
        self._known.add(rows, self.watermark)

    def _start_streams(self, reads: Sequence[RangeRead]) -> None:
        self._streams = {read.ordinal: ShardStream(read, self.plan, self.scan) for read in reads}

    def _add_pages(self, reads: Sequence[RangeRead], results: Sequence[ReadResult]) -> list[Row]:
        """Add the results of a round to the streams of the shards. Return the rows that match."""
        rows: list[Row] = []
        for read, result in zip(reads, results, strict=True):
            if isinstance(result, RowPage):
                rows += self._streams[read.ordinal].add_page(result)
            elif isinstance(result, MissingIndex):
                raise self._lost_index_error() from result
            elif self.plan.request.on_shard_failure == "PARTIAL":
                self._streams[read.ordinal].fail(result)
            else:
                raise result
        return rows

    def _add_merged(self, reads: Sequence[RangeRead], pages: MergedPages) -> None:
        """Take the rows of a first round as the engine has merged them: all of them are certain to be next."""
        self._merged = reads, pages
        rows, self._skipped = matching_rows(pages.rows, self.plan, self.scan)
        self._known.begin(rows)
        at = pages.scanned_to
        if at is not None:
            # The position holds for all shards, so the rest of its own shard is empty only if all are.
            own = self.scan.read._replace(ordinal=at.ordinal)
            self.watermark = at if resume_after(own, at, may_tie=self.scan.index.raw) is not None else None

    def _split_merged(self) -> None:
        """Continue shard by shard, after a first round that the engine has merged."""
        if self._merged is not None:
            reads, pages = self._merged
            self._merged, self._skipped = None, []
            self._start_streams(reads)
            self._add_pages(reads, pages)

    def _affordable(self, reads: Sequence[RangeRead], needed: int) -> Sequence[RangeRead]:
        """Lower the limits of reads to what fits under the ceiling, besides fetching the records of known rows.

        Return no reads if not even one record of each shard fits.
        """
        if self.ceiling is None:
            return reads
        fetch_units = self.scan.fetch_units(self.plan.entity.max_record_bytes)
        left = self.ceiling.left - fetch_units * (self._known.settled - self._returned)
        return within_units(reads, left, fetch_units=fetch_units, needed=needed)

    def _lost_index_error(self) -> ShardQLError:
        return lost_index_error(self.plan.entity, self.plan.request, self.scan.index)

    def _refills(self, goal: int, rounds: int) -> Sequence[RangeRead]:
        """Return the next read of every shard that may still hold one of the missing rows."""
        self._split_merged()
        rows, settled, streams = self._known.rows, self._known.settled, self._streams.values()
        all_match = self.plan.filter is None and len(self.plan.scans) == 1
        scanned_per_row = 1 if all_match else max(1, self._scanned / len(rows) if rows else 2 * self._scanned)
        last_row = rows[goal - 1] if len(rows) >= goal else None
        certain, likely = (Counter(row.ordinal for row in rows[:end]) for end in (settled, goal))
        refills = []
        for stream in streams:
            at, ordinal = stream.scanned_to, stream.read.ordinal
            if at is None or (last_row is not None and not is_past(last_row, at, descending=self.plan.descending)):
                continue
            share = max(
                certain[ordinal] / settled if certain[ordinal] else 1 / len(streams),
                likely[ordinal] / min(goal, len(rows)) if rows else 0,
            )
            limit = next_limit(goal - settled, share, stream.read.limit, rounds, scanned_per_row)
            stream.read = stream.read._replace(limit=limit)
            refills.append(stream.read)
        return refills


def _within_budget(reads: Sequence[RangeRead], budget: int) -> Sequence[RangeRead]:
    """Scale the limits down to the rest of the budget, which is spent in full; each read keeps at least one record."""
    requested = total_limit(reads)
    if requested <= budget:
        return reads
    ends = [total * budget // requested for total in accumulate((read.limit for read in reads), initial=0)]
    return [read._replace(limit=max(1, end - begin)) for read, (begin, end) in zip(reads, pairwise(ends), strict=True)]
