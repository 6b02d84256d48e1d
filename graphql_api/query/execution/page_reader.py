"""Read one page: scan index after index, fetch records where rows lack properties, and keep the matches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

from graphql_api.errors import StoreError, TooManyToSort
from graphql_api.model import SortProperty, is_expired
from graphql_api.query import (
    MAX_FETCH_BATCH,
    Cursor,
    FetchSizing,
    IndexScan,
    SearchPlan,
    ShardProgress,
    property_reader,
)
from graphql_api.query.execution.index_scanner import IndexScanner, ReadCost, ScanResult
from graphql_api.storage import Item, Row, Store


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """A row that matches the search, and the scan that returned it."""

    row: Row
    scan: IndexScan

    @property
    def cursor(self) -> Cursor:
        """Return the cursor directly after this row."""
        return self.scan.cursor_at(self.row.position)


@dataclass(slots=True)
class PageResult:
    """One page in reading order, and the progress at which the next page resumes."""

    matches: list[MatchedRow]
    progress: ShardProgress
    """of the shards after this page"""
    failures: Mapping[int, StoreError]
    """failed shards, by ordinal"""
    cost: ReadCost
    shards_read: int
    scanned_per_match: float
    """records that the filter was evaluated on for each match"""
    stopped_by: Literal["BUDGET", "SHARDS"] | None
    """reason why the page is shorter than its limit, unless it is the last page"""


async def read_page(store: Store, plan: SearchPlan) -> PageResult:
    """Read the next page of records.

    An index entry may be older than its record. Records that expired, were deleted or have moved are skipped, and later
    ones fill the page. The page is read up to one record past its limit, which proves that a next page exists.
    """
    reader = _PageReader(store, plan)
    await reader.read(plan.limit + 1)
    return reader.page() if plan.order_by is None else reader.sorted_page(plan.order_by)


@dataclass(frozen=True, slots=True)
class Count:
    """The number of records of a search; a lower bound if it is not exact."""

    value: int
    exact: bool
    plan: SearchPlan = field(repr=False, compare=False)
    cost: ReadCost = field(repr=False, compare=False)

    @property
    def explain(self) -> Mapping[str, Any]:
        """Return the plan and the actual cost of counting."""
        return {**self.plan.describe(), "read": {**self.cost.describe(), "returned": 0}}


async def count_records(store: Store, plan: SearchPlan) -> Count:
    """Count the records of a search, up to the limit of the plan."""
    reader = _PageReader(store, plan)
    await reader.read(plan.limit + 1)
    complete = len(reader.matches) <= plan.limit and not reader.budget_spent and not reader.failures
    return Count(min(len(reader.matches), plan.limit), complete, plan, reader.cost)


@dataclass(slots=True)
class _PageReader:
    """Scan the indexes of a search until there are enough matches, or the read budget is spent."""

    store: Store
    plan: SearchPlan
    cost: ReadCost = field(default_factory=ReadCost)
    matches: list[MatchedRow] = field(default_factory=list)
    skipped_to: Cursor | None = None
    """last cursor of a skipped row before the first record of the next page"""
    reached: Cursor | None = None
    """all rows up to this cursor are known"""
    failures: dict[int, StoreError] = field(default_factory=dict)
    shards_read: int = 0
    """greatest number of shards that one scan read"""
    any_shard_answered: bool = False
    budget_spent: bool = False
    scanned: int = 0
    """records that the filter was evaluated on until there were enough matches"""

    async def read(self, wanted: int) -> None:
        """Scan the indexes in reading order until there are `wanted` matches."""
        for number in self.plan.traversal.index_numbers():
            await self._scan(self.plan.scans[number], wanted)
            if len(self.matches) >= wanted or self.budget_spent:
                return
            if self.cost.records_read >= self.plan.read_budget and self.reached != self.plan.traversal.last_cursor:
                self.budget_spent = True
                return
        self.reached = self.plan.traversal.last_cursor

    async def _scan(self, scan: IndexScan, wanted: int) -> None:
        plan, start = self.plan, self.plan.traversal.cursor_before(scan.number)
        scanner = IndexScanner(self.store, plan, scan, self.cost, self.failures)
        sizing = FetchSizing(plan.selectivity_hint if scan.filters_records else 0)
        while True:
            needed = wanted - len(self.matches)
            count = sizing.next_count(needed) if scan.filters_records else needed
            if scan.fetches_records:
                count = min(count, MAX_FETCH_BATCH)
            records_read = self.cost.records_read
            # The needed number of rows is only an estimate: a quarter of it is fetched before another round is read.
            result = await scanner.next_rows(count, minimum=ceil(count / 4) if scan.filters_records else None)
            self._note_failures(result)
            rows = await self._fetch(scan, result.rows) if scan.fetches_records else result.rows
            self._add_matches(scan, result, rows, start, wanted)
            sizing.add_batch(len(result.rows), len(rows))
            if scan.filters_records:
                self.scanned += _rows_up_to_last(result.rows, rows[:needed])
            else:
                self.scanned += self.cost.records_read - records_read
            is_full = len(result.rows) >= count
            last = result.rows[-1].position if is_full else result.watermark
            self.reached = plan.traversal.cursor_after(scan.number) if last is None else scan.cursor_at(last)
            if len(self.matches) >= wanted or (last is None and not is_full):
                return
            if self.cost.records_read >= plan.read_budget and not scanner.has_rows:
                self.budget_spent = True
                return
            start = self.reached

    def _note_failures(self, result: ScanResult) -> None:
        """Record failed shards; raise the first failure if no shard has answered."""
        self.failures |= result.failures
        self.shards_read = max(self.shards_read, result.shards_read)
        self.any_shard_answered |= result.shards_read > len(result.failures)
        if result.failures and not self.any_shard_answered:
            raise next(iter(result.failures.values()))

    def _add_matches(
        self, scan: IndexScan, result: ScanResult, rows: Sequence[Row], start: Cursor, wanted: int
    ) -> None:
        """Add matching rows. Once there are enough, find the last skipped row before the next page."""
        if self.matches:
            present = {match.row.key for match in self.matches}
            rows = [row for row in rows if row.key not in present]  # A record that moves appears once on a page.
        self.matches += [MatchedRow(row, scan) for row in rows[: wanted - len(self.matches)]]
        if len(self.matches) < wanted:
            return
        traversal, next_page = self.plan.traversal, self.matches[-1].cursor
        self.skipped_to = start
        for position in (*result.skipped, *(row.position for row in result.rows)):
            cursor = scan.cursor_at(position)
            if traversal.is_before(cursor, next_page):
                self.skipped_to = traversal.later(cursor, self.skipped_to)

    async def _fetch(self, scan: IndexScan, rows: Sequence[Row]) -> list[Row]:
        """Fetch the records of rows; skip records that are gone, have moved or do not match."""
        items = await self.store.get_many([row.key for row in rows], consistent=False) if rows else ()
        self.cost.fetched += len(rows)
        hash_keys = {read.ordinal: read.hash_key for read in scan.shard_reads}
        index = scan.index
        return [
            Row(row.value, row.ordinal, row.key, item, _identity)
            for row, item in zip(rows, items, strict=True)
            if item is not None
            and item.get(index.hash_attribute) == hash_keys[row.ordinal]
            and item.get(index.range_attribute) == row.value
            and self._matches(item)
        ]

    def _matches(self, item: Item) -> bool:
        plan = self.plan
        if is_expired(plan.entity, item, plan.now):
            return False
        return plan.filter is None or plan.filter.matches(property_reader(plan.entity, item))

    # --- the page ----------------------------------------------------------------------------------------------

    def page(self) -> PageResult:
        """Return the matches, cut to the limit of the page."""
        plan, scanned_per_match = self.plan, self.scanned / max(1, len(self.matches))
        if len(self.matches) > plan.limit:
            self.matches = self.matches[: plan.limit]
            last = self.matches[-1].cursor
            self.reached = last if self.skipped_to is None else plan.traversal.later(last, self.skipped_to)
            self.budget_spent = False
        assert self.reached is not None, "a search has at least one index"
        progress = self._progress_after(self.reached)
        is_short = len(self.matches) < plan.limit and progress != ShardProgress(plan.traversal.last_cursor)
        stopped_by: Literal["BUDGET", "SHARDS"] | None = None
        if is_short:
            stopped_by = "BUDGET" if self.budget_spent else "SHARDS"
        return PageResult(
            self.matches, progress, self.failures, self.cost, self.shards_read, scanned_per_match, stopped_by
        )

    def sorted_page(self, order: SortProperty) -> PageResult:
        """Return all matches as one page, sorted by a property; records without a value sort as the lowest."""
        plan = self.plan
        if len(self.matches) > plan.limit or self.budget_spent:
            raise TooManyToSort(
                f"More than {plan.limit:,} records match, or more than {plan.read_budget:,} must be read: at most "
                f"{plan.limit:,} are sorted at once. Narrow the search, or read its pages in index order."
            )

        def key(match: MatchedRow) -> tuple[bool, str]:
            value = self._value(match, order)
            return value is not None, "" if value is None else order.property.column.encode(value)

        self.matches.sort(key=key, reverse=order.descending)
        end = ShardProgress(plan.traversal.last_cursor)
        return PageResult(self.matches, end, {}, self.cost, self.shards_read, 1, None)

    def _value(self, match: MatchedRow, order: SortProperty) -> Any:
        row, scan = match.row, match.scan
        read = property_reader(self.plan.entity, row.item) if scan.fetches_records else scan.row_view.reader(row)
        return read(order.property)

    def _progress_after(self, last: Cursor) -> ShardProgress:
        plan = self.plan
        return plan.traversal.progress_after(last_cursors(self.matches), last, plan.ordinals, self.failures)


def last_cursors(matches: Iterable[MatchedRow]) -> dict[int, Cursor]:
    """Return the cursor of the last row of each shard, by ordinal."""
    return {match.row.ordinal: match.cursor for match in matches}


def _rows_up_to_last(rows: Sequence[Row], matching: Sequence[Row]) -> int:
    """Return the number of rows up to the last matching one; all rows if none matches."""
    if not matching:
        return len(rows)
    return next(number for number, row in enumerate(rows, 1) if row.key == matching[-1].key)


def _identity(item: Item) -> Any:
    return item
