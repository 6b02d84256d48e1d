"""Merge the rows of all shards, and decide which of them are certainly the next rows of the result.

Each shard returns its rows in reading order, so all its rows up to its `scanned_to` position are known. Any other row
of the shard is past that position. The low watermark is the smallest `scanned_to` of all shards with more rows: no
shard can still return a row before it. The known rows up to the watermark, sorted by (range value, shard ordinal), are
therefore exactly the beginning of the result.

Rows with equal sort keys belong to one shard, and the stable sort keeps the order of that shard. Range values of an
encoded index are unique, and on a raw index the ordinal breaks ties between shards. So every row is returned once and
in order. The next page needs only one cursor: the last row that this page returned.
"""

from collections.abc import Iterable
from typing import Any

from graphql_api.query.execution.shard_stream import ShardStream
from graphql_api.storage import Position, Row


def sort_key(row: Row | Position) -> tuple[Any, int]:
    """Return the sort key of a row; the range values of one index are all texts or all numbers."""
    return row.value, row.ordinal


def merge_rows(streams: Iterable[ShardStream], *, descending: bool) -> list[Row]:
    """Return all known rows in reading order; a record that moved between two reads appears only once, first."""
    rows = [row for stream in streams for row in stream.rows]
    rows.sort(key=sort_key, reverse=descending)
    first = {row.key: row for row in reversed(rows)}
    return rows if len(first) == len(rows) else [row for row in rows if first[row.key] is row]


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
