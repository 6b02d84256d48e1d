"""Where each shard goes on: the reads of a page, tightened to what is behind one place (docs/search.md).

The order of an answer is (range value, shard ordinal, the engine's order within a tie). Behind a place of value v in
shard p, every shard is asked for the values beyond v; where rows may tie, the shards that come after p are asked for v
itself too, and p goes on behind the very record. No shard needs a position of its own.
"""

from dataclasses import replace
from typing import Any

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.storage.values import Position, RangeRead, StartKey


def behind(read: RangeRead, position: Position, *, may_tie: bool) -> RangeRead | None:
    """What is left of a read behind a place; None where nothing can be left."""
    if _lies_behind(read, position.value):
        return read
    passed = read.ordinal > position.ordinal if read.descending else read.ordinal < position.ordinal
    own = read.ordinal == position.ordinal
    start = StartKey(position.value, position.key) if may_tie and own else read.start
    key_range = _tightened(read.range, position.value, is_open=passed or not may_tie, descending=read.descending)
    if start is not None and not key_range.contains(start.value):
        start = None  # The read begins behind it anyway.
    return None if key_range.is_empty else replace(read, range=key_range, start=start)


def _lies_behind(read: RangeRead, value: Any) -> bool:
    """Whether a read begins behind a value as it is."""
    bound: Any = read.range.high if read.descending else read.range.low
    return bound is not None and (bound < value if read.descending else bound > value)


def _tightened(key_range: KeyRange, value: RangeValue, *, is_open: bool, descending: bool) -> KeyRange:
    if descending:
        left_out = key_range.high_open and key_range.high == value
        return KeyRange(key_range.low, value, key_range.low_open, is_open or left_out)
    left_out = key_range.low_open and key_range.low == value
    return KeyRange(value, key_range.high, is_open or left_out, key_range.high_open)
