"""Errors of records that cannot be written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphql_api.errors.base_error import ShardQLError
from graphql_api.errors.error_messages import ArgumentName, FieldPath, Localizable, NameResolver


class FieldProblem(NamedTuple):
    """What is wrong with one property of a record."""

    field: str
    """name of the property, followed by the path inside its value, separated by dots"""
    message: str


@dataclass(frozen=True, slots=True)
class FieldProblemList(Localizable):
    """The problems of a record in one sentence: `User.first_name: Input should be a valid string; and 3 more`."""

    problems: Sequence[tuple[FieldPath, str]]
    left_out: int = 0

    def resolve(self, names: NameResolver) -> str:
        texts = [
            f"{path.entity}.{path.resolve(names)}: {names.field_message(path, message)}"
            for path, message in self.problems
        ]
        return "; ".join([*texts, f"and {self.left_out:,} more"] if self.left_out else texts)


class InvalidRecord(ShardQLError, code="INVALID_RECORD"):
    """A record does not fit its entity."""

    def __init__(
        self, message: str, *, fields: Sequence[tuple[str | FieldPath, str]] = (), left_out: int = 0, **values: Any
    ) -> None:
        self._problems = tuple(fields)
        super().__init__(message, **values)
        self.left_out = left_out
        """number of further problems that `fields` omits"""

    @property
    def fields(self) -> tuple[FieldProblem, ...]:
        """Return all problems, property by property."""
        return tuple(
            FieldProblem(path, message)
            if isinstance(path, str)
            else FieldProblem(path.resolve(self._names), self._names.field_message(path, message))
            for path, message in self._problems
        )

    @property
    def extensions(self) -> dict[str, Any]:
        fields = {"fields": [problem._asdict() for problem in self.fields]} if self._problems else {}
        return {**super().extensions, **fields}


class CreationChanged(ShardQLError, code="CREATION_CHANGED", status=409):
    """The creation value of a record determines its shard and never changes."""


class RecordNotFound(ShardQLError, code="RECORD_NOT_FOUND", status=404):
    """Raised by updates. Deletes of a missing record succeed."""

    summary = "There is no record with this id to change."


class AlreadyExists(ShardQLError, code="ALREADY_EXISTS", status=409):
    """A record with this id already exists."""


class NotUnique(ShardQLError, code="NOT_UNIQUE", status=409):
    """Another record already has this value, which must be unique."""


class ForeignKeyBroken(ShardQLError, code="FOREIGN_KEY", status=409):
    """A record references a missing record, or is referenced by an existing one."""


class ImmutableChanged(ShardQLError, code="IMMUTABLE", status=409):
    """Raised for changes of immutable properties and of numbers that a counter assigned."""

    summary = "A property that never changes would change."


class VersionConflict(ShardQLError, code="VERSION_CONFLICT", status=409):
    """The record does not have the expected version: another write has changed it."""

    def __init__(self, message: str, *, version: int | None, **values: Any) -> None:
        super().__init__(message, **{"argument": ArgumentName("expected_version"), **values})
        self.version = version
        """the version of the stored record; None if there is no record"""

    @property
    def extensions(self) -> dict[str, Any]:
        return {**super().extensions, "version": self.version}


class TransactionTooLarge(ShardQLError, code="TRANSACTION_TOO_LARGE"):
    """Raised by all-or-none writes, which are one transaction of the engine."""

    summary = "The operations of one write need more items or bytes than a transaction holds."


class IdempotencyMismatch(ShardQLError, code="IDEMPOTENCY_MISMATCH", status=409):
    """The idempotency key was used for another request within the last 24 hours."""
