"""What an argument asks for: a value of the property's type, derived as the stored one was."""

from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import Codec, shown
from graphql_api.errors import InvalidValue
from graphql_api.model import EntitySpec, PropertySpec


@dataclass(frozen=True, slots=True)
class Final:
    """A value as the record holds it: nothing is derived from it any more."""

    value: Any


def searched_value(entity: EntitySpec, part: PropertySpec, value: Any) -> Any:
    """A value of the property's type; what was derived on write is derived here too.

    Where the property is of another type than its source, its own values may be asked for as well.
    """
    if isinstance(value, Final):
        return part.column.codec.check(value.value)
    if part.searched is not None:
        source, own = entity.properties[part.sources[0]].codec, part.column.codec
        if source is None:
            value = _derived(part, value) if _if_fitting(own, value) is None else value
        elif source == own:
            value = _derived(part, source.check(value))
        elif (of_source := _if_fitting(source, value)) is not None:
            value = _derived(part, of_source)
    return part.column.codec.check(value)


def _if_fitting(codec: Codec[Any], value: Any) -> Any | None:
    try:
        return codec.check(value)
    except InvalidValue:
        return None


def _derived(part: PropertySpec, value: Any) -> Any:
    assert part.searched is not None
    try:
        return part.searched(value)
    except Exception as problem:
        raise InvalidValue(
            f"{part.name} cannot be derived from {shown(value)} ({problem}): give one that {part.sources[0]} can hold."
        ) from problem
