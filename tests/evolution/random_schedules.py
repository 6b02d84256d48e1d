"""Random schedules of the model of the protocol."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.evolution.protocol_kinds import KINDS
from tests.evolution.protocol_model import Action, Model, Operation, Rules

MOST_STEPS = 110
STEPS_PER_TICK = 0.25
"""a tick counts less than an action, because most waits are long"""

USUAL_WEIGHTS = {
    "begin": 0.4,
    "search": 0.4,
    "abandon": 0.5,
    "proceed": 4,
    "apply": 3,
    "visit": 6,
    "change": 3,
    "wait": 4,
}
"""How often random schedules contain an action, before a random factor."""
FACTORS = (0.1, 0.3, 1, 1, 3)
LAST_CHANCE_WEIGHT = 30
LATE_FACTOR = 0.05

PROGRESS = {(name, 0) for name in ("look", "close", "change", "visit", "refresh")}
"""The actions of the first migration, which some schedules prefer so that it comes to its end."""


@dataclass
class Chooser:
    """Chooses the next action of a random schedule. Each schedule prefers other actions.

    Each actor and each kind of action has a random weight. So some schedules have a server that never renews, others
    one that is often frozen, or two migrations that undo each other's work. Each server has an own share of late
    operations, whose steps happen at their last chance, and renews its copy at an own share of the ticks.
    """

    model: Model
    random: Random
    pace: float
    """share of the steps that bring the first migration forward"""
    lateness: list[float]
    renewing: list[float]
    weights: dict[Any, float] = field(default_factory=dict)
    late: dict[int, tuple[Operation, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, random: Random) -> "Chooser":
        """A chooser with random preferences."""
        servers = range(len(model.servers))
        lateness = [random.choice([0.0, 0.3, 0.8]) for _ in servers]
        renewing = [random.choice([0.0, 0.0, 0.5, 1.0]) for _ in servers]
        return cls(model, random, random.choice([0.0, 0.2, 0.35, 0.6]), lateness, renewing)

    def choose(self) -> Action:
        """The next action."""
        possible = self.model.actions()
        if self.random.random() < self.pace:
            forward = [action for action in possible if action[:2] in PROGRESS and action[2:] != ("closing",)]
            possible = forward or [action for action in possible if action[0] in {"announce", "wait"}]
        last = [*self.model.last_chances()]
        weights = [self._weight(action, last) for action in possible]
        return self.random.choices(possible, weights)[0] if any(weights) else possible[0]

    def renewals(self) -> list[Action]:
        """The renewals of this tick."""
        shares = enumerate(self.renewing)
        return [(name, at) for at, share in shares if self.random.random() < share for name in ("renew", "receive")]

    def _is_late(self, operation: Operation) -> bool:
        found = self.late.get(id(operation))
        if found is None:
            found = operation, self.random.random() < self.lateness[operation.server]
            self.late[id(operation)] = found
        return found[1]

    def _weight(self, action: Action, last: list[Action]) -> float:
        name, *arguments = action
        actor = arguments[0] if arguments else None
        if name in {"proceed", "apply"}:
            model, number = self.model, arguments[0]
            operation = model.operations[number] if name == "proceed" else model.requests[number].operation
            if action in last:
                return LAST_CHANCE_WEIGHT
            return self._own("proceed", operation.server) * (LATE_FACTOR if self._is_late(operation) else 1)
        if name == "wait":
            return self._own(name) * (0.1 if last else 1)
        if name in {"begin", "search"}:
            return self._own(*action)
        return self._own(name, None if name == "abandon" else actor, *arguments[1:2])

    def _own(self, *group: Any) -> float:
        if group not in self.weights:
            weight = USUAL_WEIGHTS.get(group[0], 1) * self.random.choice(FACTORS)
            if group[0] == "freeze" or group[-1] == "closing":
                weight *= self.random.choice([0, 0, 0.3])
            self.weights[group] = weight
        return self.weights[group]


def random_schedule(kind: str, rules: Rules, seed: int, most: int = MOST_STEPS) -> tuple[str, list[Action], list[str]]:
    """Run a random schedule until something is wrong. Return its first state, its actions, and what is wrong."""
    random = Random(seed)
    state = random.choice(["absent", "ready", "dropping"] if KINDS[kind]().withdrawn_from else ["absent"])
    model = Model(kind, rules, state)
    chooser = Chooser.of(model, random)
    actions: list[Action] = []
    steps = 0.0
    while steps < most and not model.wrong:
        action = chooser.choose()
        model.execute(action)
        actions.append(action)
        steps += STEPS_PER_TICK if action[0] == "wait" else 1
        actions += [own for own in (chooser.renewals() if action[0] == "wait" else ()) if model.take(own)]
    return state, actions, model.wrong
