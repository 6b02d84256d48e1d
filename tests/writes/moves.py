"""What may happen to teams and members: drawn before any of it, as what is done at once may end in several ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.writes.club import SINCE

IDS = {"team": ["a", "b", "a|"], "member": ["m", "n", "m#"]}
NAMES = ["x", "X", "\0"]
NICKS = ["bob", "bobby"]
"""canonical already, so that plain dictionaries can compare them"""


@dataclass(frozen=True)
class Wish:
    """A command, but for what depends on what stands."""

    does: str
    kind: str
    id: str
    values: Mapping[str, Any]
    some: frozenset[str]
    """what an update changes"""
    expects: int | None
    """by how much the expected version is beside the present one"""
    keyed: bool
    created: int | None = None
    """when a member was created, if that is said and not yet to come"""


@dataclass(frozen=True)
class Move:
    """Something that happens, and what is looked at after it."""

    what: str
    wishes: Sequence[Wish]
    twice: bool
    """of what is done at once, the last is the first once more"""
    pick: int
    """which of the requests before comes again"""
    seconds: int
    troubles: Mapping[str, float]
    seed: int


VALUES = {
    "team": st.fixed_dictionaries({"name": st.sampled_from(NAMES)}),
    "member": st.fixed_dictionaries(
        {
            "team_id": st.sampled_from(["a", "a", "b", "a|"]),
            "nick": st.sampled_from([None, *NICKS]),
            "email": st.sampled_from([None, None, *NAMES]),
            "mentor_id": st.sampled_from([None, None, None, *IDS["member"]]),
            "code": st.sampled_from(["c", "c", "c", "d"]),
        }
    ),
}


def wishes_of(kind: str) -> st.SearchStrategy[Wish]:
    """Anything that may be asked for of records of a kind."""
    return st.builds(
        Wish,
        does=st.sampled_from(["create", "create", "update", "update", "update", "replace", "remove"]),
        kind=st.just(kind),
        id=st.sampled_from(IDS[kind]),
        values=VALUES[kind],
        some=st.frozensets(st.sampled_from(["name", "team_id", "nick", "email", "mentor_id", "code"])),
        expects=st.sampled_from([None, None, None, None, 0, 0, 1]),
        keyed=st.booleans(),
        created=st.sampled_from([None, None, 10, *SINCE]),
    )


WISHES = st.sampled_from(["team", "member", "member", "member"]).flatmap(wishes_of)
MOVES = st.builds(
    Move,
    what=st.sampled_from(["one", "one", "one", "again", "other", "at_once", "each", "later", "grow"]),
    wishes=st.lists(WISHES, min_size=2, max_size=3),
    twice=st.booleans(),
    pick=st.integers(0, 20),
    seconds=st.sampled_from([1, 500, 1_000]),
    troubles=st.sampled_from([{}, {}, {"conflicts": 0.2}, {"lost": 0.2}, {"conflicts": 0.1, "lost": 0.1}]),
    seed=st.integers(0, 10**6),
)


def some(least: int, most: int) -> st.SearchStrategy[list[Move]]:
    """What may happen, where some teams and members are there already."""
    member = {"nick": None, "email": None, "mentor_id": None, "code": "c"}
    begun = [
        Wish("create", "team", "a", {"name": "first"}, frozenset(), None, keyed=False),
        Wish("create", "team", "b", {"name": "second"}, frozenset(), None, keyed=False),
        Wish("create", "member", "m", {**member, "team_id": "a", "email": "x"}, frozenset(), None, keyed=True),
        Wish("create", "member", "n", {**member, "team_id": "a", "nick": "bob"}, frozenset(), None, keyed=True),
    ]
    first = [Move("one", [wish], False, 0, 1, {}, 0) for wish in begun]
    return st.lists(MOVES, min_size=least, max_size=most).map(lambda moves: [*first, *moves])
