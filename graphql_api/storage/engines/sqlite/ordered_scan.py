"""One ordered scan over all shards of a base. A page reads one range of the primary key, whatever the number of shards.

Entries are stored in the order (index, base, range value, shard, tie-breaker). The merged order of all shards is
therefore the order of the file. The scan stops at the last row that the caller can use, and skips rows of shards that
were not requested. If skipping dominates, it stops fetching records, seeks past ties, and yields to the event loop.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import methodcaller

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.errors import StoreRefused
from graphql_api.runtime import CapacityMeter, current_meter
from graphql_api.storage import (
    PAGE_BYTES,
    Key,
    Position,
    RangeRead,
    Row,
    RowPage,
    RowProjection,
    TableDefinition,
    build_per_search,
    check_reads,
    read_units,
    record_size,
)
from graphql_api.storage.engines.sqlite.table_layout import (
    AFTER_EVERYTHING,
    EntryPosition,
    PhysicalIndex,
    decode_range_value,
    encode_hash_key,
    encode_range_value,
    next_bytes,
    tie_breaker,
)


@dataclass(slots=True)
class ShardRange:
    """One read of a scan, with the rows that the scan has found for it."""

    number: int
    read: RangeRead
    projection: RowProjection
    shard: bytes
    low: EntryPosition
    high: EntryPosition
    rows: list[Row] = field(default_factory=list)
    records_read: int = 0
    bytes_read: int = 0
    """size of the records as DynamoDB counts it; only if capacity is metered"""

    def next_position(self, here: EntryPosition, *, descending: bool) -> EntryPosition | None:
        """Return where the rows past `here` begin that this shard range may have, or None if it has no more rows.

        In descending order, the position is exclusive.
        """
        value, shard, tie = here
        position = here
        if descending:
            if shard != self.shard:
                position = (value, self.shard, AFTER_EVERYTHING) if shard > self.shard else (value, b"", b"")
            position = min(position, self.high)
            return position if self.low < position else None
        if shard == self.shard:
            position = (value, shard, next_bytes(tie))
        else:
            position = (value if shard < self.shard else next_bytes(value), self.shard, b"")
        position = max(position, self.low)
        return position if position < self.high else None


def plan_shard_ranges(
    reads: Sequence[RangeRead], table: TableDefinition, index: PhysicalIndex
) -> dict[bytes, dict[bytes, ShardRange]]:
    """Return the shard ranges of one call by base and shard. Refuse reads that are invalid or do not fit together."""
    check_reads(reads, index.definition.range_type)
    projections = build_per_search(reads, partial(RowProjection, table, index.definition))
    bases: dict[bytes, dict[bytes, ShardRange]] = {}
    last_range: KeyRange | None = None
    low_value = high_value = high_tie = b""
    for number, read in enumerate(reads):
        if read.range is not last_range:  # The reads of a search share their range.
            last_range = read.range
            low_value, high_value, high_tie = range_bounds(last_range)
        base, shard = encode_hash_key(read.hash_key)
        low, high = (low_value, shard, b""), (high_value, shard, high_tie)
        if read.start is not None:
            start_value, key = encode_range_value(read.start.value), read.start.key
            start_tie = tie_breaker(key.hash.encode(), key.range.encode()) if index.number else b""
            if read.descending:
                high = (start_value, shard, start_tie)
            else:
                low = (start_value, shard, next_bytes(start_tie))
        bases.setdefault(base, {})[shard] = ShardRange(number, read, projections[number], shard, low, high)
    for shard_ranges in bases.values():
        _check_ordinals(shard_ranges)
    return bases


def range_bounds(key_range: KeyRange) -> tuple[bytes, bytes, bytes]:
    """Return the lowest value of a range, its upper bound, and the tie-breaker that ends the rows of that bound."""
    low, high = b"", AFTER_EVERYTHING
    if key_range.low is not None:
        low = encode_range_value(key_range.low)
        low = next_bytes(low) if key_range.low_open else low
    if key_range.high is not None:
        high = encode_range_value(key_range.high)
    return low, high, b"" if key_range.high_open else AFTER_EVERYTHING


def _check_ordinals(shard_ranges: dict[bytes, ShardRange]) -> None:
    """Refuse ordinals that do not ascend with the shards.

    Rows are returned in the order of shards, and callers order them by ordinal.
    """
    ordered = [shard_ranges[shard].read.ordinal for shard in sorted(shard_ranges)]
    for lower, higher in pairwise(ordered):
        if lower >= higher:
            raise StoreRefused(
                f"The ordinals {lower} and {higher} do not ascend with the texts of their shards. Assign them in that "
                "order."
            )


_POSITION_RANGE = "idx = ? AND base = ? AND (value, shard, tie) >= (?, ?, ?) AND (value, shard, tie) < (?, ?, ?)"
_ORDERS = {False: "ORDER BY value, shard, tie", True: "ORDER BY value DESC, shard DESC, tie DESC"}

WITH_RECORDS = {
    descending: "SELECT value, shard, tie, hash, range, body FROM entries CROSS JOIN records ON id = record"
    f" WHERE {_POSITION_RANGE} {order}"
    for descending, order in _ORDERS.items()
}
ENTRIES_ONLY = {
    descending: f"SELECT value, shard, tie, record FROM entries WHERE {_POSITION_RANGE} {order}"
    for descending, order in _ORDERS.items()
}
_RECORD = "SELECT hash, range, body FROM records WHERE id = ?"

SKIPS_BEFORE_SEEK = 8
"""number of unwanted rows with one value to skip before a seek, which costs about as much"""

YIELD_AFTER_ROWS = 2_000
"""number of unwanted rows to skip before yielding to the event loop; takes about a millisecond"""


def max_skips(want: int) -> int:
    """Return how many unwanted rows a scan for `want` rows skips, before it fetches records only where needed."""
    return 4 * want + 100


def value_decoder(index: PhysicalIndex) -> Callable[[bytes], RangeValue]:
    """Return the decoder of the range values of an index."""
    range_type = index.definition.range_type
    return methodcaller("decode") if range_type == "S" else partial(decode_range_value, kind=range_type)


class OrderedScan:
    """Scan for up to `want` rows of the shard ranges of a base, in order. Call `run` until it returns True."""

    def __init__(
        self,
        sql: sqlite3.Connection,
        index: PhysicalIndex,
        base: bytes,
        shard_ranges: dict[bytes, ShardRange],
        want: int,
    ) -> None:
        self._sql = sql
        self._base = index.number, base
        self._meter: CapacityMeter | None = current_meter()
        self._shard_ranges = shard_ranges
        self._first = next(iter(shard_ranges.values()))
        self._read_value = value_decoder(index)
        self._want = want
        self._bytes_left = PAGE_BYTES
        self._descending = self._first.read.descending
        self._low = min(shard_range.low for shard_range in shard_ranges.values())
        self._high = max(shard_range.high for shard_range in shard_ranges.values())
        self._skips_left = max_skips(want)
        self._stopped: tuple[EntryPosition, Position] | None = None

    def run(self) -> bool:
        """Continue the scan. Return True once all rows are found or the end is reached.

        If most rows are unwanted, it returns after a yield interval or a seek.
        """
        shard_ranges, entries_only = self._shard_ranges, self._skips_left < 0
        queries = ENTRIES_ONLY if entries_only else WITH_RECORDS
        cursor = self._sql.execute(queries[self._descending], (*self._base, *self._low, *self._high))
        tied_value, tied, skips_left = b"", 0, YIELD_AFTER_ROWS - 1 if entries_only else self._skips_left
        try:
            for row in cursor:
                here: EntryPosition = row[:3]
                value, shard, tie = here
                shard_range = shard_ranges.get(shard)
                if shard_range is not None and shard_range.low <= here < shard_range.high:
                    tied = 0
                    stored = self._sql.execute(_RECORD, row[3:]).fetchone() if entries_only else row[3:]
                    if self._add_row(shard_range, here, stored):
                        return True
                    continue
                (shard_range or self._first).records_read += 1
                skips_left -= 1
                tied = tied + 1 if value == tied_value else 0
                tied_value = value
                if entries_only and tied >= SKIPS_BEFORE_SEEK:
                    return not self._seek(here)
                if skips_left < 0:
                    if self._descending:
                        self._high = here
                    else:
                        self._low = (value, shard, next_bytes(tie))
                    return False
        finally:
            cursor.close()
            if not entries_only:
                self._skips_left = skips_left
        return True

    def pages(self) -> dict[int, RowPage]:
        """Return the page of each shard range by the number of its read."""
        if self._meter is not None:
            for shard_range in self._shard_ranges.values():
                units = read_units(shard_range.bytes_read, consistent=shard_range.read.consistent)
                self._meter.add(units, estimated=True)
        return shard_pages(self._shard_ranges.values(), self._stopped, PAGE_BYTES - self._bytes_left)

    def _add_row(self, shard_range: ShardRange, here: EntryPosition, stored: tuple[bytes, bytes, bytes]) -> bool:
        """Add a row to its shard range unless the filter excludes it. Return True if the scan stops here."""
        hash_key, range_key, body = stored
        key = Key(hash_key.decode(), range_key.decode())
        value, ordinal = self._read_value(here[0]), shard_range.read.ordinal
        row = shard_range.projection.make_row(value, ordinal, key, body)
        if row is not None:
            shard_range.rows.append(row)
        size = len(body)
        if self._meter is not None:
            charged = record_size(shard_range.projection.decode_entry(body))
            shard_range.bytes_read += charged
            size = max(size, charged)
        shard_range.records_read += 1
        self._want -= 1
        self._bytes_left -= size
        if self._want and self._bytes_left >= 0:
            return False
        self._stopped = here, Position(value, ordinal, key)
        return True

    def _seek(self, here: EntryPosition) -> bool:
        """Seek to the next position where a shard range may have a row. Return False if there is none."""
        candidates = [
            candidate
            for shard_range in self._shard_ranges.values()
            if (candidate := shard_range.next_position(here, descending=self._descending)) is not None
        ]
        if self._descending:
            self._high = max(candidates, default=self._low)
        else:
            self._low = min(candidates, default=self._high)
        return bool(candidates)


def shard_pages(
    shard_ranges: Iterable[ShardRange], stopped: tuple[EntryPosition, Position] | None, size: int
) -> dict[int, RowPage]:
    """Return the page of each shard range, by the number of its read, after a scan that stopped at this row."""
    pages = {}
    for shard_range in shard_ranges:
        scanned_to = None
        if stopped is not None:
            here, position = stopped
            descending = shard_range.read.descending
            # The first comparison suffices for most shard ranges.
            near_end = shard_range.low[0] >= here[0] if descending else shard_range.high[0] <= next_bytes(here[0])
            is_done = near_end and shard_range.next_position(here, descending=descending) is None
            scanned_to = None if is_done else position
        pages[shard_range.number] = RowPage(shard_range.rows, scanned_to, shard_range.records_read, size)
        size = 0  # The sum over all shards is what matters.
    return pages
