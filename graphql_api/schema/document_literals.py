"""Literals of GraphQL documents, and example values of scalars."""

import json
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, Literal

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLScalarType,
)

from graphql_api.codecs import (
    Boolean,
    Codec,
    Date,
    DateTime,
    DecimalNumber,
    EnumCodec,
    Float64,
    Int32,
    Int64,
    Text,
    Timestamp,
    TimestampMs,
)
from graphql_api.model import NAME_PATTERN, camel_case, value_of

EXAMPLE_YEAR = 2024
"""Year of the example time ranges."""

_FIRST_SECOND, _LAST_SECOND = 1_704_067_200, 1_735_689_599

ValueKind = Literal["text", "time", "number", "other"]


def value_kind(codec: Codec[Any] | None) -> ValueKind:
    """Classify a property by the example that suits its order: a prefix, the newest records, or a range."""
    match codec:
        case Text():
            return "text"
        case Timestamp() | TimestampMs() | Date() | DateTime():
            return "time"
        case Int32() | Int64() | Float64() | DecimalNumber():
            return "number"
    return "other"


def scalar_literal(codec: Codec[Any], value: Any) -> str:
    """Format a scalar value as a literal."""
    if isinstance(codec, EnumCodec):
        return str(value.name)
    if isinstance(codec, Boolean | Int32 | Int64 | Timestamp | TimestampMs | Float64):
        return json.dumps(value)
    return json.dumps(codec.format(value), ensure_ascii=False)


def example_range(codec: Codec[Any]) -> tuple[str, str]:
    """Return the literals of two bounds that are likely to enclose the values of a property."""
    match codec:
        case Timestamp():
            return str(_FIRST_SECOND), str(_LAST_SECOND)
        case TimestampMs():
            return f"{_FIRST_SECOND}000", f"{_LAST_SECOND}999"
        case Date():
            return f'"{EXAMPLE_YEAR}-01-01"', f'"{EXAMPLE_YEAR}-12-31"'
        case DateTime():
            return f'"{EXAMPLE_YEAR}-01-01T00:00:00Z"', f'"{EXAMPLE_YEAR}-12-31T23:59:59Z"'
        case Int32() | Int64() | Float64():
            return "1", "1000"
        case DecimalNumber():
            return scalar_literal(codec, Decimal(1)), scalar_literal(codec, Decimal(1000))
    return '"a"', '"m"'


class NotRepresentable(ValueError):
    """A value has no GraphQL literal, because a key of a JSON object is not a GraphQL name."""


def input_literal(kind: GraphQLInputType, value: Any) -> str:
    """Format a Python value as a literal of an input type; models use the names of their GraphQL fields.

    Raise `NotRepresentable` if only a variable can hold the value.
    """
    if isinstance(kind, GraphQLNonNull):
        return input_literal(kind.of_type, value)
    if value is None:
        return "null"
    if isinstance(kind, GraphQLList):
        items = sorted(value, key=repr) if isinstance(value, AbstractSet) else value
        return f"[{', '.join(input_literal(kind.of_type, item) for item in items)}]"
    if isinstance(kind, GraphQLInputObjectType):
        values = {camel_case(name): value_of(value, name) for name in type(value).model_fields}
        present = {name: values[name] for name in kind.fields if values[name] is not None}
        return _object_literal((name, input_literal(kind.fields[name].type, item)) for name, item in present.items())
    assert isinstance(kind, GraphQLEnumType | GraphQLScalarType), "there is no other input type"
    serialized = kind.serialize(value)
    return str(serialized) if isinstance(kind, GraphQLEnumType) else _json_literal(serialized)


def _json_literal(value: Any) -> str:
    """Format JSON as a GraphQL literal, whose keys have no quotes."""
    if isinstance(value, dict):
        invalid_keys = [key for key in value if not NAME_PATTERN.fullmatch(key)]
        if invalid_keys:
            raise NotRepresentable(invalid_keys[0])
        return _object_literal((key, _json_literal(item)) for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_json_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _object_literal(fields: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{name}: {text}' for name, text in fields)}}}"
