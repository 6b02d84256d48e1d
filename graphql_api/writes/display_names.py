"""Records and values as errors speak of them: as they are written outside, whatever they are in Python."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from graphql_api.codecs import shown
from graphql_api.errors import InvalidValue
from graphql_api.model import EntitySpec, PropertySpec


def record_name(entity: EntitySpec, values: Sequence[Any]) -> str:
    """A record by the values of its key, or the history of an id: `Line o-1/2026-01-31`."""
    texts = (_text(part, value) for part, value in zip(entity.primary, values, strict=False))
    return f"{entity.type_name} {'/'.join(texts)}".strip()


def value_told(part: PropertySpec, value: Any) -> str:
    """A value of a property; a text stands between quotes."""
    if value is None:
        return "null"
    if isinstance(value, Enum):
        return value.name
    return shown(value) if isinstance(value, str) else _text(part, value)


def _text(part: PropertySpec, value: Any) -> str:
    try:
        return part.column.codec.format(value)
    except InvalidValue:  # That it is of another type is told by whoever looks at it.
        return str(value)
