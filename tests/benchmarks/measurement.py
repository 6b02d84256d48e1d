"""Contestants take turns, and their costs become ratios."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

THIS_CODE, RELEASE = "this code", "release 0.1.0"
Verdict = Literal["met", "short", "n/a"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one turn has done."""

    operations: int
    rows: Any = None
    """compared with those of the other contestants; a function returns them after the measurement"""


@dataclass(frozen=True, slots=True)
class Turn:
    """A contestant: reads its CPU clock, and performs the work of a round."""

    cpu_seconds: Callable[[], float]
    perform: Callable[[int], Sample]
    prepare: Callable[[int], object] = lambda _: None
    """what belongs to a round and is not measured"""
    group: object = None
    """the rows of turns in one group are compared"""


@dataclass(slots=True)
class Costs:
    """The costs of one contestant."""

    seconds: float = 0.0
    operations: int = 0
    rounds: list[float] = field(default_factory=list)
    """mean of each round"""

    def add(self, seconds: float, operations: int) -> None:
        self.seconds += seconds
        self.operations += operations
        self.rounds.append(seconds / operations)

    @property
    def mean(self) -> float:
        """Return the seconds of one operation, over all rounds."""
        return self.seconds / self.operations


def difference(whole: Costs, part: Costs) -> Costs:
    """Return the costs of a whole without those of its part, by rounds."""
    return Costs(
        whole.seconds - part.mean * whole.operations,
        whole.operations,
        [one - other for one, other in zip(whole.rounds, part.rounds, strict=True)],
    )


def take_turns(rounds: int, turns: Mapping[str, Turn], warm_up: int = 1) -> dict[str, Costs]:
    """Let all contestants do the same work in each round, in rotating order. All rows must be equal."""
    costs = {name: Costs() for name in turns}
    names = [*turns]
    for number in range(-warm_up, rounds):
        rows: dict[object, dict[str, Any]] = {}
        for at in range(len(names)):
            name = names[(at + number) % len(names)]
            turn = turns[name]
            turn.prepare(number)
            started = turn.cpu_seconds()
            sample = turn.perform(number)
            seconds = turn.cpu_seconds() - started
            if number >= 0:
                costs[name].add(seconds, sample.operations)
            found = sample.rows() if callable(sample.rows) else sample.rows
            rows.setdefault(turn.group, {})[name] = found
        for compared in rows.values():
            check_equal(compared)
    return costs


def check_equal(rows: Mapping[str, Any]) -> None:
    """All contestants have found the same rows, in the same order."""
    (first, expected), *others = rows.items()
    for name, found in others:
        if found != expected:
            differing = [pair for pair in zip(expected or [], found or [], strict=False) if pair[0] != pair[1]]
            sizes = f"{len(expected)} and {len(found)}" if expected and found else f"{expected!r} and {found!r}"
            raise AssertionError(f"{first} and {name} differ: {sizes} rows, {differing[:1]}")


@dataclass(frozen=True, slots=True)
class Target:
    """The least ratio of the cost of a contestant to that of this code."""

    contestant: str
    at_least: float


@dataclass(slots=True)
class Row:
    """A row of the table: the costs of this code and of others, in one unit."""

    name: str
    unit: str
    costs: Mapping[str, float]
    targets: Sequence[Target] = ()
    scale: float = 1e6
    """from the costs to the unit"""
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """least and greatest ratio of a round, by contestant"""
    notes: list[str] = field(default_factory=list)

    def ratio(self, contestant: str) -> float:
        """Return the cost of a contestant in relation to that of this code."""
        return self.costs[contestant] / self.costs[THIS_CODE]

    def verdict(self, target: Target) -> Verdict:
        if target.contestant not in self.costs:
            return "n/a"
        return "met" if self.ratio(target.contestant) >= target.at_least else "short"


def measured_row(
    name: str, unit: str, costs: Mapping[str, Costs], targets: Sequence[Target] = (), notes: Sequence[str] = ()
) -> Row:
    """Make a row of measured costs in microseconds."""
    ours = costs[THIS_CODE]
    spread = {}
    for contestant, each in costs.items():
        ratios = [theirs / own for theirs, own in zip(each.rounds, ours.rounds, strict=True)]
        spread[contestant] = (min(ratios), max(ratios))
    means = {contestant: each.mean for contestant, each in costs.items()}
    return Row(name, unit, means, targets, spread=spread, notes=[*notes])
