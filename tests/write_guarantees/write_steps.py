"""Strategies for write scenarios of teams and members. All steps are drawn in advance, because results may vary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.write_guarantees.team_catalog import SINCE

IDS = {"team": ["a", "b", "a|"], "member": ["m", "n", "m#"]}
NAMES = ["x", "X", "\0"]
NICKS = ["bob", "bobby"]
"""in canonical form, so that the model can compare them"""


@dataclass(frozen=True)
class CommandDraft:
    """A command without the values that depend on the current state."""

    action: str
    kind: str
    id: str
    values: Mapping[str, Any]
    changed_names: frozenset[str]
    """properties that an update changes"""
    version_offset: int | None
    """offset of the expected version from the stored one"""
    has_key: bool
    created: int | None = None
    """creation value of a member, if it is not in the future"""


@dataclass(frozen=True)
class ScenarioStep:
    """A step of a scenario."""

    action: str
    drafts: Sequence[CommandDraft]
    repeat_first: bool
    """the last concurrent command repeats the first one"""
    pick: int
    """selects the completed command that is repeated"""
    seconds: int
    faults: Mapping[str, float]
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


def drafts_of(kind: str) -> st.SearchStrategy[CommandDraft]:
    """Draws commands for one entity."""
    return st.builds(
        CommandDraft,
        action=st.sampled_from(["create", "create", "update", "update", "update", "replace", "remove"]),
        kind=st.just(kind),
        id=st.sampled_from(IDS[kind]),
        values=VALUES[kind],
        changed_names=st.frozensets(st.sampled_from(["name", "team_id", "nick", "email", "mentor_id", "code"])),
        version_offset=st.sampled_from([None, None, None, None, 0, 0, 1]),
        has_key=st.booleans(),
        created=st.sampled_from([None, None, 10, *SINCE]),
    )


DRAFTS = st.sampled_from(["team", "member", "member", "member"]).flatmap(drafts_of)
STEPS = st.builds(
    ScenarioStep,
    action=st.sampled_from(
        [
            *("single", "single", "single", "repeat", "reuse_key", "concurrent", "batch", "together", "together"),
            *("advance_clock", "add_generation"),
        ]
    ),
    drafts=st.lists(DRAFTS, min_size=2, max_size=3),
    repeat_first=st.booleans(),
    pick=st.integers(0, 20),
    seconds=st.sampled_from([1, 500, 1_000]),
    faults=st.sampled_from([{}, {}, {"conflicts": 0.2}, {"lost": 0.2}, {"conflicts": 0.1, "lost": 0.1}]),
    seed=st.integers(0, 10**6),
)


def scenarios(min_steps: int, max_steps: int) -> st.SearchStrategy[list[ScenarioStep]]:
    """Draws scenarios that start with some teams and members, some of them with a member of an earlier generation."""
    member = {"nick": None, "email": None, "mentor_id": None, "code": "c"}
    initial = [
        CommandDraft("create", "team", "a", {"name": "first"}, frozenset(), None, has_key=False),
        CommandDraft("create", "team", "b", {"name": "second"}, frozenset(), None, has_key=False),
        CommandDraft(
            "create", "member", "m", {**member, "team_id": "a", "email": "x"}, frozenset(), None, has_key=True
        ),
        CommandDraft(
            "create", "member", "n", {**member, "team_id": "a", "nick": "bob"}, frozenset(), None, has_key=True
        ),
    ]
    first = [ScenarioStep("single", [draft], False, 0, 1, {}, 0) for draft in initial]
    # Random steps seldom create a member again after the shards have grown.
    grown = [
        ScenarioStep("add_generation", [], False, 0, 1, {}, 0),
        ScenarioStep("advance_clock", [], False, 0, SINCE[0], {}, 0),
        ScenarioStep("single", [initial[2]], False, 0, 1, {}, 0),
    ]
    starts = st.sampled_from([first, first, [*first, *grown]])
    return st.builds(
        lambda start, steps: [*start, *steps], starts, st.lists(STEPS, min_size=min_steps, max_size=max_steps)
    )
