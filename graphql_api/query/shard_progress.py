"""Where the shards of a search stand: one place for nearly all of them, and those that lag after a failure.

A place is behind one record, or in the gap before an index (the first gap is the beginning of the answer, the one
behind the last index its end). A shard that answered stands at the last place that the page looked at, or stays where
it was when that is further on; one that failed stands behind its own last row on the page. No shard ever goes back, so
nothing is shown twice, and none is moved beyond what it has shown, so nothing is lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphql_api.errors import StoreUnavailable
from graphql_api.query.page_token import Lagging, Place

MAX_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Standing:
    """The place of every shard: `place`, unless it is among those that lag."""

    place: Place
    lagging: tuple[Lagging, ...] = ()

    def of(self, ordinal: int) -> Place:
        return next((group.place for group in self.lagging if ordinal in group.ordinals), self.place)


@dataclass(frozen=True, slots=True)
class Walk:
    """One way through an answer of one or several indexes: how its places are ordered, and where its shards begin.

    The answer goes index by index. `reverse` turns the order within each of them; walking backward turns everything.
    """

    reverse: bool
    backward: bool
    indexes: int
    begins: Standing

    @property
    def outset(self) -> Place:
        """Where a walk without a token begins."""
        return Place(self.indexes if self.backward else 0)

    @property
    def goal(self) -> Place:
        """Where a shard stands that has nothing more to show."""
        return Place(0 if self.backward else self.indexes)

    def members(self) -> range:
        """The indexes in the order in which the walk comes to them."""
        return range(self.indexes - 1, -1, -1) if self.backward else range(self.indexes)

    def begin_of(self, member: int) -> Place:
        """The gap by which the walk comes to an index."""
        return Place(member + self.backward)

    def end_of(self, member: int) -> Place:
        """The gap by which the walk leaves an index."""
        return Place(member + (not self.backward))

    def further(self, one: Place, other: Place) -> Place:
        """The one of two places that the walk reaches later; of equal ones the first."""
        return other if self.comes_before(one, other) else one

    def comes_before(self, one: Place, other: Place) -> bool:
        """Whether the walk comes to one place before it comes to another."""
        if self.backward:
            return self._stands_before(other, one)
        return self._stands_before(one, other)

    def _stands_before(self, one: Place, other: Place) -> bool:
        if one.index != other.index:
            return one.index < other.index
        if one.value is None or other.value is None:
            return one.value is None and other.value is not None  # The gap is before the index.
        here: Any = (one.value, one.ordinal)
        there: Any = (other.value, other.ordinal)
        return bool(here > there if self.reverse else here < there)

    def is_done(self, place: Place, member: int) -> bool:
        """Whether a shard that stands here has nothing to show of an index any more."""
        end = self.end_of(member)
        return place == end or self.comes_before(end, place)

    def after(
        self, shown: Mapping[int, Place], last: Place, ordinals: Iterable[int], failed: Iterable[int]
    ) -> Standing:
        """Where the shards stand behind a page: those that answered at its last place, the others where they have got.

        `shown` tells of shards the place of their last row on the page.
        """
        failures = set(failed)
        if not failures and not self.begins.lagging:
            return Standing(self.further(last, self.begins.place))  # Nearly always: no shard differs from another.
        places = {}
        for ordinal in ordinals:
            begun = self.begins.of(ordinal)
            places[ordinal] = self.further(last, begun) if ordinal not in failures else shown.get(ordinal, begun)
        return self._grouped(places)

    def _grouped(self, places: Mapping[int, Place]) -> Standing:
        furthest = self.outset
        for place in places.values():
            furthest = self.further(furthest, place)
        groups: dict[Place, list[int]] = {}
        for ordinal, place in places.items():
            if place != furthest:
                groups.setdefault(place, []).append(ordinal)
        if len(groups) > MAX_GROUPS:
            raise StoreUnavailable(
                f"Shards have failed at more than {MAX_GROUPS} places of this walk: try again with the same token, "
                "which stays good."
            )
        return Standing(furthest, tuple(Lagging(place, tuple(ordinals)) for place, ordinals in groups.items()))
