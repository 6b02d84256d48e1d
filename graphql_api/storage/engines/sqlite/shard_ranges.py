"""Reads as lanes: for every shard of a base, between which two places its rows are wanted.

A place is (range value, shard, tie), in the byte order of the entries. A lane reaches from `low`, included, to `high`,
left out, whatever kinds of bounds and start key it was asked with, and in either direction.
"""

from collections.abc import Sequence
from itertools import pairwise

from graphql_api.codecs import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage import RangeRead, Row, check_company, check_room, check_start
from graphql_api.storage.engines.sqlite.key_bytes import (
    BEYOND,
    Point,
    after,
    base_and_shard,
    check_key,
    range_bytes,
    tie_of,
)
from graphql_api.storage.engines.sqlite.table_layout import PhysicalIndex
from graphql_api.storage.engines.sqlite.test_switches import TieOrder

_HASH = "the read: the hash key"
_BOUND = "the read: a bound"
_START = "the read: its start key"


class Lane:
    """One read of a scan, and what the scan has found for it."""

    __slots__ = ("bytes_read", "high", "looked_at", "low", "number", "read", "rows", "shard")

    def __init__(self, number: int, read: RangeRead, shard: bytes, low: Point, high: Point) -> None:
        self.number = number
        self.read = read
        self.shard = shard
        self.low = low
        self.high = high
        self.rows: list[Row] = []
        self.looked_at = 0
        self.bytes_read = 0
        """of records, as DynamoDB counts them; only for a bill"""

    def next_from(self, here: Point) -> Point | None:
        """The first place behind `here` at which this lane could still have a row, upwards."""
        value, shard, tie = here
        if shard < self.shard:
            place = (value, self.shard, b"")
        elif shard == self.shard:
            place = (value, shard, after(tie))
        else:
            place = (after(value), self.shard, b"")
        place = max(place, self.low)
        return place if place < self.high else None

    def next_below(self, here: Point) -> Point | None:
        """The place below which, seen from `here`, this lane could still have a row, downwards."""
        value, shard, tie = here
        if shard > self.shard:
            place = (value, self.shard, BEYOND)
        elif shard == self.shard:
            place = (value, shard, tie)
        else:
            place = (value, b"", b"")
        place = min(place, self.high)
        return place if self.low < place else None

    def is_done(self, here: Point, *, descending: bool) -> bool:
        """Whether a scan that stopped at `here` has shown all rows of this lane."""
        if descending:
            return self.low[0] >= here[0] and self.next_below(here) is None
        return self.high[0] <= after(here[0]) and self.next_from(here) is None


def lanes_of(
    reads: Sequence[RangeRead], skipped: frozenset[int], index: PhysicalIndex, tie_order: TieOrder
) -> dict[bytes, dict[bytes, Lane]]:
    """The lanes of one call by base and shard; refuses reads that do not fit each other, the index, or themselves."""
    first = reads[0]
    kind = index.definition.range_type
    bases: dict[bytes, dict[bytes, Lane]] = {}
    last_range: KeyRange | None = None
    low_value = high_value = high_tie = b""
    for number, read in enumerate(reads):
        check_company(read, first)
        if read.range is not last_range:
            last_range = read.range
            low_value, high_value, high_tie = _bounds(last_range, index)
        base, shard = base_and_shard(read.hash_key, _HASH)
        low, high = (low_value, shard, b""), (high_value, shard, high_tie)
        if read.start is not None:
            start = _start(read, index, tie_order, range_bytes(read.start.value, kind, _START))
            if read.descending:
                high = start
            else:
                low = (start[0], shard, after(start[2]))
        lanes = bases.setdefault(base, {})
        if shard in lanes:
            raise StoreRefused(f"{read.hash_key!r} is read twice in one call. Ask each hash key once.")
        lanes[shard] = Lane(number, read, shard, low, high)
    for lanes in bases.values():
        _check_ordinals(lanes)
        for lane in [lane for lane in lanes.values() if lane.number in skipped]:
            del lanes[lane.shard]
    return {base: lanes for base, lanes in bases.items() if lanes}


def _bounds(asked: KeyRange, index: PhysicalIndex) -> tuple[bytes, bytes, bytes]:
    """The lowest value of a range, its upper bound, and the tie below which a shard's rows of that bound are within."""
    low, high = b"", BEYOND
    kind = index.definition.range_type
    if asked.low is not None:
        low = range_bytes(asked.low, kind, _BOUND)
        low = after(low) if asked.low_open else low
    if asked.high is not None:
        high = range_bytes(asked.high, kind, _BOUND)
    check_room(asked)
    return low, high, b"" if asked.high_open else BEYOND


def _start(read: RangeRead, index: PhysicalIndex, tie_order: TieOrder, value: bytes) -> Point:
    start = read.start
    assert start is not None
    _, range_key, _ = check_key(start.key, _START)
    check_start(read)
    _, shard = base_and_shard(read.hash_key, _HASH)
    if index.number:
        return value, shard, tie_of(start.key.hash.encode(), range_key, tie_order)
    return value, shard, b""


def _check_ordinals(lanes: dict[bytes, Lane]) -> None:
    """Rows come back in the order of shards, and callers order them by ordinal: the two have to be one."""
    ordered = [lanes[shard].read.ordinal for shard in sorted(lanes)]
    for lower, higher in pairwise(ordered):
        if lower >= higher:
            raise StoreRefused(
                f"The ordinals {lower} and {higher} do not grow with the shards' texts. Number them anew."
            )
