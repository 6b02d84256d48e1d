"""The protocol that changes a catalog on live data gives no wrong answer, and needs each of its rules."""

import json
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.evolution.protocol_model import KINDS, Action, Model, Rules, random_schedule
from tests.support.run_depth import depth

SCHEDULES = json.loads(Path(__file__).with_name("protocol_schedules.json").read_text(encoding="utf-8"))
"""For each rule, the shortest known schedule that gives a wrong answer without it."""
RULES = [field.name for field in fields(Rules)]
each_rule = pytest.mark.parametrize("name", RULES)


def replay(kind: str, state: str, actions: Iterable[Action], rules: Rules) -> list[str]:
    """Return the wrong answers of a schedule. Actions that the rules do not permit are left out."""
    model = Model(kind, rules, state)
    for action in actions:
        model.take(tuple(action))
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
    for _ in range(depth(quick=500, deep=20_000)):
        state, actions, wrong = random_schedule(kind, Rules(), random.getrandbits(32))
        assert wrong == [], (state, actions)


@each_rule
def test_every_rule_is_needed(name: str) -> None:
    """A schedule gives a wrong answer without the rule, and none with it."""
    schedule = SCHEDULES[name]
    assert replay(**schedule, rules=replace(Rules(), **{name: False})) != []
    assert replay(**schedule, rules=Rules()) == []


@pytest.mark.deep
@each_rule
def test_random_schedules_find_a_missing_rule(name: str) -> None:
    """At least one of 20,000 random schedules gives a wrong answer without the rule."""
    rules = replace(Rules(), **{name: False})
    kind = SCHEDULES[name]["kind"]
    assert any(random_schedule(kind, rules, seed)[2] for seed in range(20_000))
