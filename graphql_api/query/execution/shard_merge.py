"""The merge: which of the rows that shards have shown are certainly the next of the whole answer.

Each shard shows its rows in reading order, so its rows up to its `scanned_to` are all known and whatever it still hides
lies behind that place. A row is safe once no shard can still show one before it: when it does not lie behind the
`scanned_to` of any shard that has more. The least of these places is the frontier. All known rows up to the frontier,
sorted by (range value, shard ordinal), are therefore a true beginning of the whole answer, whatever the shards hide.
Rows that tie are of one shard (range values of an encoded index are unique, and on a raw index ties between shards are
broken by ordinal), and the sort keeps the order in which that shard showed them. So each row of the answer comes
exactly once and in order, and what the next page needs to know is one place: the last row that this one gave away.
"""

from collections.abc import Iterable
from typing import Any

from graphql_api.query.execution.shard_stream import ShardStream
from graphql_api.storage import Position, Row


def place_of(row: Row | Position) -> tuple[Any, int]:
    """What rows are ordered by; the range values of one index are all text or all numbers."""
    return row.value, row.ordinal


def merged(streams: Iterable[ShardStream], *, descending: bool) -> list[Row]:
    """All known rows in reading order; of a record that moved between two reads only its first place."""
    rows = [row for stream in streams for row in stream.rows]
    rows.sort(key=place_of, reverse=descending)
    first = {row.key: row for row in reversed(rows)}
    return rows if len(first) == len(rows) else [row for row in rows if first[row.key] is row]


def frontier(streams: Iterable[ShardStream], *, descending: bool) -> Position | None:
    """The place up to which every shard has shown everything; None: all of them are done."""
    places = [stream.scanned_to for stream in streams if stream.scanned_to is not None]
    return (max if descending else min)(places, key=place_of, default=None)


def count_safe(rows: list[Row], edge: Position | None, *, descending: bool) -> int:
    """How many of the merged rows do not lie behind the frontier."""
    if edge is None:
        return len(rows)
    return next((count for count, row in enumerate(rows) if is_behind(row, edge, descending=descending)), len(rows))


def is_behind(place: Row | Position, other: Row | Position, *, descending: bool) -> bool:
    """Whether a place comes later in reading order than another one."""
    return place_of(place) < place_of(other) if descending else place_of(place) > place_of(other)
