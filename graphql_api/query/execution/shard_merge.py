"""Merge the rows of all shards, and decide which of them are certainly the next rows of the result.

Each shard returns its rows in reading order, so all its rows up to its `scanned_to` position are known. Any other row
of the shard is past that position. The low watermark is the smallest `scanned_to` of all shards with more rows: no
shard can still return a row before it. The known rows up to the watermark, sorted by (range value, shard ordinal), are
therefore exactly the beginning of the result.

Rows with equal sort keys belong to one shard, and the stable sort keeps the order of that shard. Range values of an
encoded index are unique, and on a raw index the ordinal breaks ties between shards. So every row is returned once and
in order. The next page needs only one cursor: the last row that this page returned.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.query import IndexScan, SearchPlan
from graphql_api.storage import Key, Position, RangeRead, Row, RowPage, resume_after


@dataclass(slots=True)
class ShardStream:
    """How far one shard is read, in several pages; it is exhausted once `scanned_to` is None."""

    read: RangeRead
    """the last read, or the rest of it after a page"""
    plan: SearchPlan
    scan: IndexScan
    skipped: list[Position] = field(default_factory=list)
    """positions of rows that do not match, in reading order"""
    scanned_to: Position | None = None
    failure: StoreError | None = None

    def add_page(self, page: RowPage) -> list[Row]:
        """Add the result of the latest read. Return the rows that match."""
        if page.scanned_to is not None and page.scanned_to == self.scanned_to and not page.rows:
            hash_key = self.read.hash_key
            raise StoreUnavailable(f"The store makes no progress at {hash_key}: retry.", shard=hash_key)
        rows, skipped = matching_rows(page.rows, self.plan, self.scan)
        self.skipped += skipped
        at = page.scanned_to
        rest = None if at is None else resume_after(self.read, at, may_tie=self.scan.index.raw)
        self.scanned_to, self.read = (None, self.read) if rest is None else (at, rest)
        return rows

    def fail(self, failure: StoreError) -> None:
        """Exclude the shard from the rest of the page; the rows that it returned stay valid."""
        self.failure, self.scanned_to = failure, None


def matching_rows(rows: Sequence[Row], plan: SearchPlan, scan: IndexScan) -> tuple[list[Row], list[Position]]:
    """Return the rows that match, and the positions of the others.

    This checks what a row itself shows: visibility, the row filter, and the scans before it in a union.
    """
    view, row_filter, earlier_scans = scan.row_view, scan.row_filter, plan.scans[: scan.number]
    if not view.entity.visibility_properties and row_filter is None and not earlier_scans:
        return [*rows], []
    matching: list[Row] = []
    skipped: list[Position] = []
    for row in rows:
        is_match = (
            view.is_visible(row, plan.now)
            and (row_filter is None or row_filter.matches(view.reader(row)))
            and not any(earlier.contains(row.item) for earlier in earlier_scans)
        )
        if is_match:
            matching.append(row)
        else:
            skipped.append(row.position)
    return matching, skipped


sort_key: Callable[[Row | Position], tuple[Any, int]] = attrgetter("value", "ordinal")
"""Returns the sort key of a row; the range values of one index are all texts or all numbers"""


@dataclass(slots=True)
class MergedRows:
    """The known rows of all shards in reading order. Those up to the low watermark are settled: none precedes them."""

    descending: bool
    rows: list[Row] = field(default_factory=list)
    settled: int = 0
    """number of settled rows"""
    _settled_keys: set[Key] = field(default_factory=set)
    _noted: int = 0
    """number of the settled rows whose keys are in the set"""

    def begin(self, rows: list[Row]) -> None:
        """Begin with rows that the engine has merged: all of them are settled, in order and without duplicates."""
        self.rows, self.settled = rows, len(rows)

    def add(self, rows: Iterable[Row], watermark: Position | None) -> None:
        """Merge further rows, and settle those up to a watermark; None: all. Settled rows are not merged again.

        A record that moved between two reads appears only once, first.
        """
        pending = [*self.rows[self.settled :], *rows]
        pending.sort(key=sort_key, reverse=self.descending)
        first = {row.key: row for row in reversed(pending)}
        settled_keys = self._settled_keys
        settled_keys.update(row.key for row in self.rows[self._noted : self.settled])
        if len(first) < len(pending) or not settled_keys.isdisjoint(first):
            pending = [row for row in pending if first[row.key] is row and row.key not in settled_keys]
        self.rows[self.settled :] = pending
        self._noted = self.settled
        self.settled += count_up_to(pending, watermark, descending=self.descending)


def low_watermark(streams: Iterable[ShardStream], *, descending: bool) -> Position | None:
    """Return the position up to which all rows of all shards are known; None if every shard is exhausted."""
    positions = [stream.scanned_to for stream in streams if stream.scanned_to is not None]
    return (max if descending else min)(positions, key=sort_key, default=None)


def count_up_to(rows: list[Row], watermark: Position | None, *, descending: bool) -> int:
    """Return how many of the merged rows are not past the watermark."""
    if watermark is None:
        return len(rows)
    return next((count for count, row in enumerate(rows) if is_past(row, watermark, descending=descending)), len(rows))


def is_past(row: Row | Position, other: Row | Position, *, descending: bool) -> bool:
    """Check whether a row comes after another one in reading order."""
    return sort_key(row) < sort_key(other) if descending else sort_key(row) > sort_key(other)
