"""Commands: frozen descriptions of one write each, which the executor executes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.model import Entity, EntitySpec

WriteGuard = Callable[[Entity | None, Entity | None], Awaitable[None]]
"""receives the old and the new record, and raises `Forbidden` before anything is written"""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a record that does not exist. Values that the server sets are optional."""

    entity: EntitySpec
    values: Mapping[str, Any]
    """by Python name"""
    idempotency_key: str | None = None
    allow: WriteGuard | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Change an existing record: omitted properties keep their values, null clears.

    Under a new sub id, create a new entry from the last entry of the history.
    """

    entity: EntitySpec
    key: Sequence[Any]
    """the values of the whole primary key"""
    changes: Mapping[str, Any]
    """by Python name"""
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: WriteGuard | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Create the record, or replace it entirely."""

    entity: EntitySpec
    values: Mapping[str, Any]
    """by Python name"""
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: WriteGuard | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the record if it exists."""

    entity: EntitySpec
    key: Sequence[Any]
    """the values of the whole primary key"""
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: WriteGuard | None = None


Command = Create | Update | Replace | Remove


def is_idempotent(command: Command) -> bool:
    """Return whether executing the command twice has the same result as executing it once.

    Every command with an idempotency key is idempotent. Without a key, a second create finds the first record, or adds
    another one. A second write with an expected version finds the new version of the first write.
    """
    if command.idempotency_key is not None or isinstance(command, Remove):
        return True
    if isinstance(command, Create) or command.expected_version is not None:
        return False
    return isinstance(command, Update) or all(
        command.values.get(part.name) is not None for part in command.entity.primary_key
    )
