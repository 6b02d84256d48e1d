"""Commands: frozen descriptions of one write each, which the executor executes.

Their values and changes are by Python name. A key has the values of the whole primary key.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.model import Entity, EntitySpec, value_of

WriteGuard = Callable[[Entity | None, Entity | None], Awaitable[None]]
"""receives the old and the new record, and raises `Forbidden` before anything is written"""

ReferenceGuard = Callable[[Entity | None, Entity], Awaitable[None]]
"""receives the old and the new record, and raises `Forbidden` if the caller may not reference what is new in it"""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a record that does not exist. Values that the server sets are optional."""

    entity: EntitySpec
    values: Mapping[str, Any]
    idempotency_key: str | None = None
    allow: WriteGuard | None = None
    allow_references: ReferenceGuard | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Change an existing record, or under a new sub id continue its history. Omitted properties keep their values."""

    entity: EntitySpec
    key: Sequence[Any]
    changes: Mapping[str, Any]
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: WriteGuard | None = None
    allow_references: ReferenceGuard | None = None
    continues_preceding: bool = False
    """a new entry of a history copies the entry before its own sub id, instead of the last one"""


@dataclass(frozen=True, slots=True)
class Replace:
    """Create the record, or replace it entirely."""

    entity: EntitySpec
    values: Mapping[str, Any]
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: WriteGuard | None = None
    allow_references: ReferenceGuard | None = None
    restoring: bool = False
    """the record was exported from another table, and keeps the values that a server has set there"""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the record if it exists."""

    entity: EntitySpec
    key: Sequence[Any]
    expected_version: Any = None
    idempotency_key: str | None = None
    allow: WriteGuard | None = None
    returns_record: bool = True
    """False: the record is not read if nothing else requires it"""
    readable_children: frozenset[str] | None = None
    """entities whose records the caller may read, so that errors may name those that reference this one; None: all"""


@dataclass(frozen=True, slots=True)
class PutRecord:
    """Create or replace a complete record like `Replace`, without a result: only constraints require a read."""

    entity: EntitySpec
    record: Entity
    expected_version: Any = None
    idempotency_key: str | None = None
    restoring: bool = False
    """the record was exported from another table, may be a current record, and keeps what a server has set there"""
    in_bulk: bool = False
    """one of many: concurrent first writes of an id in different shards are not excluded"""

    @property
    def lacks_creation_value(self) -> bool:
        """Whether the creation value is left to the server: that of the stored record, or the current time."""
        created = self.entity.created
        is_open = created is not None and created.is_server_set and isinstance(self.record, self.entity.model)
        return is_open and created is not None and value_of(self.record, created.name) is None


Command = Create | Update | Replace | Remove
AnyCommand = Command | PutRecord


def key_values(command: AnyCommand, missing: Any = None) -> list[Any]:
    """Return the values of the primary key in a command, in which the server may set some."""
    if isinstance(command, Update | Remove):
        return [*command.key]
    values: Mapping[str, Any] = {}
    if not isinstance(command, PutRecord):
        values = command.values
    elif isinstance(command.record, command.entity.model):
        values = vars(command.record)
    return [values.get(part.name, missing) for part in command.entity.primary_key]


def is_idempotent(command: Command) -> bool:
    """Return whether executing the command twice has the same result as executing it once.

    Every command with an idempotency key is idempotent. Without a key, a second create finds the first record, or adds
    another one. A second write with an expected version finds the new version of the first write.
    """
    if command.idempotency_key is not None or isinstance(command, Remove):
        return True
    if isinstance(command, Create) or command.expected_version is not None:
        return False
    return None not in key_values(command)


def always_commits(command: AnyCommand) -> bool:
    """Return whether a command can only succeed by a commit. Others may find nothing to write, or a stored response."""
    return isinstance(command, Create) and command.idempotency_key is None
