"""One ordered scan whose result stays merged. Its cost does not depend on the number of shards.

It returns what `OrderedScan` returns, in one page instead of one page for each shard. It serves searches of most shards
of a base, and gives up where it would skip many rows of other shards.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from graphql_api.storage import (
    PAGE_BYTES,
    Key,
    MergedPages,
    Position,
    ReadResult,
    Row,
    RowPage,
    RowProjection,
    ShardReads,
    TableDefinition,
    check_reads,
)
from graphql_api.storage.engines.sqlite.ordered_scan import (
    WITH_RECORDS,
    max_skips,
    plan_shard_ranges,
    range_bounds,
    shard_pages,
    value_decoder,
)
from graphql_api.storage.engines.sqlite.table_layout import EntryPosition, PhysicalIndex, encode_hash_key, next_bytes

MIN_SHARDS = 4
"""Fewer shards are read one by one: with one of many shards, most rows would be skipped."""


def scan_merged(
    sql: sqlite3.Connection, table: TableDefinition, index: PhysicalIndex, reads: ShardReads, want: int
) -> MergedPages | None:
    """Return up to `want` rows of all shards, or None if most rows belong to other shards."""
    if len(reads) < MIN_SHARDS:
        return None
    return _MergedScan(table, index, reads, want).run(sql)


class _TooManySkips(Exception):
    """Most rows belong to other shards."""


@dataclass(slots=True)
class _MergedScan:
    table: TableDefinition
    index: PhysicalIndex
    reads: ShardReads
    want: int
    rows: list[Row] = field(default_factory=list)
    _bounds: tuple[bytes, bytes, bytes] = field(init=False)
    """of the range that all reads have in common: see `range_bounds`"""
    _records_read: int = 0
    _bytes_left: int = PAGE_BYTES

    def __post_init__(self) -> None:
        self._bounds = range_bounds(self.reads.common.range)

    def run(self, sql: sqlite3.Connection) -> MergedPages | None:
        common = self.reads.common
        last_read = common._replace(hash_key=self.reads.keys.last)
        check_reads([last_read], self.index.definition.range_type)
        base, last_shard = encode_hash_key(last_read.hash_key)
        low_value, high_value, high_tie = self._bounds
        first_shard = next(iter(self.reads.keys.ordinals)).encode()
        bounds = (low_value, first_shard, b"", high_value, last_shard, high_tie)
        cursor = sql.execute(WITH_RECORDS[common.descending], (self.index.number, base, *bounds))
        try:
            stopped = self._read(cursor)
        except _TooManySkips:
            return None
        finally:
            cursor.close()
        size = PAGE_BYTES - self._bytes_left
        split = partial(split_pages, self.reads, self.table, self.index, self.rows, self._records_read, stopped, size)
        position = None if stopped is None else scanned_to(self.reads, stopped, split)
        return MergedPages(self.rows, position, self._records_read, size, split)

    def _read(self, cursor: sqlite3.Cursor) -> tuple[EntryPosition, Position] | None:
        """Add the rows of the reads. Return where the scan has stopped before the end."""
        common, ordinals, rows = self.reads.common, self.reads.keys.ordinals, self.rows
        excluded = self._bounds[1] if common.range.high_open else None
        projection, read_value = RowProjection(self.table, self.index.definition, common), value_decoder(self.index)
        make_row, row_format = projection.make_row, projection.unfiltered_format
        wanted, skipped, most_skips, bytes_left = self.want, 0, max_skips(self.want), PAGE_BYTES
        stopped = None
        for value, shard, tie, hash_key, range_key, body in cursor:
            ordinal = ordinals.get(shard.decode())
            if ordinal is None or value == excluded:
                skipped += 1
                if skipped > most_skips:
                    raise _TooManySkips
                continue
            key, range_value = Key(hash_key.decode(), range_key.decode()), read_value(value)
            if row_format is not None:
                rows.append(Row(range_value, ordinal, key, body, row_format))
            elif (row := make_row(range_value, ordinal, key, body)) is not None:
                rows.append(row)
            wanted -= 1
            bytes_left -= len(body)
            if not wanted or bytes_left < 0:
                stopped = (value, shard, tie), Position(range_value, ordinal, key)
                break
        self._records_read, self._bytes_left = self.want - wanted + skipped, bytes_left
        return stopped


def scanned_to(
    reads: ShardReads, stopped: tuple[EntryPosition, Position], split: Callable[[], Sequence[ReadResult]]
) -> Position | None:
    """Return where a scan has stopped, or None if no shard can have a row past it. `split` returns all pages."""
    (value, _, _), position = stopped
    low_value, high_value, _ = range_bounds(reads.common.range)
    near_end = low_value >= value if reads.common.descending else high_value <= next_bytes(value)
    if near_end and not any(isinstance(page, RowPage) and page.scanned_to for page in split()):
        return None
    return position


def split_pages(
    reads: ShardReads,
    table: TableDefinition,
    index: PhysicalIndex,
    rows: Sequence[Row],
    records_read: int,
    stopped: tuple[EntryPosition, Position] | None,
    size: int,
) -> Sequence[RowPage]:
    """Return the page of each shard, after a scan that found these rows and stopped there."""
    (shard_ranges,) = plan_shard_ranges(reads, table, index).values()
    by_ordinal = {each.read.ordinal: each for each in shard_ranges.values()}
    for row in rows:
        by_ordinal[row.ordinal].rows.append(row)
    next(iter(shard_ranges.values())).records_read = records_read  # The sum over all shards is what matters.
    pages = shard_pages(shard_ranges.values(), stopped, size)
    return [pages[number] for number in range(len(reads))]
