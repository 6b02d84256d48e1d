"""Shard ranges: for every shard of a base, the interval of entry positions that a read requests.

A position is (range value, shard, tie-breaker), in the byte order of the entries. A shard range extends from `low`,
inclusive, to `high`, exclusive, for every kind of bound and start key, and in both directions.
"""

from collections.abc import Sequence
from itertools import pairwise

from graphql_api.codecs import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage import RangeRead, Row, check_nonempty_range, check_read, check_start_key
from graphql_api.storage.engines.sqlite.engine_quirks import TieOrder
from graphql_api.storage.engines.sqlite.key_bytes import (
    AFTER_EVERYTHING,
    EntryPosition,
    encode_hash_key,
    encode_range_value,
    encode_table_key,
    next_bytes,
    tie_breaker,
)
from graphql_api.storage.engines.sqlite.table_layout import PhysicalIndex

_HASH = "the read: the hash key"
_BOUND = "the read: a bound"
_START = "the read: its start key"


class ShardRange:
    """One read of a scan, with the rows that the scan has found for it."""

    __slots__ = ("bytes_read", "high", "low", "number", "read", "records_read", "rows", "shard")

    def __init__(self, number: int, read: RangeRead, shard: bytes, low: EntryPosition, high: EntryPosition) -> None:
        self.number = number
        self.read = read
        self.shard = shard
        self.low = low
        self.high = high
        self.rows: list[Row] = []
        self.records_read = 0
        self.bytes_read = 0
        """size of the records as DynamoDB counts it; only if capacity is metered"""

    def next_position_after(self, here: EntryPosition) -> EntryPosition | None:
        """Return the first position after `here` where this shard range may have a row, or None."""
        value, shard, tie = here
        if shard < self.shard:
            position = (value, self.shard, b"")
        elif shard == self.shard:
            position = (value, shard, next_bytes(tie))
        else:
            position = (next_bytes(value), self.shard, b"")
        position = max(position, self.low)
        return position if position < self.high else None

    def next_position_before(self, here: EntryPosition) -> EntryPosition | None:
        """Return the upper bound of the rows before `here` that this shard range may have, or None."""
        value, shard, tie = here
        if shard > self.shard:
            position = (value, self.shard, AFTER_EVERYTHING)
        elif shard == self.shard:
            position = (value, shard, tie)
        else:
            position = (value, b"", b"")
        position = min(position, self.high)
        return position if self.low < position else None

    def is_done(self, here: EntryPosition, *, descending: bool) -> bool:
        """Return whether a scan that stopped at `here` has found all rows of this shard range."""
        if descending:
            return self.low[0] >= here[0] and self.next_position_before(here) is None
        return self.high[0] <= next_bytes(here[0]) and self.next_position_after(here) is None


def plan_shard_ranges(
    reads: Sequence[RangeRead], skipped: frozenset[int], index: PhysicalIndex, tie_order: TieOrder
) -> dict[bytes, dict[bytes, ShardRange]]:
    """Return the shard ranges of one call by base and shard. Refuse reads that are invalid or do not fit together."""
    first = reads[0]
    kind = index.definition.range_type
    bases: dict[bytes, dict[bytes, ShardRange]] = {}
    last_range: KeyRange | None = None
    low_value = high_value = high_tie = b""
    for number, read in enumerate(reads):
        check_read(read, first)
        if read.range is not last_range:
            last_range = read.range
            low_value, high_value, high_tie = _bounds(last_range, index)
        base, shard = encode_hash_key(read.hash_key, _HASH)
        low, high = (low_value, shard, b""), (high_value, shard, high_tie)
        if read.start is not None:
            start = _encode_start_key(read, index, tie_order, encode_range_value(read.start.value, kind, _START))
            if read.descending:
                high = start
            else:
                low = (start[0], shard, next_bytes(start[2]))
        shard_ranges = bases.setdefault(base, {})
        if shard in shard_ranges:
            raise StoreRefused(f"{read.hash_key!r} is read twice in one call. Read each hash key once.")
        shard_ranges[shard] = ShardRange(number, read, shard, low, high)
    for shard_ranges in bases.values():
        _check_ordinals(shard_ranges)
        for shard_range in [shard_range for shard_range in shard_ranges.values() if shard_range.number in skipped]:
            del shard_ranges[shard_range.shard]
    return {base: shard_ranges for base, shard_ranges in bases.items() if shard_ranges}


def _bounds(key_range: KeyRange, index: PhysicalIndex) -> tuple[bytes, bytes, bytes]:
    """Return the lowest value of a range, its upper bound, and the tie-breaker that ends the rows of that bound."""
    low, high = b"", AFTER_EVERYTHING
    kind = index.definition.range_type
    if key_range.low is not None:
        low = encode_range_value(key_range.low, kind, _BOUND)
        low = next_bytes(low) if key_range.low_open else low
    if key_range.high is not None:
        high = encode_range_value(key_range.high, kind, _BOUND)
    check_nonempty_range(key_range)
    return low, high, b"" if key_range.high_open else AFTER_EVERYTHING


def _encode_start_key(read: RangeRead, index: PhysicalIndex, tie_order: TieOrder, value: bytes) -> EntryPosition:
    start = read.start
    assert start is not None
    _, range_key, _ = encode_table_key(start.key, _START)
    check_start_key(read)
    _, shard = encode_hash_key(read.hash_key, _HASH)
    if index.number:
        return value, shard, tie_breaker(start.key.hash.encode(), range_key, tie_order)
    return value, shard, b""


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
