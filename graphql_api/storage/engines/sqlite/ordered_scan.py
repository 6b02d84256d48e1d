"""One ordered scan over all shards of a base. A page reads one range of the primary key, whatever the number of shards.

Entries are stored in the order (index, base, range value, shard, tie-breaker). The merged order of all shards is
therefore the order of the file. The scan stops at the last row that the caller can use, and skips rows of shards that
were not requested. If skipping dominates, it stops fetching records, seeks past ties, and yields to the event loop.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from operator import methodcaller

from graphql_api.runtime import CapacityMeter, current_meter
from graphql_api.storage import Key, Position, RowPage, read_units
from graphql_api.storage.engines.sqlite.key_bytes import EntryPosition, decode_range_value, next_bytes
from graphql_api.storage.engines.sqlite.row_projection import RowProjection
from graphql_api.storage.engines.sqlite.shard_ranges import ShardRange
from graphql_api.storage.engines.sqlite.table_layout import PhysicalIndex

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


class OrderedScan:
    """Scan for up to `want` rows of the shard ranges of a base, in order. Call `run` until it returns True."""

    def __init__(
        self,
        sql: sqlite3.Connection,
        index: PhysicalIndex,
        projections: Sequence[RowProjection],
        base: bytes,
        shard_ranges: dict[bytes, ShardRange],
        *,
        want: int,
        page_bytes: int,
        descending: bool,
    ) -> None:
        self._sql = sql
        self._base = index.number, base
        self._projections = projections
        self._meter: CapacityMeter | None = current_meter()
        self._shard_ranges = shard_ranges
        self._first = next(iter(shard_ranges.values()))
        self._read_value = (
            methodcaller("decode")
            if index.definition.range_type == "S"
            else partial(decode_range_value, kind=index.definition.range_type)
        )
        self._want = want
        self._bytes_left = page_bytes
        self._descending = descending
        self._low = min(shard_range.low for shard_range in shard_ranges.values())
        self._high = max(shard_range.high for shard_range in shard_ranges.values())
        self._skips_left = 4 * want + 100
        self._stopped: tuple[EntryPosition, Position] | None = None

    def run(self) -> bool:
        """Continue the scan. Return True once all rows are found or the end is reached."""
        return self._run_entries_only() if self._skips_left < 0 else self._run_with_records()

    def pages(self) -> list[tuple[int, RowPage]]:
        """Return the page of each shard range with the number of its read."""
        pages = []
        for shard_range in self._shard_ranges.values():
            scanned_to = None
            if self._stopped is not None:
                here, position = self._stopped
                scanned_to = None if shard_range.is_done(here, descending=self._descending) else position
            pages.append((shard_range.number, RowPage(shard_range.rows, scanned_to, shard_range.records_read)))
            if self._meter is not None:
                self._meter.add(
                    read_units(shard_range.bytes_read, consistent=shard_range.read.consistent), estimated=True
                )
        return pages

    def _run_with_records(self) -> bool:
        shard_ranges = self._shard_ranges
        cursor = self._sql.execute(WITH_RECORDS[self._descending], (*self._base, *self._low, *self._high))
        try:
            for value, shard, tie, hash_key, range_key, body in cursor:
                here = value, shard, tie
                shard_range = shard_ranges.get(shard)
                if shard_range is not None and shard_range.low <= here < shard_range.high:
                    if self._add_row(shard_range, here, hash_key, range_key, body):
                        return True
                else:
                    (shard_range or self._first).records_read += 1
                    self._skips_left -= 1
                    if self._skips_left < 0:
                        self._resume_after(here)
                        return False
        finally:
            cursor.close()
        return True

    def _run_entries_only(self) -> bool:
        """Continue where most rows are unwanted. Return after a yield interval, after a seek, or at the end."""
        shard_ranges = self._shard_ranges
        cursor = self._sql.execute(ENTRIES_ONLY[self._descending], (*self._base, *self._low, *self._high))
        tied_value, tied, skipped = b"", 0, 0
        try:
            for value, shard, tie, record in cursor:
                here = value, shard, tie
                shard_range = shard_ranges.get(shard)
                if shard_range is not None and shard_range.low <= here < shard_range.high:
                    tied = 0
                    if self._add_row(shard_range, here, *self._sql.execute(_RECORD, (record,)).fetchone()):
                        return True
                    continue
                (shard_range or self._first).records_read += 1
                skipped += 1
                tied = tied + 1 if value == tied_value else 0
                tied_value = value
                if tied >= SKIPS_BEFORE_SEEK:
                    return not self._seek(here)
                if skipped >= YIELD_AFTER_ROWS:
                    self._resume_after(here)
                    return False
        finally:
            cursor.close()
        return True

    def _add_row(
        self, shard_range: ShardRange, here: EntryPosition, hash_key: bytes, range_key: bytes, body: bytes
    ) -> bool:
        """Add a row to its shard range unless the filter excludes it. Return True if the scan stops here."""
        key = Key(hash_key.decode(), range_key.decode())
        projection, ordinal = self._projections[shard_range.number], shard_range.read.ordinal
        value = self._read_value(here[0])
        row = projection.make_row(value, ordinal, key, body)
        if row is not None:
            shard_range.rows.append(row)
        if self._meter is not None:
            shard_range.bytes_read += projection.entry_size(body)
        shard_range.records_read += 1
        self._want -= 1
        self._bytes_left -= len(body)
        if self._want and self._bytes_left >= 0:
            return False
        self._stopped = here, Position(value, ordinal, key)
        return True

    def _resume_after(self, here: EntryPosition) -> None:
        if self._descending:
            self._high = here
        else:
            self._low = (here[0], here[1], next_bytes(here[2]))

    def _seek(self, here: EntryPosition) -> bool:
        """Seek to the next position where a shard range may have a row. Return False if there is none."""
        if self._descending:
            candidates = [
                candidate
                for shard_range in self._shard_ranges.values()
                if (candidate := shard_range.next_position_before(here)) is not None
            ]
            self._high = max(candidates, default=self._low)
            return bool(candidates)
        candidates = [
            candidate
            for shard_range in self._shard_ranges.values()
            if (candidate := shard_range.next_position_after(here)) is not None
        ]
        self._low = min(candidates, default=self._high)
        return bool(candidates)
