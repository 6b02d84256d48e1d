"""One shard's part of a page: what it has shown, how far that goes, and where to ask on."""

from dataclasses import replace

from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.query import Member, SearchPlan
from graphql_api.storage import Position, RangeRead, Row, RowPage, behind


class ShardStream:
    """A shard of a running page; it has shown everything once `scanned_to` is None."""

    def __init__(self, read: RangeRead, plan: SearchPlan, member: Member) -> None:
        self.rows: list[Row] = []
        self.scanned_to: Position | None = None
        self.failure: StoreError | None = None
        self.passed: list[Position] = []
        """places of rows that do not count, in reading order"""
        self._plan = plan
        self._member = member
        self._read = read

    @property
    def ordinal(self) -> int:
        return self._read.ordinal

    @property
    def last_limit(self) -> int:
        return self._read.limit

    def take(self, page: RowPage) -> None:
        """Adds the answer to the latest read."""
        if page.scanned_to is not None and page.scanned_to == self.scanned_to and not page.rows:
            hash_key = self._read.hash_key
            raise StoreUnavailable(f"The store stands still at {hash_key}: try again.", shard=hash_key)
        for row in page.rows:
            if self._counts(row):
                self.rows.append(row)
            else:
                self.passed.append(row.position)
        left = None if page.scanned_to is None else behind(self._read, page.scanned_to, may_tie=self._member.index.raw)
        self.scanned_to = page.scanned_to if left is not None else None
        self._read = left or self._read

    def _counts(self, row: Row) -> bool:
        """Whether a row is part of the answer, as far as it tells itself."""
        plan, member = self._plan, self._member
        if member.view.has_expired(row, plan.now):
            return False
        if member.early is not None and not member.early.matches(member.view.reader(row)):
            return False
        return not any(earlier.holds(row.item) for earlier in plan.members[: member.number])

    def fail(self, failure: StoreError) -> None:
        """Is out for the rest of the page; what it has shown stays."""
        self.failure = failure
        self.scanned_to = None

    def ask_on(self, limit: int) -> RangeRead:
        """The next read, for so many records."""
        self._read = replace(self._read, limit=limit)
        return self._read
