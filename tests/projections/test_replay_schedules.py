"""Law: while replays run, die and are repeated, no server answers without an acknowledged event."""

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from graphql_api.evolution.schema_copy import SchemaCopy
from graphql_api.evolution.table_schema import READ_LEASES, LeasedSchema
from graphql_api.projections import replays
from graphql_api.projections.replays import MissingEvents, Replay, ReplayResult
from tests.projections.replay_world import run_schedule
from tests.support.run_depth import depth


def test_no_answer_lacks_an_acknowledged_event(random: Random) -> None:
    """With late and lost requests, frozen servers, old copies and killed replays, both releases answer right."""
    answered_by: set[int] = set()
    refusals: set[str] = set()
    for _ in range(depth(quick=5, deep=1_000)):
        world = run_schedule(random.getrandbits(32))
        assert world.answers > 0
        answered_by |= world.answered_by
        refusals |= world.refusals
    assert answered_by == {1, 2}
    assert refusals <= {"CATALOG_BEHIND", "NOT_READY", "STORE_UNAVAILABLE", "CONFLICT", "OUTCOME_UNKNOWN"}


async def _without_comparison(schema: LeasedSchema) -> SchemaCopy:
    return await schema._copy_younger_than(schema.lease_seconds * READ_LEASES)


async def _with_an_older_read(schema: LeasedSchema) -> SchemaCopy:
    copy = await _without_comparison(schema)
    if copy.is_switching:
        await schema.refresh()
    return schema.latest


_compare = Replay._compare


async def _compare_once(replay: Replay, result: ReplayResult) -> Sequence[MissingEvents]:
    record = replay._schema.latest.record
    states = {one.state for one in replay._recorded(record) if one is not None}
    return [] if states == {"switching"} else await _compare(replay, result)


RULES: dict[str, tuple[tuple[Any, str, Any], Sequence[int]]] = {
    "a switch waits until no server writes": (
        (replays, "wait_times", lambda *_: SimpleNamespace(lease=1.0, readers=0.0, fence=0.0)),
        (2, 4, 5, *range(40)),
    ),
    "reads compare their copy with the table": (
        (LeasedSchema, "copy_for_reading", _without_comparison),
        (7, 9, 16, *range(60)),
    ),
    "reads join no comparison that began before them": (
        (LeasedSchema, "copy_for_reading", _with_an_older_read),
        (19, 30, *range(200)),
    ),
    "positions are compared after the wait": ((Replay, "_compare", _compare_once), (6, 9, *range(60))),
}
"""what is removed, and seeds of schedules of which one gives a wrong answer without it"""


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    """Without one of the rules, some schedule gives a wrong answer."""
    (owner, name, removed), seeds = RULES[rule]
    with patch.object(owner, name, removed):
        assert any(map(_is_wrong, seeds))


def _is_wrong(seed: int) -> bool:
    try:
        run_schedule(seed)
    except AssertionError as problem:
        return " instead of " in f"{problem}"
    return False
