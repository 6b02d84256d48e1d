"""Where the shards of a search stand: one place for nearly all of them, and those that lag after a failure.

A place is behind one record, or one of the two ends of the answer. A shard that answered stands at the last row of
the page, or stays where it was when that is further on; one that failed stands behind its own last row on the page. No
shard ever goes back, so nothing is shown twice, and none is moved beyond what it has shown, so nothing is lost.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.errors import StoreUnavailable
from graphql_api.search.page_token import Lagging, Place
from graphql_api.store.values import Position, Row

START, END = Place(0), Place(1)
"""before the first record of the answer, and behind its last one"""
MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Standing:
    """The place of every shard: `place`, unless it is among those that lag."""

    place: Place
    lagging: tuple[Lagging, ...] = ()

    def of(self, ordinal: int) -> Place:
        return next((group.place for group in self.lagging if ordinal in group.ordinals), self.place)


@dataclass(frozen=True, slots=True)
class Walk:
    """One way through an answer: how its places are ordered, and where its shards begin."""

    descending: bool
    backward: bool
    begins: Standing
    place_of: Callable[[Position], Place] = field(repr=False)

    @property
    def outset(self) -> Place:
        """Where a walk without a token begins."""
        return END if self.backward else START

    @property
    def goal(self) -> Place:
        """Where a shard stands that has nothing more to show."""
        return START if self.backward else END

    def further(self, one: Place, other: Place) -> Place:
        """The one of two places that the walk reaches later; of equal ones the first."""
        if self.goal in {one, other}:
            return self.goal
        if self.outset in {one, other}:
            return other if one == self.outset else one
        here: Any = (one.value, one.ordinal)
        there: Any = (other.value, other.ordinal)
        return other if (here > there if self.descending else here < there) else one

    def after(self, rows: Sequence[Row], last: Place, ordinals: Iterable[int], failed: Iterable[int]) -> Standing:
        """Where the shards stand behind these rows of a page; those that answered have shown all up to `last`."""
        failures = set(failed)
        if not failures and not self.begins.lagging:
            return Standing(self.further(last, self.begins.place))  # Nearly always: no shard differs from another.
        shown = {row.ordinal: row.position for row in rows}
        places = {}
        for ordinal in ordinals:
            begun = self.begins.of(ordinal)
            if ordinal not in failures:
                places[ordinal] = self.further(last, begun)
            else:
                places[ordinal] = self.place_of(shown[ordinal]) if ordinal in shown else begun
        return self._grouped(places)

    def _grouped(self, places: Mapping[int, Place]) -> Standing:
        furthest = self.outset
        for place in places.values():
            furthest = self.further(furthest, place)
        groups: dict[Place, list[int]] = {}
        for ordinal, place in places.items():
            if place != furthest:
                groups.setdefault(place, []).append(ordinal)
        if len(groups) > MOST_GROUPS:
            raise StoreUnavailable(
                f"Shards have failed at more than {MOST_GROUPS} places of this walk: try again with the same token, "
                "which stays good."
            )
        return Standing(furthest, tuple(Lagging(place, tuple(ordinals)) for place, ordinals in groups.items()))
