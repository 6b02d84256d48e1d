"""Track how far each shard of a paged search has been read.

Nearly always one cursor holds for all shards. Shards that failed lag at earlier cursors. A cursor is directly after one
record, or in the gap before an index. The first gap is the start of the result, the gap after the last index its end.

After a page, a shard that answered moves to the last cursor of the page, or keeps its own cursor if that is later. A
shard that failed moves to its own last row on the page. No shard moves back, so no record is returned twice. No shard
moves past what it has returned, so no record is lost.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphql_api.errors import StoreUnavailable
from graphql_api.query.page_token import Cursor, LaggingShards

MAX_LAGGING_GROUPS = 8


class ShardProgress(NamedTuple):
    """The cursor of every shard: `cursor`, except for the shards in `lagging`."""

    cursor: Cursor
    lagging: tuple[LaggingShards, ...] = ()

    def cursor_of(self, ordinal: int) -> Cursor:
        """Return the cursor of one shard."""
        if not self.lagging:
            return self.cursor
        return next((group.cursor for group in self.lagging if ordinal in group.ordinals), self.cursor)


@dataclass(frozen=True, slots=True)
class Traversal:
    """The direction in which pages are read: the order of cursors, and the progress at which this page starts.

    The result is ordered index by index. `reverse` inverts the order within each index. `backward` reads the whole
    result from its end.
    """

    reverse: bool
    backward: bool
    index_count: int
    start: ShardProgress

    @property
    def last_cursor(self) -> Cursor:
        """Return the cursor of a shard that has no more records."""
        return Cursor(0 if self.backward else self.index_count)

    def index_numbers(self) -> range:
        """Return the indexes in the order of the traversal."""
        return range(self.index_count - 1, -1, -1) if self.backward else range(self.index_count)

    def cursor_before(self, index_number: int) -> Cursor:
        """Return the gap through which the traversal enters an index."""
        return Cursor(index_number + self.backward)

    def cursor_after(self, index_number: int) -> Cursor:
        """Return the gap through which the traversal leaves an index."""
        return Cursor(index_number + (not self.backward))

    def later(self, one: Cursor, other: Cursor) -> Cursor:
        """Return the cursor that the traversal reaches later; the first of two equal ones."""
        return other if self.is_before(one, other) else one

    def is_before(self, one: Cursor, other: Cursor) -> bool:
        """Check whether the traversal reaches one cursor before another."""
        if self.backward:
            one, other = other, one
        if one.index != other.index:
            return one.index < other.index
        if one.value is None or other.value is None:
            return one.value is None and other.value is not None  # The gap is before the index.
        left: Any = (one.value, one.ordinal)
        right: Any = (other.value, other.ordinal)
        return bool(left > right if self.reverse else left < right)

    def has_left(self, cursor: Cursor, index_number: int) -> bool:
        """Check whether a shard at this cursor has no more rows of an index."""
        end = self.cursor_after(index_number)
        return cursor == end or self.is_before(end, cursor)

    def progress_after(
        self, returned: Mapping[int, Cursor], last: Cursor, ordinals: Callable[[], Iterable[int]], failed: Iterable[int]
    ) -> ShardProgress:
        """Compute the progress after a page that ends at `last`.

        `returned` maps a shard to the cursor of its last row on the page; failed shards continue there. `ordinals`
        returns all shards; it is called only if they have different cursors.
        """
        failures = set(failed)
        if not failures and not self.start.lagging:
            return ShardProgress(self.later(last, self.start.cursor))  # The common case: all shards share one cursor.
        latest, cursors = Cursor(self.index_count if self.backward else 0), dict[int, Cursor]()
        for ordinal in ordinals():
            started = self.start.cursor_of(ordinal)
            cursor = returned.get(ordinal, started) if ordinal in failures else self.later(last, started)
            latest, cursors[ordinal] = self.later(latest, cursor), cursor
        groups: dict[Cursor, list[int]] = {}
        for ordinal, cursor in cursors.items():
            if cursor != latest:
                groups.setdefault(cursor, []).append(ordinal)
        if len(groups) > MAX_LAGGING_GROUPS:
            raise StoreUnavailable(
                f"Shards failed at more than {MAX_LAGGING_GROUPS} different positions of this search: retry with the "
                "same token, which stays valid."
            )
        return ShardProgress(
            latest, tuple(LaggingShards(cursor, tuple(ordinals)) for cursor, ordinals in groups.items())
        )
