"""The writes of records as they are asked for: frozen values, which `writes` carries out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.model import Entity, EntitySpec

Guard = Callable[[Entity | None, Entity | None], Awaitable[None]]
"""is shown the old record and the new one, and raises `Forbidden` before anything is written"""


@dataclass(frozen=True, slots=True)
class Create:
    """Writes a record where there is none; what the server sets need not be given."""

    entity: EntitySpec
    values: Mapping[str, Any]
    """by Python name"""
    idempotency_key: str | None = None
    allow: Guard | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Changes a record: what is not given stays, null clears. Under a new sub id the last entry goes on as another."""

    entity: EntitySpec
    key: Sequence[Any]
    """the values of the whole primary key"""
    changes: Mapping[str, Any]
    """by Python name"""
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: Guard | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Writes a whole record, in place of the one with its key if there is one."""

    entity: EntitySpec
    values: Mapping[str, Any]
    """by Python name"""
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: Guard | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Removes a record, if there is one."""

    entity: EntitySpec
    key: Sequence[Any]
    """the values of the whole primary key"""
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: Guard | None = None


Command = Create | Update | Replace | Remove


def may_repeat(command: Command) -> bool:
    """Whether the same command, carried out twice, comes to what it comes to once.

    Under an idempotency key every one does. Without it a record is created twice, or its own creation is in the way of
    the second one, and what expects a version finds that of its own first time.
    """
    if command.idempotency_key is not None or isinstance(command, Remove):
        return True
    if isinstance(command, Create) or command.expected_version is not None:
        return False
    return isinstance(command, Update) or all(
        command.values.get(part.name) is not None for part in command.entity.primary
    )
