"""Check the values of search arguments and derive them as the stored values were derived."""

from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import Codec, short_repr
from graphql_api.errors import InvalidValue, PropertyName
from graphql_api.model import EntitySpec, PropertySpec


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value as the record stores it; no derivation applies to it."""

    value: Any


def search_value(entity: EntitySpec, part: PropertySpec, value: Any) -> Any:
    """Convert an argument to a value of the property's type, with the derivation that applies on write.

    If the property has another type than its source, values of its own type are accepted too.
    """
    if isinstance(value, StoredValue):
        return part.column.codec.check(value.value)
    if part.search_function is not None:
        source_codec, own_codec = entity.properties[part.sources[0]].codec, part.column.codec
        if source_codec is None:
            value = _derive(part, value) if _check_or_none(own_codec, value) is None else value
        elif source_codec == own_codec:
            value = _derive(part, source_codec.check(value))
        elif (source_value := _check_or_none(source_codec, value)) is not None:
            value = _derive(part, source_value)
    return part.column.codec.check(value)


def _check_or_none(codec: Codec[Any], value: Any) -> Any | None:
    try:
        return codec.check(value)
    except InvalidValue:
        return None


def _derive(part: PropertySpec, value: Any) -> Any:
    assert part.search_function is not None
    try:
        return part.search_function(value)
    except Exception as problem:
        raise InvalidValue(
            "{property} cannot be derived from {value} ({problem}): provide one that {source} can hold.",
            property=PropertyName(part.name),
            value=short_repr(value),
            problem=str(problem),
            source=PropertyName(part.sources[0]),
        ) from problem
