"""Records, properties and values as error messages show them: formatted as clients write them."""

from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeVar

from graphql_api.codecs import short_repr
from graphql_api.errors import InvalidValue, PropertyName, ShardQLError
from graphql_api.model import EntitySpec, PropertySpec

E = TypeVar("E", bound=ShardQLError)


def record_name(entity: EntitySpec, values: Sequence[Any]) -> str:
    """Return the name of a record by its primary key, or of a history by its id: `Line o-1/2026-01-31`."""
    texts = (_format(part, value) for part, value in zip(entity.primary_key, values, strict=False))
    return f"{entity.type_name} {'/'.join(texts)}".strip()


def property_name(entity: EntitySpec, part: PropertySpec) -> PropertyName:
    """Return a reference to a property with its entity: `Line.order_id`."""
    return PropertyName(part.name, entity.type_name)


def property_error(kind: type[E], template: str, entity: EntitySpec, part: PropertySpec, **arguments: Any) -> E:
    """Return an error about a property, which is also the argument to change, unless another one is provided."""
    arguments = {"argument": PropertyName(part.name), **arguments}
    return kind(template, property=property_name(entity, part), **arguments)


def format_value(part: PropertySpec, value: Any) -> str:
    """Return a value of a property, with quotes around texts."""
    if value is None:
        return "null"
    if isinstance(value, Enum):
        return value.name
    return short_repr(value) if isinstance(value, str) else _format(part, value)


def _format(part: PropertySpec, value: Any) -> str:
    try:
        return part.column.codec.format(value)
    except InvalidValue:  # The value has another type, which another check reports.
        return str(value)
