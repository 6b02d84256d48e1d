"""One ordered scan over all shards of a base: a page costs one index range, whatever the number of shards.

Entries stand in the file by (index, base, range value, shard, tie), so the merged order of all shards is simply the
order of the file, and the scan stops at the last row that the caller can use. Rows that nobody asked for are stepped
over; where that becomes the greater part of the work, the scan leaves the records alone, jumps over ties, and lets
others run in between.
"""

import sqlite3
from collections.abc import Sequence
from functools import partial
from operator import methodcaller

from graphql_api.runtime import Bill, present_bill
from graphql_api.storage import Key, Position, RowPage, read_units
from graphql_api.storage.engines.sqlite.key_bytes import Point, after, read_range
from graphql_api.storage.engines.sqlite.row_projection import View
from graphql_api.storage.engines.sqlite.shard_ranges import Lane
from graphql_api.storage.engines.sqlite.table_layout import PhysicalIndex

_PLACES = "idx = ? AND base = ? AND (value, shard, tie) >= (?, ?, ?) AND (value, shard, tie) < (?, ?, ?)"
_ORDERS = {False: "ORDER BY value, shard, tie", True: "ORDER BY value DESC, shard DESC, tie DESC"}

WITH_RECORDS = {
    descending: "SELECT value, shard, tie, hash, range, body FROM entries CROSS JOIN records ON id = record"
    f" WHERE {_PLACES} {order}"
    for descending, order in _ORDERS.items()
}
ENTRIES_ONLY = {
    descending: f"SELECT value, shard, tie, record FROM entries WHERE {_PLACES} {order}"
    for descending, order in _ORDERS.items()
}
_RECORD = "SELECT hash, range, body FROM records WHERE id = ?"

JUMP_AFTER = 8
"""so many unwanted rows of one value are stepped over; a jump costs about as much"""

BREATH_AFTER = 2_000
"""so many unwanted rows, about a millisecond, and the event loop gets its turn"""


class Scan:
    """Looks for up to `want` rows of a base's lanes, in order; `run` until it says that it is done."""

    def __init__(
        self,
        sql: sqlite3.Connection,
        index: PhysicalIndex,
        views: Sequence[View],
        base: bytes,
        lanes: dict[bytes, Lane],
        *,
        want: int,
        page_bytes: int,
        descending: bool,
    ) -> None:
        self._sql = sql
        self._base = index.number, base
        self._views = views
        self._bill: Bill | None = present_bill()
        self._lanes = lanes
        self._first = next(iter(lanes.values()))
        self._read_value = (
            methodcaller("decode")
            if index.definition.range_type == "S"
            else partial(read_range, kind=index.definition.range_type)
        )
        self._want = want
        self._bytes_left = page_bytes
        self._descending = descending
        self._low = min(lane.low for lane in lanes.values())
        self._high = max(lane.high for lane in lanes.values())
        self._skips_left = 4 * want + 100
        self._stopped: tuple[Point, Position] | None = None

    def run(self) -> bool:
        """Goes on for a while; True once everything was found or the end was reached."""
        return self._run_sparsely() if self._skips_left < 0 else self._run_with_records()

    def pages(self) -> list[tuple[int, RowPage]]:
        """The answer of each lane, by the number of its read."""
        found = []
        for lane in self._lanes.values():
            scanned_to = None
            if self._stopped is not None:
                here, position = self._stopped
                scanned_to = None if lane.is_done(here, descending=self._descending) else position
            found.append((lane.number, RowPage(lane.rows, scanned_to, lane.looked_at)))
            if self._bill is not None:
                self._bill.add(read_units(lane.bytes_read, consistent=lane.read.consistent), estimated=True)
        return found

    def _run_with_records(self) -> bool:
        lanes = self._lanes
        cursor = self._sql.execute(WITH_RECORDS[self._descending], (*self._base, *self._low, *self._high))
        try:
            for value, shard, tie, hash_key, range_key, body in cursor:
                here = value, shard, tie
                lane = lanes.get(shard)
                if lane is not None and lane.low <= here < lane.high:
                    if self._take(lane, here, hash_key, range_key, body):
                        return True
                else:
                    (lane or self._first).looked_at += 1
                    self._skips_left -= 1
                    if self._skips_left < 0:
                        self._go_on_behind(here)
                        return False
        finally:
            cursor.close()
        return True

    def _run_sparsely(self) -> bool:
        """Goes on where most rows are unwanted; each return is a breath, a jump, or the end."""
        lanes = self._lanes
        cursor = self._sql.execute(ENTRIES_ONLY[self._descending], (*self._base, *self._low, *self._high))
        tied_value, tied, skipped = b"", 0, 0
        try:
            for value, shard, tie, record in cursor:
                here = value, shard, tie
                lane = lanes.get(shard)
                if lane is not None and lane.low <= here < lane.high:
                    tied = 0
                    if self._take(lane, here, *self._sql.execute(_RECORD, (record,)).fetchone()):
                        return True
                    continue
                (lane or self._first).looked_at += 1
                skipped += 1
                tied = tied + 1 if value == tied_value else 0
                tied_value = value
                if tied >= JUMP_AFTER:
                    return not self._jump(here)
                if skipped >= BREATH_AFTER:
                    self._go_on_behind(here)
                    return False
        finally:
            cursor.close()
        return True

    def _take(self, lane: Lane, here: Point, hash_key: bytes, range_key: bytes, body: bytes) -> bool:
        """Adds a row to its lane, unless its filter leaves it out; True if the scan stops there."""
        key = Key(hash_key.decode(), range_key.decode())
        view, ordinal = self._views[lane.number], lane.read.ordinal
        value = self._read_value(here[0])
        row = view.row(value, ordinal, key, body)
        if row is not None:
            lane.rows.append(row)
        if self._bill is not None:
            lane.bytes_read += view.size(body)
        lane.looked_at += 1
        self._want -= 1
        self._bytes_left -= len(body)
        if self._want and self._bytes_left >= 0:
            return False
        self._stopped = here, Position(value, ordinal, key)
        return True

    def _go_on_behind(self, here: Point) -> None:
        if self._descending:
            self._high = here
        else:
            self._low = (here[0], here[1], after(here[2]))

    def _jump(self, here: Point) -> bool:
        """Moves on to the next place at which any lane could have a row; False if there is none."""
        if self._descending:
            below = [place for lane in self._lanes.values() if (place := lane.next_below(here)) is not None]
            self._high = max(below, default=self._low)
            return bool(below)
        above = [place for lane in self._lanes.values() if (place := lane.next_from(here)) is not None]
        self._low = min(above, default=self._high)
        return bool(above)
