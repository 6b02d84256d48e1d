"""A reference model of writes with plain dictionaries, without keys, items or stores.

The model applies a command together with the response of the database, which alone contains counter values. It
computes everything else.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]

ANY_NUMBER = "any number"
"""placeholder for the next counter value"""


@dataclass(frozen=True)
class EntityRules:
    """The declared rules of an entity."""

    name: str
    id: str
    defaults: Mapping[str, Any]
    """default of each property except the id"""
    unique: tuple[tuple[str, ...], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    """property and entity"""
    immutable: tuple[str, ...] = ()
    counter: tuple[str, str] | None = None
    """property and group"""


@dataclass(frozen=True)
class ModelCommand:
    """A command in terms of the model."""

    action: str
    """create, update, replace or remove"""
    kind: str
    id: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """without the id"""
    expected_version: int | None = None
    key: str | None = None
    """idempotency key"""


@dataclass(frozen=True)
class ModelWrite:
    """Commands that are executed all or none."""

    commands: tuple[ModelCommand, ...]
    """without keys"""
    key: str | None = None


@dataclass(frozen=True)
class WriteResponse:
    """The responses to all commands of a write, or the failed one."""

    responses: tuple["Response", ...] = ()
    failed: int | None = None
    """position of the command that failed"""
    code: str | None = None


@dataclass(frozen=True)
class Response:
    """A response of the database: a record, nothing, or an error."""

    record: Mapping[str, Any] | None = None
    code: str | None = None

    @property
    def failed(self) -> bool:
        return self.code is not None


@dataclass
class ReferenceModel:
    """The expected state of all records."""

    rules: Mapping[str, EntityRules]
    records: dict[str, dict[str, Values]] = field(default_factory=dict)
    """by entity and id"""
    assigned_numbers: dict[str, set[int]] = field(default_factory=dict)
    """all assigned counter values, by group"""
    responses: dict[str, tuple[ModelCommand | ModelWrite, Response | WriteResponse]] = field(default_factory=dict)
    """by idempotency key"""

    def __post_init__(self) -> None:
        for name in self.rules:
            self.records.setdefault(name, {})

    def copy(self) -> "ReferenceModel":
        """Returns an independent copy."""
        return deepcopy(self)

    def apply(self, command: ModelCommand, response: Response, now: int) -> bool:
        """Applies a command, and returns whether the response of the database is correct."""
        if command.key is not None and command.key in self.responses:
            first_command, first = self.responses[command.key]
            return response.code == "IDEMPOTENCY_MISMATCH" if first_command != command else response == first
        old = self.records[command.kind].get(command.id)
        if command.action == "remove":
            return self._remove(command, old, response)
        if command.action == "update" and old is None:
            return response.code == "RECORD_NOT_FOUND"
        new = self._new_record(command, old, now)
        problems = self._problems(command, old, new)
        if problems or response.failed:
            return response.code in problems
        assert response.record is not None, "a successful write returns a record"
        if not self._assign_number(command, old, new, response.record):
            return False
        self.records[command.kind][command.id] = new
        return self._store_response(command, new, response)

    def apply_write(self, write: ModelWrite, response: WriteResponse, now: int) -> bool:
        """Applies all commands of a write or none, and returns whether the response of the database is correct."""
        if write.key is not None and write.key in self.responses:
            return self.responses[write.key] == (write, response)
        attempt = self.copy()
        if response.code is not None:
            assert response.failed is not None, "an error names the command"
            before, failed = write.commands[: response.failed], write.commands[response.failed]
            return all(attempt.apply(command, attempt.predict(command, now), now) for command in before) and (
                attempt.apply(failed, Response(code=response.code), now)
            )
        if not all(map(attempt.apply, write.commands, response.responses, [now] * len(write.commands))):
            return False
        vars(self).update(vars(attempt))
        if write.key is not None:
            self.responses[write.key] = write, response
        return True

    def predict(self, command: ModelCommand, now: int) -> Response:
        """Returns the response to a command that does not fail, with any number."""
        old = self.records[command.kind].get(command.id)
        if command.action == "remove":
            return Response(old)
        new = self._new_record(command, old, now)
        numbers = {name: 10**6 for name, value in new.items() if value == ANY_NUMBER}
        return Response({**new, **numbers})

    # --- new records

    def _new_record(self, command: ModelCommand, old: Values | None, now: int) -> Values:
        rules = self.rules[command.kind]
        new: Values = {rules.id: command.id, **rules.defaults}
        if old is not None and command.action == "update":
            new = {**old}
        if "created" in new and old is None:
            new["created"] = now
        if old is not None:
            # A replacement keeps the creation value unless it provides one.
            kept = {name: old[name] for name in ("created",) if name in old}
            new |= kept
        new |= command.values
        if "updated" in new:
            new["updated"] = now
        if "version" in new:
            new["version"] = 1 if old is None else old["version"] + 1
        if rules.counter is not None and rules.counter[0] not in command.values:
            new[rules.counter[0]] = ANY_NUMBER if old is None else old[rules.counter[0]]
        return new

    def _assign_number(
        self, command: ModelCommand, old: Values | None, new: Values, response_record: Mapping[str, Any]
    ) -> bool:
        """Takes a counter value from the response. Each value is assigned at most once."""
        counter = self.rules[command.kind].counter
        if counter is None:
            return True
        name, group = counter
        assigned_numbers = self.assigned_numbers.setdefault(new[group], set())
        if new[name] == ANY_NUMBER:
            new[name] = response_record[name]
            if response_record[name] in assigned_numbers or response_record[name] < 1:
                return False
        assigned_numbers.add(new[name])
        return True

    # --- constraints

    def _problems(self, command: ModelCommand, old: Values | None, new: Values) -> set[str]:
        rules, problems = self.rules[command.kind], set()
        if command.action == "create" and old is not None:
            problems.add("ALREADY_EXISTS")
        if command.expected_version is not None and (old is None or old["version"] != command.expected_version):
            problems.add("VERSION_CONFLICT")
        if old is not None and any(old[name] != new[name] for name in rules.immutable):
            problems.add("IMMUTABLE")
        for names in rules.unique:
            values = [new[name] for name in names]
            others = (one for id, one in self.records[command.kind].items() if id != command.id)
            if None not in values and any([one[name] for name in names] == values for one in others):
                problems.add("NOT_UNIQUE")
        for name, target in rules.references:
            exists = new[name] in self.records[target] or (target == command.kind and new[name] == command.id)
            if new[name] is not None and not exists:
                problems.add("FOREIGN_KEY")
        return problems

    def _remove(self, command: ModelCommand, old: Values | None, response: Response) -> bool:
        if old is None:
            # Deleting a missing record succeeds, with any expected version.
            return not response.failed and response.record is None and self._store_response(command, None, response)
        problems = set()
        if command.expected_version is not None and old["version"] != command.expected_version:
            problems.add("VERSION_CONFLICT")
        for rules in self.rules.values():
            for name, target in rules.references:
                children = (id for id, one in self.records[rules.name].items() if one[name] == command.id)
                if target == command.kind and any((rules.name, id) != (command.kind, command.id) for id in children):
                    problems.add("FOREIGN_KEY")
        if problems or response.failed:
            return response.code in problems
        del self.records[command.kind][command.id]
        return self._store_response(command, old, response)

    def _store_response(self, command: ModelCommand, record: Values | None, response: Response) -> bool:
        if command.key is not None:
            self.responses[command.key] = command, response
        return response.record == record
