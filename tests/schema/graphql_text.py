"""GraphQL documents, literals and argument values."""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from graphql import GraphQLNonNull

from graphql_api.codecs import EnumCodec, Float64, Int32, Text, Timestamp, TimestampMs
from graphql_api.codecs.scalar_codec import Codec


class EnumName(str):
    """The name of an enum member, which a document contains without quotes."""

    __slots__ = ()


def argument_value(codec: Codec[Any], value: Any) -> Any:
    """Convert a property value to an argument value."""
    if value is None or isinstance(value, bool) or isinstance(codec, Text | Float64 | Int32 | Timestamp | TimestampMs):
        return value
    if isinstance(value, Enum):
        return EnumName(value.name)
    return codec.format(value)


def parse_value(codec: Codec[Any], value: Any) -> Any:
    """Convert a response value to a property value."""
    if value is None:
        return None
    if isinstance(codec, EnumCodec):
        return codec.enum_class[value]
    if isinstance(codec, Float64):
        return float(value)
    return codec.parse(value) if isinstance(value, str) else codec.check(value)


def literal(value: Any) -> str:
    """Return a value as a GraphQL literal."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {literal(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, EnumName) else json.dumps(value, ensure_ascii=False)


def document_with_variables(
    field: str, types: Mapping[str, Any], given: Mapping[str, Any], selection: str, kind: str = "query"
) -> str:
    """Return an operation that passes its arguments as variables of the same names."""
    head = ", ".join(f"${name}: {types[name]}" for name in given)
    call = _call(field, {name: f"${name}" for name in given}, selection)
    return f"{kind} {f'({head}) ' if head else ''}{{ answer: {call} }}"


def document_with_literals(field: str, given: Mapping[str, Any], selection: str, kind: str = "query") -> str:
    """Return an operation that passes its arguments as literals."""
    return f"{kind} {{ answer: {_call(field, {name: literal(value) for name, value in given.items()}, selection)} }}"


def _call(field: str, arguments: Mapping[str, str], selection: str) -> str:
    inside = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    return f"{field}{f'({inside})' if inside else ''} {selection}"


def needed_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a field needs: the required ones, and hash properties, which a list can replace."""
    listed = {name.removesuffix("_").removesuffix("In") for name in arguments if name.rstrip("_").endswith("In")}
    return [name for name, of in arguments.items() if isinstance(of, GraphQLNonNull) or name in listed]


def input_type(verb: str, entity: str) -> str:
    """Return the name of the input type of a mutation; a single delete has none."""
    return {"update": f"{entity}Patch", "delete": "DeleteInput"}.get(verb, f"{entity}Input")


def input_type_of(mutation: str) -> str:
    """Return the name of the input type of a mutation of one record: `createUser` has `UserInput`."""
    verb = next(verb for verb in ("create", "update", "put", "delete") if mutation.startswith(verb))
    return input_type(verb, mutation.removeprefix(verb))


def page_selection(names: Sequence[str]) -> str:
    """Return a selection of every field of a page, with these fields of its records."""
    fields = " ".join(names)
    return (
        f"{{ items {{ {fields} }} nextToken edges {{ cursor node {{ {fields} }} }} complete stoppedBy "
        "pageInfo { hasNextPage hasPreviousPage startCursor endCursor } "
        "shards { expected answered failed { shard code retryable } } }"
    )
