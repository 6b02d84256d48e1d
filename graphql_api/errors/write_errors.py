"""Errors of records that cannot be written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphql_api.errors.base_error import ShardQLError
from graphql_api.errors.name_references import ArgumentName, FieldPath, Localizable, NameResolver


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


class InvalidRecord(ShardQLError):
    """Raised when a record does not validate, before it is written or after it was read."""

    code = "INVALID_RECORD"
    summary = "A record does not fit its entity."

    def __init__(
        self,
        message: str,
        *,
        argument: str | Localizable | None = None,
        shard: str | None = None,
        fields: Sequence[tuple[str | FieldPath, str]] = (),
        left_out: int = 0,
        **values: Any,
    ) -> None:
        self._problems = tuple(fields)
        super().__init__(message, argument=argument, shard=shard, **values)
        self.left_out = left_out
        """number of further problems that `fields` omits"""

    @property
    def fields(self) -> tuple[FieldProblem, ...]:
        """Return all problems, property by property."""
        return tuple(self._resolved(path, message) for path, message in self._problems)

    def _resolved(self, path: str | FieldPath, message: str) -> FieldProblem:
        if isinstance(path, str):
            return FieldProblem(path, message)
        return FieldProblem(path.resolve(self._names), self._names.field_message(path, message))

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with the problems of single properties."""
        fields = {"fields": [problem._asdict() for problem in self.fields]} if self._problems else {}
        return {**super().extensions, **fields}


class CreationChanged(ShardQLError):
    """Raised since the creation value selects the shard generation, and so the shard of a record."""

    code = "CREATION_CHANGED"
    status = 409
    summary = "The creation value of a record determines its shard and never changes."


class RecordNotFound(ShardQLError):
    """Raised by updates. Deletes of a missing record succeed."""

    code = "RECORD_NOT_FOUND"
    status = 404
    summary = "There is no record with this id to change."


class AlreadyExists(ShardQLError):
    """Raised by creates, which never replace a record."""

    code = "ALREADY_EXISTS"
    status = 409
    summary = "A record with this id already exists."


class NotUnique(ShardQLError):
    """Raised when a unique item belongs to another record that still has the value."""

    code = "NOT_UNIQUE"
    status = 409
    summary = "Another record already has this value, which must be unique."


class ForeignKeyBroken(ShardQLError):
    """Raised for references to a missing record, and for deletes of a record that others reference."""

    code = "FOREIGN_KEY"
    status = 409
    summary = "A record references a missing record, or is referenced by an existing one."


class ImmutableChanged(ShardQLError):
    """Raised for changes of immutable properties and of numbers that a counter assigned."""

    code = "IMMUTABLE"
    status = 409
    summary = "A property that never changes would change."


class VersionConflict(ShardQLError):
    """Raised when the version of the stored record differs from `expected_version`."""

    code = "VERSION_CONFLICT"
    status = 409
    summary = "The record does not have the expected version: another write has changed it."

    def __init__(
        self,
        message: str,
        *,
        version: int | None,
        argument: str | Localizable = ArgumentName("expected_version"),  # noqa: B008 - frozen
        **values: Any,
    ) -> None:
        super().__init__(message, argument=argument, **values)
        self.version = version
        """the version of the stored record; None if there is no record"""

    @property
    def extensions(self) -> dict[str, Any]:
        """Return the machine-readable part, with the version of the stored record."""
        return {**super().extensions, "version": self.version}


class IdempotencyMismatch(ShardQLError):
    """Raised when the digest that is stored under an idempotency key differs from the one of the request."""

    code = "IDEMPOTENCY_MISMATCH"
    status = 409
    summary = "The idempotency key was used for another request within the last 24 hours."
