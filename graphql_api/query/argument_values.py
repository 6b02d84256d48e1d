"""Convert arguments to values of properties, derived as the stored values were, and to primary keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import Codec, RecordKey, encode_tuple, parse_composite_id, short_repr
from graphql_api.errors import (
    ConflictingArguments,
    EmptyKey,
    InvalidValue,
    MissingArgument,
    PropertyName,
    UnknownArgument,
    about,
    nearest,
)
from graphql_api.model import EntitySpec, PropertySpec, check_key_entity
from graphql_api.query.search_request import PYTHON_NAMES, NamingScheme

MAX_DERIVED_CHARACTERS = 10_000
"""Characters of a text from which a search derives the value to look for."""


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


def search_values(entity: EntitySpec, part: PropertySpec, values: Sequence[Any]) -> list[Any]:
    """Convert several arguments as `search_value` does."""
    if part.search_function is not None or StoredValue in map(type, values):
        return [search_value(entity, part, value) for value in values]
    return [*map(part.column.codec.check, values)]


def _check_or_none(codec: Codec[Any], value: Any) -> Any | None:
    try:
        return codec.check(value)
    except InvalidValue:
        return None


def _derive(part: PropertySpec, value: Any) -> Any:
    assert part.search_function is not None
    if isinstance(value, str) and len(value) > MAX_DERIVED_CHARACTERS:
        raise InvalidValue(
            "{property} is derived from a text of {found:,} characters, and at most {limit:,} are allowed: shorten it.",
            property=PropertyName(part.name),
            limit=MAX_DERIVED_CHARACTERS,
            found=len(value),
        )
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


def refuse_empty_key(argument: str, value: Any) -> None:
    """Raise EmptyKey if a value of a key is an empty text."""
    if value == "":
        raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)


def parse_id(spec: EntitySpec, id: Any) -> Sequence[Any]:
    """Return the values of the id properties in an id; a record key holds stored values."""
    if not spec.ids:
        raise UnknownArgument(f"{spec.type_name} has no id, because it is a singleton: omit id.", argument="id")
    with about("id"):
        if isinstance(id, RecordKey):
            check_key_entity(spec, id)
            return [*map(StoredValue, id.ids)]
        return parse_composite_id(id, [part.column.codec for part in spec.ids], spec.separator)


def parse_primary_key(spec: EntitySpec, id: Any, parts: Mapping[str, Any], naming: NamingScheme) -> list[Any]:
    """Return the values of a primary key, from an id and from parts by argument.

    If no sub id is provided, the values end before the sub ids.
    """
    remaining = dict(parts)
    key_arguments = [naming.key_argument(part.name) for part in spec.primary_key]
    if id is None and "id" not in key_arguments:
        id = remaining.pop("id", None)
    values: list[Any] = []
    if isinstance(id, RecordKey):
        check_key_entity(spec, id)
        values = [*id.ids, *id.children]
        _remove_repeated(spec, values, remaining, key_arguments)
    elif id is not None:
        with about("id"):
            values = [search_value(spec, part, text) for part, text in zip(spec.ids, parse_id(spec, id), strict=True)]
    from_id = len(values)
    for part, argument in zip(spec.primary_key[from_id:], key_arguments[from_id:], strict=True):
        if argument not in remaining:
            if part in spec.sub_ids and not any(name in parts for name in key_arguments[len(spec.ids) :]):
                break
            raise MissingArgument(f"{spec.type_name} is identified by its {argument}: provide it.", argument=argument)
        with about(argument):
            values.append(search_value(spec, part, remaining.pop(argument)))
    if remaining:
        argument = next(iter(remaining))
        if argument in key_arguments:
            raise ConflictingArguments(
                f"{argument} is part of the id, which is provided too: provide one of the two.", argument=argument
            )
        raise UnknownArgument(
            f"{spec.type_name} is identified by {', '.join(key_arguments)}, not by {argument!r}."
            f"{nearest(argument, key_arguments)}",
            argument=argument,
        )
    if naming is not PYTHON_NAMES:
        _check_key(spec, values, ["id"] * from_id + key_arguments[from_id : len(values)])
    return values


def parse_complete_key(spec: EntitySpec, id: Any) -> list[Any]:
    """Return all values of a primary key, from an id as one text or a tuple of its parts.

    If no sub id is provided, the key names the current record of the id.
    """
    if not isinstance(id, tuple):
        values = parse_primary_key(spec, id, {}, PYTHON_NAMES)
    else:
        if len(id) > len(spec.primary_key):
            raise UnknownArgument(f"{spec.type_name} has a key of {len(spec.primary_key)} parts, not of {len(id)}.")
        parts = {part.name: value for part, value in zip(spec.primary_key, id, strict=False)}
        values = parse_primary_key(spec, None, parts, PYTHON_NAMES)
    if len(values) < len(spec.primary_key):
        if spec.current is None:
            raise _missing_sub_id(spec)
        values.append(spec.current)
    return values


def parse_written_key(spec: EntitySpec, id: Any, parts: Mapping[str, Any]) -> list[Any]:
    """Return all values of the primary key of a record to write."""
    values = parse_primary_key(spec, id, parts, PYTHON_NAMES)
    if len(values) < len(spec.primary_key):
        raise _missing_sub_id(spec)
    return values


def _missing_sub_id(spec: EntitySpec) -> MissingArgument:
    missing = spec.sub_ids[0].name
    return MissingArgument(
        f"{spec.type_name} has several records for each id: provide {missing} too.", argument=missing
    )


def _remove_repeated(
    spec: EntitySpec, values: Sequence[Any], remaining: dict[str, Any], key_arguments: Sequence[str]
) -> None:
    """Remove the arguments that repeat a value of the record key; refuse any other value."""
    for part, argument, value in zip(spec.primary_key, key_arguments, values, strict=True):
        with about(argument):
            if argument in remaining and search_value(spec, part, remaining.pop(argument)) != value:
                raise ConflictingArguments(
                    f"{argument} differs from the record key in id: omit {argument}.", argument=argument
                )


def _check_key(spec: EntitySpec, values: Sequence[Any], sources: Sequence[str]) -> None:
    """Refuse values that cannot form a key; the error names the argument.

    Python callers get the same errors when the key is encoded; those name the property.
    """
    for value, argument in zip(values, sources, strict=True):
        refuse_empty_key(argument, value)
    if values:
        longest = max(zip(values, sources, strict=True), key=lambda pair: len(str(pair[0])))[1]
        with about(longest):
            encode_tuple([part.column for part in spec.primary_key[: len(values)]], values)
