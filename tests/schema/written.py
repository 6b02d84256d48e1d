"""Values and operations as a client of GraphQL writes them."""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from graphql_api.codecs import EnumCodec, Float64, Int32, Text, Timestamp, TimestampMs
from graphql_api.codecs.scalar_codec import Codec


class Bare(str):
    """A name that stands in a document without quotes: a member of an enum."""

    __slots__ = ()


def written(codec: Codec[Any], value: Any) -> Any:
    """A value of a property as it goes into an argument."""
    if value is None or isinstance(value, bool) or isinstance(codec, Text | Float64 | Int32 | Timestamp | TimestampMs):
        return value
    if isinstance(value, Enum):
        return Bare(value.name)
    return codec.format(value)


def read(codec: Codec[Any], value: Any) -> Any:
    """A value of a property as it comes in an answer."""
    if value is None:
        return None
    if isinstance(codec, EnumCodec):
        return codec.enum_class[value]
    if isinstance(codec, Float64):
        return float(value)
    return codec.parse(value) if isinstance(value, str) else codec.check(value)


def literal(value: Any) -> str:
    """A value in the text of a document."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {literal(part)}' for name, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, Bare) else json.dumps(value, ensure_ascii=False)


def document(
    field: str, types: Mapping[str, Any], given: Mapping[str, Any], selection: str, kind: str = "query"
) -> str:
    """An operation that gives its arguments by variables of the same names."""
    head = ", ".join(f"${name}: {types[name]}" for name in given)
    call = _call(field, {name: f"${name}" for name in given}, selection)
    return f"{kind} {f'({head}) ' if head else ''}{{ answer: {call} }}"


def inline(field: str, given: Mapping[str, Any], selection: str, kind: str = "query") -> str:
    """The same operation with everything in its text."""
    return f"{kind} {{ answer: {_call(field, {name: literal(value) for name, value in given.items()}, selection)} }}"


def _call(field: str, arguments: Mapping[str, str], selection: str) -> str:
    inside = ", ".join(f"{name}: {value}" for name, value in arguments.items())
    return f"{field}{f'({inside})' if inside else ''} {selection}"


def selection_of(names: Sequence[str]) -> str:
    """A page with everything that it can tell, and these fields of its records."""
    fields = " ".join(names)
    return (
        f"{{ items {{ {fields} }} nextToken edges {{ cursor node {{ {fields} }} }} complete stoppedBy "
        "pageInfo { hasNextPage hasPreviousPage startCursor endCursor } "
        "shards { expected answered failed { shard code retryable } } }"
    )
