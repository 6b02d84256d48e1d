"""The values of a primary key out of what was given as an id: by a search for one record, or a write."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import RecordKey, encode_tuple, split_outside
from graphql_api.errors import ConflictingArguments, EmptyKey, MissingArgument, UnknownArgument, about, nearest
from graphql_api.model import EntitySpec, check_names
from graphql_api.query.argument_names import PYTHON, Dialect
from graphql_api.query.search_values import searched_value


def primary_values(spec: EntitySpec, id: Any, parts: Mapping[str, Any], dialect: Dialect) -> list[Any]:
    """The values of a primary key, out of an id and parts by argument; without its sub ids if none of them is given."""
    left = dict(parts)
    known = [dialect.key_part(part.name) for part in spec.primary]
    if id is None and "id" not in known:
        id = left.pop("id", None)
    values: list[Any] = []
    given_as: list[str] = []
    if isinstance(id, RecordKey):
        check_names(spec, id)
        values, given_as = [*id.ids, *id.children], ["id"] * len(known)
        left = _without_repeated(spec, values, left, known)
    elif id is not None and not spec.ids:
        raise UnknownArgument(f"{spec.type_name} has no id, since there is one of it: leave id out.", argument="id")
    elif id is not None:
        with about("id"):
            parts_of_id = split_outside(id, [part.column.codec for part in spec.ids], spec.separator)
            values = [searched_value(spec, part, value) for part, value in zip(spec.ids, parts_of_id, strict=True)]
            given_as = ["id"] * len(values)
    for at, part in enumerate(spec.primary[len(values) :], len(values)):
        argument = known[at]
        if argument not in left:
            if part in spec.sub_ids and not any(name in parts for name in known[len(spec.ids) :]):
                break
            raise MissingArgument(f"{spec.type_name} is found by its {argument}: give it.", argument=argument)
        with about(argument):
            values.append(searched_value(spec, part, left.pop(argument)))
            given_as.append(argument)
    if left:
        wrong = next(iter(left))
        if wrong in known:
            raise ConflictingArguments(
                f"{wrong} is part of the id, which is given too: give one of the two.", argument=wrong
            )
        raise UnknownArgument(
            f"{spec.type_name} is found by {', '.join(known)}, not by {wrong!r}.{nearest(wrong, known)}", argument=wrong
        )
    if dialect is not PYTHON:
        _check_key(spec, values, given_as)
    return values


def whole_key(spec: EntitySpec, id: Any) -> list[Any]:
    """All values of a primary key, out of an id as one text, or a tuple of its parts."""
    if not isinstance(id, tuple):
        values = primary_values(spec, id, {}, PYTHON)
    else:
        if len(id) > len(spec.primary):
            raise UnknownArgument(f"{spec.type_name} has a key of {len(spec.primary)} parts, not of {len(id)}.")
        parts = {part.name: value for part, value in zip(spec.primary, id, strict=False)}
        values = primary_values(spec, None, parts, PYTHON)
    if len(values) < len(spec.primary):
        if spec.current is None:
            missing = spec.sub_ids[0].name
            raise MissingArgument(f"{spec.type_name} has several records an id: give {missing} too.", argument=missing)
        values.append(spec.current)
    return values


def written_key(spec: EntitySpec, id: Any, parts: Mapping[str, Any]) -> list[Any]:
    """All values of the primary key of a record that is to be written."""
    values = primary_values(spec, id, parts, PYTHON)
    if len(values) < len(spec.primary):
        missing = spec.sub_ids[0].name
        raise MissingArgument(f"{spec.type_name} has several records an id: give {missing} too.", argument=missing)
    return values


def _without_repeated(
    spec: EntitySpec, values: Sequence[Any], parts: Mapping[str, Any], known: Sequence[str]
) -> dict[str, Any]:
    """What is given beside a record key, without that which says the same once more."""
    left = dict(parts)
    for part, argument, value in zip(spec.primary, known, values, strict=True):
        with about(argument):
            if argument in left and searched_value(spec, part, left.pop(argument)) != value:
                raise ConflictingArguments(
                    f"{argument} is another one than in the record key that id is: leave it out.", argument=argument
                )
    return left


def _check_key(spec: EntitySpec, values: Sequence[Any], given_as: Sequence[str]) -> None:
    """Refuses by its argument what could be no key; in Python the id has none, and the property is told of later."""
    for value, argument in zip(values, given_as, strict=True):
        if value == "":
            raise EmptyKey(f"{argument} is empty, and empty keys hold no records: give a text.", argument=argument)
    if values:
        with about(max(zip(values, given_as, strict=True), key=lambda given: len(str(given[0])))[1]):
            encode_tuple([part.column for part in spec.primary[: len(values)]], values)
