"""The rest of a read after a position in the merged order of all shards (docs/explanation/search.md).

Rows are ordered by range value, then shard ordinal, then the engine's order of ties. One position is enough for all
shards. After a position with value v in shard p, each shard continues with the values past v. If rows may tie, shards
after p also read v itself, and p continues after the exact record.
"""

from functools import lru_cache
from typing import Any

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.storage.values import Position, RangeRead, StartKey


def resume_after(read: RangeRead, position: Position, *, may_tie: bool) -> RangeRead | None:
    """Return the rest of a read after a position, or None if nothing can be left."""
    bound: Any = read.range.high if read.descending else read.range.low
    if bound is not None and (bound < position.value if read.descending else bound > position.value):
        return read
    is_before_position = read.ordinal > position.ordinal if read.descending else read.ordinal < position.ordinal
    own = read.ordinal == position.ordinal
    start = StartKey(position.value, position.key) if may_tie and own else read.start
    key_range = _narrow_range(
        read.range, position.value, is_open=is_before_position or not may_tie, descending=read.descending
    )
    if key_range is None:
        return None
    if start is not None and not key_range.contains(start.value):
        start = None  # The range starts after the start key anyway.
    return read._replace(range=key_range, start=start)


@lru_cache(maxsize=64)
def _narrow_range(key_range: KeyRange, value: RangeValue, *, is_open: bool, descending: bool) -> KeyRange | None:
    """Return the rest of a range, or None if it is empty. All shards of a search share the object."""
    rest = _rest_of_range(key_range, value, is_open=is_open, descending=descending)
    return None if rest.is_empty else rest


def _rest_of_range(key_range: KeyRange, value: RangeValue, *, is_open: bool, descending: bool) -> KeyRange:
    if descending:
        excluded = key_range.high_open and key_range.high == value
        return KeyRange(key_range.low, value, key_range.low_open, is_open or excluded)
    excluded = key_range.low_open and key_range.low == value
    return KeyRange(value, key_range.high, is_open or excluded, key_range.high_open)
