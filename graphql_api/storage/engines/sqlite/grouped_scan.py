"""One statement for the ranges of many searches, which costs half of a statement for each.

It finds what a scan for each search finds, in ascending order. A search that would skip many rows of other shards is
left out, because it needs its own scan.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from graphql_api.codecs import ShardHashKeys
from graphql_api.storage import (
    PAGE_BYTES,
    Key,
    MergedPages,
    Position,
    RangeGroups,
    ReadGroups,
    ReadResult,
    Row,
    RowProjection,
    ShardReads,
    StoredRows,
    TableDefinition,
)
from graphql_api.storage.engines.sqlite.merged_scan import scanned_to, split_pages
from graphql_api.storage.engines.sqlite.ordered_scan import max_skips, value_decoder
from graphql_api.storage.engines.sqlite.record_reads import numbered_rows, padded_size
from graphql_api.storage.engines.sqlite.table_layout import (
    EntryPosition,
    PhysicalIndex,
    encode_hash_key,
    next_bytes,
    tie_breaker,
)

MAX_RANGES = 64
"""ranges of one statement, after which a scan yields to the event loop"""

_MAX_CHARACTERS = 255
"""Keys of this length are valid, whatever their characters are."""

_StoredRow = tuple[int, bytes, bytes, bytes, bytes, bytes]
"""number of the range, range value, shard, hash key, range key, body"""


_NOTHING = [None, None, None]


class _Range(NamedTuple):
    """What a statement reads for one search."""

    base: bytes
    low: bytes
    high: bytes
    excluded: bytes | None
    """the upper bound if it is exclusive"""
    ordinals: Mapping[bytes, int]
    """of the shards by their texts, in ascending order"""
    last_shard: bytes


class GroupedScan:
    """Scan the ranges of several searches."""

    def __init__(self, table: TableDefinition, index: PhysicalIndex, reads: RangeGroups) -> None:
        self._table = table
        self.index = index
        self._reads = reads
        self.format = RowProjection(table, index.definition, reads.common).format
        self._read_value = value_decoder(index)
        self._shards: dict[int, tuple[bytes, Mapping[bytes, int], bytes] | None] = {}
        """base, ordinals and last shard, by the identity of the keys; None if keys must be checked"""

    def run(self, sql: sqlite3.Connection, numbers: range) -> list[MergedPages | None]:
        """Return the rows of each search at these positions, `MAX_RANGES` at most; None if it needs its own scan."""
        ranges = [*map(self._range, numbers)]
        found: list[MergedPages | None] = []
        while len(found) < len(ranges):
            begin = len(found)
            rest = ranges[begin:]
            cursor = self._execute(sql, rest)
            found += self._read(cursor, numbers[begin:], rest)
            cursor.close()
        return found

    def _execute(self, sql: sqlite3.Connection, ranges: Sequence[_Range | None]) -> sqlite3.Cursor:
        size = padded_size(len(ranges))
        parameters: list[object] = []
        for each in ranges:
            parameters += _NOTHING if each is None else each[:3]
        parameters += _NOTHING * (size - len(ranges))
        return sql.execute(_statement(size), (*parameters, self.index.number))

    def _range(self, number: int) -> _Range | None:
        """Return what to read for a search; None if its keys must be checked by its own scan."""
        keys, low, high, limit = self._reads.parts[number]
        key_range = self._reads.common.range
        is_empty = low > high or (low == high and (key_range.low_open or key_range.high_open))
        if id(keys) not in self._shards:
            self._shards[id(keys)] = _encode_shards(keys)
        shards = self._shards[id(keys)]
        if is_empty or limit < 1 or shards is None or not (_is_valid(low) and _is_valid(high)):
            return None
        base, ordinals, last_shard = shards
        lowest, highest = low.encode(), high.encode()
        if key_range.low_open:
            lowest = next_bytes(lowest)
        return _Range(base, lowest, highest, highest if key_range.high_open else None, ordinals, last_shard)

    def _read(
        self, cursor: sqlite3.Cursor, numbers: range, ranges: Sequence[_Range | None]
    ) -> list[MergedPages | None]:
        """Return the pages of the searches that a statement has read completely.

        It ends at a search that may have more rows, because these are not needed.
        """
        pages: list[MergedPages | None] = []
        current = next((each for each in ranges if each is not None), None)
        if current is None:
            return [None] * len(ranges)
        rows: list[_StoredRow] = []
        want, size, skipped, most_skips = self._reads.each_want, 0, 0, max_skips(self._reads.each_want)
        previous, ordinals, excluded = -1, current.ordinals, current.excluded
        for row in cursor:
            at, value, shard, _, _, body = row
            if at != previous:
                if previous >= 0:
                    pages.append(self._page(numbers[previous], rows, skipped, size))
                    rows, size, skipped = [], 0, 0
                pages += self._empty_pages(numbers, ranges, len(pages), at)
                current = ranges[at]
                assert current is not None, "the statement reads nothing for it"
                previous, ordinals, excluded = at, current.ordinals, current.excluded
            if shard not in ordinals or value == excluded:
                skipped += _counts_as_skipped(current, value, shard)
                if skipped > most_skips:
                    return [*pages, None]
                continue
            rows.append(row)
            size += len(body)
            if len(rows) == want or size > PAGE_BYTES:
                return [*pages, self._page(numbers[at], rows, skipped, size, is_stopped=True)]
        if previous >= 0:
            pages.append(self._page(numbers[previous], rows, skipped, size))
        return [*pages, *self._empty_pages(numbers, ranges, len(pages), len(ranges))]

    def _empty_pages(
        self, numbers: range, ranges: Sequence[_Range | None], begin: int, end: int
    ) -> Iterator[MergedPages | None]:
        """Yield the pages of searches that have no rows."""
        for at in range(begin, end):
            yield None if ranges[at] is None else self._page(numbers[at], [], 0, 0)

    def _page(
        self, number: int, rows: list[_StoredRow], skipped: int, size: int, *, is_stopped: bool = False
    ) -> MergedPages:
        page = _RangePages(_RangeRows(self, number, rows), skipped, size, is_stopped=is_stopped)
        if is_stopped:
            page.scanned_to = page.find_end()
        return page

    def shard_reads(self, number: int) -> ShardReads:
        """Return the reads of a search."""
        reads, _ = self._reads.group(number)
        assert isinstance(reads, ShardReads), "range groups consist of reads of shards"
        return reads

    def row(self, number: int, row: _StoredRow) -> Row:
        """Return a row of a search."""
        _, value, shard, hash_key, range_key, body = row
        ordinal = self._reads.parts[number].keys.ordinals[shard.decode()]
        return Row(self._read_value(value), ordinal, Key(hash_key.decode(), range_key.decode()), body, self.format)

    def split(
        self,
        number: int,
        rows: Sequence[Row],
        records_read: int,
        stopped: tuple[EntryPosition, Position] | None,
        size: int,
    ) -> Sequence[ReadResult]:
        """Return the page of each shard of a search."""
        return split_pages(self.shard_reads(number), self._table, self.index, rows, records_read, stopped, size)


class _RangeRows(StoredRows):
    """The rows of one search."""

    def __init__(self, scan: GroupedScan, number: int, stored: Sequence[_StoredRow]) -> None:
        super().__init__(stored, scan.format)
        self.scan = scan
        self.number = number

    def _build(self) -> Sequence[Row]:
        return [self.scan.row(self.number, row) for row in self.stored]


class _RangePages(MergedPages):
    """The pages of all shards of one search."""

    rows: _RangeRows

    def __init__(self, rows: _RangeRows, skipped: int, size: int, *, is_stopped: bool) -> None:
        super().__init__(rows, None, len(rows.stored) + skipped, size)
        self._is_stopped = is_stopped

    def find_end(self) -> Position | None:
        """Return where the scan has stopped, or None if no shard can have a row past it."""
        stopped = self._stopped
        assert stopped is not None, "only a scan that has stopped has an end"
        return scanned_to(self.rows.scan.shard_reads(self.rows.number), stopped, self._build)

    @property
    def _stopped(self) -> tuple[EntryPosition, Position] | None:
        if not self._is_stopped:
            return None
        rows = self.rows
        last = rows.stored[-1]
        _, value, shard, hash_key, range_key, _ = last
        tie = tie_breaker(hash_key, range_key) if rows.scan.index.number else b""
        return (value, shard, tie), rows.scan.row(rows.number, last).position

    def _build(self) -> Sequence[ReadResult]:
        rows = self.rows
        return rows.scan.split(rows.number, rows, self.records_read, self._stopped, self.size)


def grouped_scan(table: TableDefinition, index: PhysicalIndex, reads: ReadGroups) -> GroupedScan | None:
    """Return a scan for all searches of a call; None if each needs its own scan."""
    if not isinstance(reads, RangeGroups) or index.definition.range_type != "S":
        return None
    common = reads.common
    is_plain = not common.descending and common.filter is None and common.start is None
    return GroupedScan(table, index, reads) if is_plain and not (common.consistent and common.index) else None


def _counts_as_skipped(wanted: _Range, value: bytes, shard: bytes) -> bool:
    """Return whether an unwanted row is between the first and the last row that the search can have.

    Of several shards with equal values, these are in the first and the last shard.
    """
    if value == wanted.low and shard < next(iter(wanted.ordinals)):
        return False
    if value == wanted.high:
        return shard < wanted.last_shard
    return True


def _encode_shards(keys: ShardHashKeys) -> tuple[bytes, Mapping[bytes, int], bytes] | None:
    """Return the base of all keys, the ordinals of their shards, and the last shard."""
    if not _is_valid(keys.last):
        return None
    base, last_shard = encode_hash_key(keys.last)
    return base, {text.encode(): ordinal for text, ordinal in keys.ordinals.items()}, last_shard


def _is_valid(key: str) -> bool:
    """Return whether a key is certainly valid. Most are."""
    return 0 < len(key) <= _MAX_CHARACTERS and key.isascii()


@cache
def _statement(size: int) -> str:
    return (
        f"WITH wanted (number, base, low, high) AS (VALUES {numbered_rows(size)})"
        " SELECT number, value, shard, hash, range, body"
        " FROM wanted CROSS JOIN entries CROSS JOIN records ON id = record"
        " WHERE idx = ? AND entries.base = wanted.base AND value >= low AND value <= high"
    )
