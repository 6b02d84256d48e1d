"""Parse the id of a read or write into the values of a primary key."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import RecordKey, encode_tuple, parse_composite_id
from graphql_api.errors import ConflictingArguments, EmptyKey, MissingArgument, UnknownArgument, about, nearest
from graphql_api.model import EntitySpec, check_key_entity
from graphql_api.query.naming_scheme import PYTHON_NAMES, NamingScheme
from graphql_api.query.search_values import search_value


def parse_primary_key(spec: EntitySpec, id: Any, parts: Mapping[str, Any], naming: NamingScheme) -> list[Any]:
    """Return the values of a primary key, from an id and from parts by argument.

    If no sub id is provided, the values end before the sub ids.
    """
    remaining = dict(parts)
    key_arguments = [naming.key_argument(part.name) for part in spec.primary_key]
    if id is None and "id" not in key_arguments:
        id = remaining.pop("id", None)
    values: list[Any] = []
    sources: list[str] = []
    if isinstance(id, RecordKey):
        check_key_entity(spec, id)
        values, sources = [*id.ids, *id.children], ["id"] * len(key_arguments)
        remaining = _remove_repeated(spec, values, remaining, key_arguments)
    elif id is not None and not spec.ids:
        raise UnknownArgument(f"{spec.type_name} has no id, because it is a singleton: omit id.", argument="id")
    elif id is not None:
        with about("id"):
            texts = parse_composite_id(id, [part.column.codec for part in spec.ids], spec.separator)
            values = [search_value(spec, part, text) for part, text in zip(spec.ids, texts, strict=True)]
            sources = ["id"] * len(values)
    for at, part in enumerate(spec.primary_key[len(values) :], len(values)):
        argument = key_arguments[at]
        if argument not in remaining:
            if part in spec.sub_ids and not any(name in parts for name in key_arguments[len(spec.ids) :]):
                break
            raise MissingArgument(f"{spec.type_name} is identified by its {argument}: provide it.", argument=argument)
        with about(argument):
            values.append(search_value(spec, part, remaining.pop(argument)))
            sources.append(argument)
    if remaining:
        _refuse_remaining(spec, next(iter(remaining)), key_arguments)
    if naming is not PYTHON_NAMES:
        _check_key(spec, values, sources)
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


def _refuse_remaining(spec: EntitySpec, argument: str, key_arguments: Sequence[str]) -> None:
    if argument in key_arguments:
        raise ConflictingArguments(
            f"{argument} is part of the id, which is provided too: provide one of the two.", argument=argument
        )
    hint = nearest(argument, key_arguments)
    raise UnknownArgument(
        f"{spec.type_name} is identified by {', '.join(key_arguments)}, not by {argument!r}.{hint}", argument=argument
    )


def _remove_repeated(
    spec: EntitySpec, values: Sequence[Any], parts: Mapping[str, Any], key_arguments: Sequence[str]
) -> dict[str, Any]:
    """Remove the arguments that repeat a value of the record key; refuse any other value."""
    remaining = dict(parts)
    for part, argument, value in zip(spec.primary_key, key_arguments, values, strict=True):
        with about(argument):
            if argument in remaining and search_value(spec, part, remaining.pop(argument)) != value:
                raise ConflictingArguments(
                    f"{argument} differs from the record key in id: omit {argument}.", argument=argument
                )
    return remaining


def _check_key(spec: EntitySpec, values: Sequence[Any], sources: Sequence[str]) -> None:
    """Refuse values that cannot form a key; the error names the argument.

    Python callers get the same errors when the key is encoded; those name the property.
    """
    for value, argument in zip(values, sources, strict=True):
        if value == "":
            raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
    if values:
        longest = max(zip(values, sources, strict=True), key=lambda pair: len(str(pair[0])))[1]
        with about(longest):
            encode_tuple([part.column for part in spec.primary_key[: len(values)]], values)
