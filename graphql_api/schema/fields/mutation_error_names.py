"""The names in errors of mutations, as the schema writes them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from graphql_api.errors import FieldPath, NameResolver, ShardQLError
from graphql_api.model import EntitySpec
from graphql_api.query import NamingScheme
from graphql_api.schema.input_values import resolve_client_path
from graphql_api.writes import NOT_NULL_SUFFIX

_ENUM_MESSAGE = "Input should be "
"""begins pydantic's message about a value that is no member of an enum; a list of the values follows"""


class MutationErrorNames:
    """The names in errors of an entity's writes: those of its input types and searches."""

    def __init__(self, entity: EntitySpec, naming: NamingScheme) -> None:
        self._entity = entity
        self._naming = naming

    def property_name(self, name: str) -> str:
        """Return the field of the input types."""
        return self._naming.property_name(name)

    def argument_name(self, name: str) -> str:
        """Return the argument of the mutation."""
        return self._naming.common_argument(name)

    def search_name(self, entity: str, index: str) -> str:
        """Return the field of the query that searches an index of the entity."""
        indexes = self._entity.indexes.values() if entity == self._entity.type_name else ()
        searched = next((spec for spec in indexes if spec.attribute == index), None)
        return f"{entity}.{index}" if searched is None else self._naming.search_name(self._entity, searched)

    def field_path(self, path: FieldPath) -> str:
        """Return the path in the input, or in the JSON inside it."""
        names, _ = self._resolve(path)
        return ".".join(names) or "record"

    def field_message(self, path: FieldPath, message: str) -> str:
        """Return a message of pydantic, which lists the names of enum members in place of their values."""
        _, types = self._resolve(path)
        (type_,) = types if len(types) == 1 else (None,)
        if not (isinstance(type_, type) and issubclass(type_, Enum) and message.startswith(_ENUM_MESSAGE)):
            return message
        *members, last = (member.name for member in type_)
        suffix = NOT_NULL_SUFFIX if message.endswith(NOT_NULL_SUFFIX) else ""
        return f"{_ENUM_MESSAGE}{' or '.join(filter(None, [', '.join(members), last]))}{suffix}"

    def suggestion(self, text: str) -> str:
        """Return the suggestion. The document executor removes it if suggestions are off."""
        return text

    def _resolve(self, path: FieldPath) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the names along a path, and the types of the value at its end."""
        if (
            path.entity != self._entity.type_name
            or not path.location
            or path.location[0] not in self._entity.properties
        ):
            return path.location, ()
        first, *others = path.location
        names, types = resolve_client_path(self._entity.model.model_fields[first].annotation, others)
        return [self._naming.property_name(first), *names], types


@contextmanager
def localized_errors(names: NameResolver) -> Iterator[None]:
    """Raise errors from the block with the names of another audience."""
    try:
        yield
    except ShardQLError as problem:
        raise problem.localized(names) from problem
