"""What writes must come to, by plain dictionaries: nothing here knows keys, items or stores.

A command is applied to the model with what the database answered to it, since that alone says which number a counter
gave; everything else the model works out for itself.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]

ANY_NUMBER = "any number"
"""what a counter will have given"""


@dataclass(frozen=True)
class Kind:
    """What is declared of an entity, in words that need no explanation."""

    name: str
    id: str
    defaults: Mapping[str, Any]
    """of every property but the id, those of server-set ones too"""
    unique: tuple[tuple[str, ...], ...] = ()
    refers: tuple[tuple[str, str], ...] = ()
    """property and kind"""
    immutable: tuple[str, ...] = ()
    counter: tuple[str, str] | None = None
    """property and group"""


@dataclass(frozen=True)
class Step:
    """A command in plain words."""

    does: str
    """create, update, replace or remove"""
    kind: str
    id: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """without the id"""
    expected_version: int | None = None
    key: str | None = None
    """of idempotency"""


@dataclass(frozen=True)
class Said:
    """What the database answered: a record, nothing, or an error."""

    record: Mapping[str, Any] | None = None
    code: str | None = None

    @property
    def failed(self) -> bool:
        return self.code is not None


@dataclass
class Model:
    """Everything that stands."""

    kinds: Mapping[str, Kind]
    records: dict[str, dict[str, Values]] = field(default_factory=dict)
    """by kind and id"""
    given: dict[str, set[int]] = field(default_factory=dict)
    """numbers that were ever given, by group"""
    answers: dict[str, tuple[Step, Said]] = field(default_factory=dict)
    """by idempotency key"""

    def __post_init__(self) -> None:
        for name in self.kinds:
            self.records.setdefault(name, {})

    def copy(self) -> "Model":
        """Another one that goes its own way."""
        return deepcopy(self)

    def apply(self, step: Step, said: Said, now: int) -> bool:
        """Does what a command does, and tells whether the database may have said this of it."""
        if step.key is not None and step.key in self.answers:
            before, first = self.answers[step.key]
            return said.code == "IDEMPOTENCY_MISMATCH" if before != step else said == first
        old = self.records[step.kind].get(step.id)
        if step.does == "remove":
            return self._remove(step, old, said)
        if step.does == "update" and old is None:
            return said.code == "RECORD_NOT_FOUND"
        new = self._becomes(step, old, now)
        problems = self._problems(step, old, new)
        if problems or said.failed:
            return said.code in problems
        assert said.record is not None, "whatever is written is answered"
        if not self._number(step, old, new, said.record):
            return False
        self.records[step.kind][step.id] = new
        return self._answer(step, new, said)

    # --- what a record becomes

    def _becomes(self, step: Step, old: Values | None, now: int) -> Values:
        kind = self.kinds[step.kind]
        new: Values = {kind.id: step.id, **kind.defaults}
        if old is not None and step.does == "update":
            new = {**old}
        if "created" in new and old is None:
            new["created"] = now
        if old is not None:
            # What replaces a record takes on what is set once, unless it says so itself.
            kept = {name: old[name] for name in ("created",) if name in old}
            new |= kept
        new |= step.values
        if "updated" in new:
            new["updated"] = now
        if "version" in new:
            new["version"] = 1 if old is None else old["version"] + 1
        if kind.counter is not None and kind.counter[0] not in step.values:
            new[kind.counter[0]] = ANY_NUMBER if old is None else old[kind.counter[0]]
        return new

    def _number(self, step: Step, old: Values | None, new: Values, told: Mapping[str, Any]) -> bool:
        """Takes over the number that a counter gave; none is ever given twice."""
        counter = self.kinds[step.kind].counter
        if counter is None:
            return True
        name, group = counter
        given = self.given.setdefault(new[group], set())
        if new[name] == ANY_NUMBER:
            new[name] = told[name]
            if told[name] in given or told[name] < 1:
                return False
        given.add(new[name])
        return True

    # --- what speaks against it

    def _problems(self, step: Step, old: Values | None, new: Values) -> set[str]:
        kind, problems = self.kinds[step.kind], set()
        if step.does == "create" and old is not None:
            problems.add("ALREADY_EXISTS")
        if step.expected_version is not None and (old is None or old["version"] != step.expected_version):
            problems.add("VERSION_CONFLICT")
        if old is not None and any(old[name] != new[name] for name in kind.immutable):
            problems.add("IMMUTABLE")
        for names in kind.unique:
            mine = [new[name] for name in names]
            others = (one for id, one in self.records[step.kind].items() if id != step.id)
            if None not in mine and any([one[name] for name in names] == mine for one in others):
                problems.add("NOT_UNIQUE")
        for name, target in kind.refers:
            there = new[name] in self.records[target] or (target == step.kind and new[name] == step.id)
            if new[name] is not None and not there:
                problems.add("FOREIGN_KEY")
        return problems

    def _remove(self, step: Step, old: Values | None, said: Said) -> bool:
        if old is None:
            # What is gone is gone, whichever version was expected of it.
            return not said.failed and said.record is None and self._answer(step, None, said)
        problems = set()
        if step.expected_version is not None and old["version"] != step.expected_version:
            problems.add("VERSION_CONFLICT")
        for kind in self.kinds.values():
            for name, target in kind.refers:
                children = (id for id, one in self.records[kind.name].items() if one[name] == step.id)
                if target == step.kind and any((kind.name, id) != (step.kind, step.id) for id in children):
                    problems.add("FOREIGN_KEY")
        if problems or said.failed:
            return said.code in problems
        del self.records[step.kind][step.id]
        return self._answer(step, old, said)

    def _answer(self, step: Step, record: Values | None, said: Said) -> bool:
        if step.key is not None:
            self.answers[step.key] = step, said
        return said.record == record
