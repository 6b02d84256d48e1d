"""The protocol that changes a catalog on live data gives no wrong answer, and needs each of its rules."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.evolution.protocol_kinds import KINDS
from tests.evolution.protocol_model import Model, Rules
from tests.evolution.random_schedules import random_schedule
from tests.support.run_depth import depth

SCHEDULES = json.loads(Path(__file__).with_name("protocol_schedules.json").read_text(encoding="utf-8"))
"""For each rule, the shortest known schedule that gives a wrong answer without it."""
RULES = [field.name for field in fields(Rules)]
each_rule = pytest.mark.parametrize("name", RULES)


MOST_SCHEDULES = 5_000
"""random schedules, one of which gives a wrong answer without a rule"""


def replay(kind: str, state: str, actions: Iterable[Sequence[Any]], rules: Rules) -> list[str]:
    """Return the wrong answers of a schedule. Actions that the rules do not permit are left out."""
    model = Model(kind, rules, state)
    for name, *arguments in actions:
        ticks = arguments[0] if name == "wait" else 1
        for _ in range(ticks):
            model.take(("wait", 1) if name == "wait" else (name, *arguments))
    return model.wrong


class ProtocolMachine(RuleBasedStateMachine):
    """Schedules that Hypothesis chooses, and shortens when an answer is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model("index")

    @initialize(kind=st.sampled_from([*KINDS]))
    def begin(self, kind: str) -> None:
        """Start with a table that does not know the element."""
        self.model = Model(kind)

    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        """Let anything happen that may happen now."""
        self.model.take(data.draw(st.sampled_from(self.model.actions())))

    @invariant()
    def no_answer_is_wrong(self) -> None:
        """Every answer is right, and no constraint is violated while its element is ready."""
        assert self.model.wrong == []


TestProtocol = ProtocolMachine.TestCase


@pytest.mark.parametrize("kind", [*KINDS])
def test_random_schedules_give_no_wrong_answer(kind: str, random: Random) -> None:
    """With all rules, late messages, frozen servers and competing migrations never give a wrong answer."""
    for _ in range(depth(quick=150, deep=20_000)):
        state, actions, wrong = random_schedule(kind, Rules(), random.getrandbits(32))
        assert wrong == [], (state, actions)


def test_every_rule_has_a_schedule() -> None:
    """A known schedule gives a wrong answer without each of the rules."""
    assert {*RULES} <= SCHEDULES.keys()


@pytest.mark.parametrize("name", [*SCHEDULES])
def test_every_rule_is_needed(name: str) -> None:
    """A schedule gives a wrong answer without the rule, and none with it."""
    schedule = {key: value for key, value in SCHEDULES[name].items() if key != "rule"}
    rule = SCHEDULES[name].get("rule", name)
    assert replay(**schedule, rules=replace(Rules(), **{rule: False})) != []
    assert replay(**schedule, rules=Rules()) == []


@pytest.mark.deep
@each_rule
def test_random_schedules_find_a_missing_rule(name: str) -> None:
    """At least one of 5,000 random schedules gives a wrong answer without the rule."""
    rules = replace(Rules(), **{name: False})
    kind = SCHEDULES[name]["kind"]
    assert any(random_schedule(kind, rules, seed)[2] for seed in range(MOST_SCHEDULES))
