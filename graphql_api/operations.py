"""The operations of an all-or-none write in Python: `await db.write([Create(User, name="Ada"), Delete(Team, "t")])`.

Projections of events return operations too. Each takes the arguments of the method of `Database` with its name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, overload

from typing_extensions import TypeVar

from graphql_api.codecs import RecordKey
from graphql_api.model import Catalog, ChangeSignature, CreateSignature, Entity, RemoveSignature, check_key_entity
from graphql_api.query import parse_written_key
from graphql_api.writes import Command, Remove, Replace, record_values
from graphql_api.writes import Create as CreateCommand
from graphql_api.writes import Update as UpdateCommand

E = TypeVar("E", bound=Entity)
E_co = TypeVar("E_co", bound=Entity, covariant=True, default=Entity)
P = ParamSpec("P")


class Operation(ABC, Generic[E_co]):
    """One operation of an all-or-none write. Operations with the same arguments are equal."""

    @property
    @abstractmethod
    def entity(self) -> type[E_co]:
        """The class of the record."""

    @abstractmethod
    def to_command(self, catalog: Catalog, idempotency_key: str | None = None) -> Command:
        """Return the command that executes the operation."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # values may be lists

    def __repr__(self) -> str:
        arguments: list[str] = []
        for name, value in vars(self).items():
            if isinstance(value, dict):
                arguments += (f"{key}={one!r}" for key, one in value.items())
            elif name == "_expected_version":
                arguments += [] if value is None else [f"expected_version={value!r}"]
            elif name != "_id" or value is not None:
                arguments.append(value.__name__ if isinstance(value, type) else repr(value))
        return f"{type(self).__name__}({', '.join(arguments)})"


class Create(Operation[E_co]):
    """Create a record: `Create(User, first_name="Ada")` or `Create(User(…))`."""

    @overload
    def __init__(self: "Create[E]", source: E, /) -> None: ...

    @overload
    def __init__(self: "Create[E]", source: CreateSignature[P, E], /, *args: P.args, **values: P.kwargs) -> None: ...

    def __init__(self, source: Any, /, **values: Any) -> None:  # type: ignore[misc]  # the arguments have names
        self._source: E_co | type[E_co] = source
        self._values = values

    @property
    def entity(self) -> type[E_co]:
        """The class of the record."""
        return type(self._source) if isinstance(self._source, Entity) else self._source

    def to_command(self, catalog: Catalog, idempotency_key: str | None = None) -> CreateCommand:
        """Return the command that creates the record."""
        if isinstance(self._source, Entity):
            entity = catalog.entity(type(self._source))
            return CreateCommand(entity, record_values(entity, self._source), idempotency_key)
        return CreateCommand(catalog.entity(self._source), self._values, idempotency_key)


class Update(Operation[E_co]):
    """Change a record: `Update(Order, "o-1", status="sent", expected_version=4)`."""

    def __init__(self: "Update[E]", entity: ChangeSignature[P, E], /, *args: P.args, **changes: P.kwargs) -> None:
        set_arguments: Callable[..., None] = self._set_arguments
        set_arguments(entity, *args, **changes)

    def _set_arguments(
        self, entity: Any, id: Any = None, /, *, expected_version: int | None = None, **changes: Any
    ) -> None:
        self._entity: type[E_co] = entity
        self._id = id
        self._expected_version = expected_version
        self._changes = changes

    @property
    def entity(self) -> type[E_co]:
        """The class of the record."""
        return self._entity

    def to_command(self, catalog: Catalog, idempotency_key: str | None = None) -> UpdateCommand:
        """Return the command that changes the record."""
        spec, id, changes = catalog.entity(self._entity), self._id, dict(self._changes)
        key_names = [part.name for part in spec.primary_key]
        parts = {name: changes.pop(name) for name in key_names if name in changes}
        if id is None and "id" in changes and "id" not in spec.properties:
            id = changes.pop("id")
        if isinstance(id, RecordKey) and any(part.name in parts for part in spec.sub_ids):
            check_key_entity(spec, id)
            parts, id = {**dict(zip(key_names, id.ids, strict=False)), **parts}, None
        values = parse_written_key(spec, id, parts)
        return UpdateCommand(spec, values, changes, self._expected_version, idempotency_key)


class Put(Operation[E_co]):
    """Create a record, or replace the one with its id entirely: `Put(User(…))`."""

    def __init__(self, record: E_co, /, *, expected_version: int | None = None) -> None:
        self._record = record
        self._expected_version = expected_version

    @property
    def entity(self) -> type[E_co]:
        """The class of the record."""
        return type(self._record)

    def to_command(self, catalog: Catalog, idempotency_key: str | None = None) -> Replace:
        """Return the command that creates or replaces the record."""
        entity = catalog.entity(type(self._record))
        return Replace(entity, record_values(entity, self._record), self._expected_version, idempotency_key)


class Set(Put[E_co]):
    """Create a record, or replace the one with its id entirely: what `Put` is called in projections of events."""


class Delete(Operation[E_co]):
    """Delete a record if it exists: `Delete(User, "wf5y")`, `Delete(Line, "o-1", num=3)`."""

    def __init__(self: "Delete[E]", entity: RemoveSignature[P, E], /, *args: P.args, **key: P.kwargs) -> None:
        set_arguments: Callable[..., None] = self._set_arguments
        set_arguments(entity, *args, **key)

    def _set_arguments(
        self, entity: Any, id: Any = None, /, *, expected_version: int | None = None, **parts: Any
    ) -> None:
        self._entity: type[E_co] = entity
        self._id = id
        self._expected_version = expected_version
        self._parts = parts

    @property
    def entity(self) -> type[E_co]:
        """The class of the record."""
        return self._entity

    def to_command(self, catalog: Catalog, idempotency_key: str | None = None) -> Remove:
        """Return the command that deletes the record."""
        spec = catalog.entity(self._entity)
        values = parse_written_key(spec, self._id, self._parts)
        return Remove(spec, values, self._expected_version, idempotency_key)
