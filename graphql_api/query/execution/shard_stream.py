"""Track the rows that one shard returned for a page, and the read that continues after them."""

from dataclasses import replace

from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.query import IndexScan, SearchPlan
from graphql_api.storage import Position, RangeRead, Row, RowPage, resume_after


class ShardStream:
    """The rows of one shard, read in several pages; it is exhausted once `scanned_to` is None."""

    def __init__(self, read: RangeRead, plan: SearchPlan, scan: IndexScan) -> None:
        self.rows: list[Row] = []
        self.scanned_to: Position | None = None
        self.failure: StoreError | None = None
        self.skipped: list[Position] = []
        """positions of rows that do not match, in reading order"""
        self._plan = plan
        self._scan = scan
        self._read = read

    @property
    def ordinal(self) -> int:
        return self._read.ordinal

    @property
    def last_limit(self) -> int:
        return self._read.limit

    def add_page(self, page: RowPage) -> None:
        """Add the result of the latest read."""
        if page.scanned_to is not None and page.scanned_to == self.scanned_to and not page.rows:
            hash_key = self._read.hash_key
            raise StoreUnavailable(f"The store makes no progress at {hash_key}: retry.", shard=hash_key)
        for row in page.rows:
            if self._matches(row):
                self.rows.append(row)
            else:
                self.skipped.append(row.position)
        rest = None
        if page.scanned_to is not None:
            rest = resume_after(self._read, page.scanned_to, may_tie=self._scan.index.raw)
        self.scanned_to = page.scanned_to if rest is not None else None
        self._read = rest or self._read

    def _matches(self, row: Row) -> bool:
        """Check what the row itself shows: expiry, the row filter, and the scans before it in a union."""
        plan, scan = self._plan, self._scan
        if scan.row_view.is_expired(row, plan.now):
            return False
        if scan.row_filter is not None and not scan.row_filter.matches(scan.row_view.reader(row)):
            return False
        return not any(earlier.contains(row.item) for earlier in plan.scans[: scan.number])

    def fail(self, failure: StoreError) -> None:
        """Exclude the shard from the rest of the page; its rows so far stay valid."""
        self.failure = failure
        self.scanned_to = None

    def next_read(self, limit: int) -> RangeRead:
        """Return the next read, with this limit."""
        self._read = replace(self._read, limit=limit)
        return self._read
