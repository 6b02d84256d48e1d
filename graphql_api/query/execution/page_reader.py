"""Read one page: scan index after index, fetch records where rows lack properties, and keep the matches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, NamedTuple

from graphql_api.errors import ShardQLError, StoreError, TooManyToSort
from graphql_api.model import SortProperty
from graphql_api.query import (
    MAX_FETCH_BATCH,
    Cursor,
    FetchSizing,
    IndexScan,
    SearchPlan,
    ShardProgress,
    property_reader,
    smallest_units,
)
from graphql_api.query.execution.index_scanner import IndexScanner, ReadCost
from graphql_api.query.execution.point_lookups import statistics_by_key
from graphql_api.runtime import CapacityCeiling, IndexStatistics, Reservation, current_statistics, measure_call
from graphql_api.storage import Item, Row, Store, ceiling_error

StoppedBy = Literal["BUDGET", "SHARDS"] | None


class MatchedRow(NamedTuple):
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
    stopped_by: StoppedBy
    """reason why the page may be shorter than its limit, or the next one empty"""


async def read_page(store: Store, plan: SearchPlan, ceiling: CapacityCeiling | None = None) -> PageResult:
    """Read the next page of records. Under a `ceiling`, a page that would pass it ends early, with an exact position.

    An index entry may be older than its record. Records that expired, were deleted or have moved are skipped, and later
    ones fill the page. The page is read up to one record past its limit, which proves that a next page exists.
    """
    reader = PageReader(store, plan, ceiling)
    await reader.read(plan.limit + 1)
    if plan.order_by is not None:
        reader.sort(plan.order_by)
    page = reader.page()
    is_empty = not page.matches and page.stopped_by is None
    reader.statistics.shards_asked += page.shards_read
    if plan.resumed:  # An empty page at the end of a search that found records is no empty read.
        reader.statistics.add_read("next_page", is_empty=False, returned=len(page.matches))
    else:
        reader.statistics.add_read("first_page", is_empty=is_empty, returned=len(page.matches))
    return page


@dataclass(slots=True)
class PageReader:
    """Scan the indexes of a search until there are enough matches, or the read budget is spent."""

    store: Store
    plan: SearchPlan
    ceiling: CapacityCeiling | None = None
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
    reached_ceiling: bool = False
    scanned: int = 0
    """records that the filter was evaluated on until there were enough matches"""
    next_fetch: Reservation | None = None
    """the units of one record to fetch, so that rows that were read can always be used"""

    @property
    def statistics(self) -> IndexStatistics:
        """Return the counts of this index or union in the current request."""
        return current_statistics().of_index(self.plan.entity.declared_name, self.plan.search_name)

    async def read(self, wanted: int) -> None:
        """Scan the indexes in reading order until there are `wanted` matches."""
        try:
            await self._read(wanted)
        finally:
            self._release_fetch()

    async def _read(self, wanted: int) -> None:
        for number in self.plan.traversal.index_numbers():
            await self._scan(self.plan.scans[number], wanted)
            if len(self.matches) >= wanted or self.budget_spent:
                return
            if self._has_spent_budget and self.reached != self.plan.traversal.last_cursor:
                self.budget_spent = True
                return
        self.reached = self.plan.traversal.last_cursor

    @property
    def _has_spent_budget(self) -> bool:
        return self.cost.records_read >= self.plan.request.read_budget

    async def _scan(self, scan: IndexScan, wanted: int) -> None:
        plan, start = self.plan, self.plan.traversal.cursor_before(scan.number)
        scanner = IndexScanner(self.store, plan, scan, self.cost, self.failures, self.ceiling)
        sizing = FetchSizing(plan.token.selectivity_hint if scan.filters_records else 0)
        while True:
            needed = wanted - len(self.matches)
            count = sizing.next_count(needed) if scan.filters_records else needed
            if scan.fetches_records:
                count = min(count, MAX_FETCH_BATCH)
            records_read = self.cost.records_read
            if scan.fetches_records and not self._reserve_fetch():
                self._end_at_ceiling(scan)
                return
            # The needed number of rows is only an estimate: a quarter of it is fetched before another round is read.
            rows = await scanner.next_rows(count, minimum=ceil(count / 4) if scan.filters_records else None)
            if not scanner.is_started:
                self._end_at_ceiling(scan)
                return
            self._note_failures(scanner)
            unaffordable = self._put_back_unaffordable(scanner, rows) if scan.fetches_records else 0
            rows = scan.record_rows(rows[: len(rows) - unaffordable])
            matching = await self._fetch(scan, rows) if scan.fetches_records else rows
            self._add_matches(scanner, rows, matching, start, wanted)
            sizing.add_batch(len(rows), len(matching))
            if scan.filters_records:
                self.scanned += _rows_up_to_last(rows, matching[:needed])
            else:
                self.scanned += self.cost.records_read - records_read
            is_full = len(rows) >= count or unaffordable > 0
            last = rows[-1].position if is_full else scanner.watermark
            self.reached = plan.traversal.cursor_after(scan.number) if last is None else scan.cursor_at(last)
            if len(self.matches) >= wanted or (last is None and not is_full):
                return
            # Rows that are fetched may charge less than was reserved, so that another round fits.
            self.reached_ceiling = scanner.reached_ceiling and not rows
            if (self._has_spent_budget or self.reached_ceiling) and not scanner.has_rows:
                self.budget_spent = True
                return
            start = self.reached

    # --- the ceiling -------------------------------------------------------------------------------------------

    def _reserve_fetch(self) -> bool:
        """Reserve the units of one record to fetch. Return False if they do not fit under the ceiling."""
        if self.ceiling is not None and self.next_fetch is None:
            self.next_fetch = self.ceiling.reserve(self._fetch_units)
            return self.next_fetch is not None
        return True

    def _release_fetch(self) -> None:
        if self.next_fetch is not None:
            self.next_fetch.settle(0.0)
            self.next_fetch = None

    @property
    def _fetch_units(self) -> float:
        return max(scan.fetch_units(self.plan.entity.max_record_bytes) for scan in self.plan.scans)

    def _put_back_unaffordable(self, scanner: IndexScanner, rows: Sequence[Row]) -> int:
        """Put rows back whose records do not fit under the ceiling. Return their number; one record always fits."""
        if self.ceiling is None:
            return 0
        self._release_fetch()
        count = max(0, len(rows) - int(self.ceiling.left // self._fetch_units))
        scanner.put_back(count)
        return count

    def _end_at_ceiling(self, scan: IndexScan) -> None:
        """End the page before a read that does not fit. Raise QueryTooCostly if nothing was read."""
        if not self.cost.rounds:
            raise self._ceiling_error(scan)
        self.budget_spent = self.reached_ceiling = True

    def _ceiling_error(self, scan: IndexScan) -> ShardQLError:
        assert self.ceiling is not None, "only a ceiling ends a page before a read"
        reads = self.plan.reads_of(scan, self.plan.traversal.start, self.plan.limit, self.failures)
        return ceiling_error(self.ceiling, smallest_units(reads) + scan.fetch_units(self.plan.entity.max_record_bytes))

    def _note_failures(self, scanner: IndexScanner) -> None:
        """Record failed shards; raise the first failure if no shard has answered."""
        failures, shards_read = scanner.failures, scanner.shards_read
        self.failures |= failures
        self.shards_read = max(self.shards_read, shards_read)
        self.any_shard_answered |= shards_read > len(failures)
        if failures and not self.any_shard_answered:
            raise next(iter(failures.values()))

    def _add_matches(
        self, scanner: IndexScanner, rows: Sequence[Row], matching: Sequence[Row], start: Cursor, wanted: int
    ) -> None:
        """Add matching rows. Once there are enough, find the last skipped row before the next page."""
        if self.matches:
            present = {match.row.key for match in self.matches}
            matching = [row for row in matching if row.key not in present]  # A record that moves appears once.
        self.matches += [MatchedRow(row, scanner.scan) for row in matching[: wanted - len(self.matches)]]
        if len(self.matches) < wanted:
            return
        traversal, next_page = self.plan.traversal, self.matches[-1].cursor
        self.skipped_to = start
        # Rows are in reading order: of those before the next page, the last one is the latest.
        in_order = (row.position for row in reversed(rows))
        last = next((one for one in in_order if traversal.is_before(scanner.scan.cursor_at(one), next_page)), None)
        for position in (*scanner.skipped, *(() if last is None else (last,))):
            cursor = scanner.scan.cursor_at(position)
            if traversal.is_before(cursor, next_page):
                self.skipped_to = traversal.later(cursor, self.skipped_to)

    async def _fetch(self, scan: IndexScan, rows: Sequence[Row]) -> list[Row]:
        """Fetch the records of rows; skip records that are gone, have moved or do not match."""
        if not rows:
            return []
        plan, keys = self.plan, [*dict.fromkeys(row.key for row in rows)]
        call = self.store.get_many(keys, consistent=scan.read.consistent)
        items = await measure_call(call, [statistics_by_key(plan.entity)])
        self.cost.fetched += len(keys)
        self.statistics.records_read += sum(item is not None for item in items)
        found = dict(zip(keys, items, strict=True))
        if scan.index.lookup is not None:
            self.statistics.dangling += sum(not self._is_current(scan, row, found[row.key]) for row in rows)
        return [
            Row(row.value, row.ordinal, row.key, item)
            for row in rows
            if (item := found[row.key]) is not None
            and self._is_current(scan, row, item)
            and plan.entity.is_visible(item, plan.now)
            and (plan.filter is None or plan.filter.matches(property_reader(plan.entity, item)))
        ]

    def _is_current(self, scan: IndexScan, row: Row, item: Item | None) -> bool:
        """Return whether a record exists, and has the row as its index entry or mapping item."""
        return item is not None and scan.is_entry_of(row, item, self.plan.request.tenant)

    # --- the page ----------------------------------------------------------------------------------------------

    def sort(self, order: SortProperty) -> None:
        """Sort the whole result by a property; records without a value sort as the lowest."""
        plan = self.plan
        if self.reached_ceiling and self.budget_spent:
            raise self._ceiling_error(plan.scans[-1])
        if len(self.matches) > plan.limit or self.budget_spent:
            raise TooManyToSort(
                f"More than {plan.limit:,} records match, or more than {plan.request.read_budget:,} must be read: "
                f"at most {plan.limit:,} are sorted at once. Narrow the search, or read its pages in index order."
            )

        def key(match: MatchedRow) -> tuple[bool, str]:
            row, scan = match.row, match.scan
            read = property_reader(plan.entity, row.item) if scan.fetches_records else scan.row_view.reader(row)
            value = read(order.property)
            return value is not None, "" if value is None else order.property.column.encode(value)

        self.matches.sort(key=key, reverse=order.descending)

    def page(self) -> PageResult:
        """Return the matches, cut to the limit of the page."""
        plan, scanned_per_match = self.plan, self.scanned / max(1, len(self.matches))
        if len(self.matches) > plan.limit:
            self.matches = self.matches[: plan.limit]
            self.reached = self.matches[-1].cursor
            # The token of a restricted search would reveal where records are that the caller may not read.
            if self.skipped_to is not None and not plan.is_restricted:
                self.reached = plan.traversal.later(self.reached, self.skipped_to)
            self.budget_spent = False
        assert self.reached is not None, "a search has at least one index"
        returned = last_cursors(self.matches) if self.failures else {}
        progress = plan.traversal.progress_after(returned, self.reached, plan.ordinals, self.failures)
        # A full page that spent the budget does not know whether more records follow.
        is_full = len(self.matches) >= plan.limit and not self.budget_spent
        is_complete = is_full or progress == ShardProgress(plan.traversal.last_cursor)
        stopped_by: StoppedBy = None if is_complete else "BUDGET" if self.budget_spent else "SHARDS"
        return PageResult(
            self.matches, progress, self.failures, self.cost, self.shards_read, scanned_per_match, stopped_by
        )


def last_cursors(matches: Iterable[MatchedRow]) -> dict[int, Cursor]:
    """Return the cursor of the last row of each shard, by ordinal."""
    return {match.row.ordinal: match.cursor for match in matches}


def _rows_up_to_last(rows: Sequence[Row], matching: Sequence[Row]) -> int:
    """Return the number of rows up to the last matching one; all rows if none matches."""
    if not matching:
        return len(rows)
    return next(number for number, row in enumerate(rows, 1) if row.key == matching[-1].key)
