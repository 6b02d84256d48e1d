"""Values as they are written inside of a GraphQL document, and values that stand for any."""

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
from graphql_api.model import NAME, camel_case, value_of

YEAR = 2024
"""in which example ranges of time lie"""

_FIRST_SECOND, _LAST_SECOND = 1_704_067_200, 1_735_689_599

Kind = Literal["text", "time", "number", "other"]


def kind_of(codec: Codec[Any] | None) -> Kind:
    """What can be shown of a property's order: beginnings of texts, the newest of times, ranges of numbers."""
    match codec:
        case Text():
            return "text"
        case Timestamp() | TimestampMs() | Date() | DateTime():
            return "time"
        case Int32() | Int64() | Float64() | DecimalNumber():
            return "number"
    return "other"


def literal(codec: Codec[Any], value: Any) -> str:
    """A value of a scalar as an argument."""
    if isinstance(codec, EnumCodec):
        return str(value.name)
    if isinstance(codec, Boolean | Int32 | Int64 | Timestamp | TimestampMs | Float64):
        return json.dumps(value)
    return json.dumps(codec.format(value), ensure_ascii=False)


def example_range(codec: Codec[Any]) -> tuple[str, str]:
    """Two bounds that texts, times and numbers are likely to lie between, as arguments."""
    match codec:
        case Timestamp():
            return str(_FIRST_SECOND), str(_LAST_SECOND)
        case TimestampMs():
            return f"{_FIRST_SECOND}000", f"{_LAST_SECOND}999"
        case Date():
            return f'"{YEAR}-01-01"', f'"{YEAR}-12-31"'
        case DateTime():
            return f'"{YEAR}-01-01T00:00:00Z"', f'"{YEAR}-12-31T23:59:59Z"'
        case Int32() | Int64() | Float64():
            return "1", "1000"
        case DecimalNumber():
            return literal(codec, Decimal(1)), literal(codec, Decimal(1000))
    return '"a"', '"m"'


class NotInDocument(ValueError):
    """GraphQL has no notation for a value: keys of its objects are names."""


def input_literal(kind: GraphQLInputType, value: Any) -> str:
    """What Python has of a property, as an argument of this type; models go by the names of their fields.

    `NotInDocument`: only variables could hold it.
    """
    if isinstance(kind, GraphQLNonNull):
        return input_literal(kind.of_type, value)
    if value is None:
        return "null"
    if isinstance(kind, GraphQLList):
        items = sorted(value, key=repr) if isinstance(value, AbstractSet) else value
        return f"[{', '.join(input_literal(kind.of_type, item) for item in items)}]"
    if isinstance(kind, GraphQLInputObjectType):
        named = {camel_case(name): value_of(value, name) for name in type(value).model_fields}
        inside = {name: named[name] for name in kind.fields if named[name] is not None}
        return _object((name, input_literal(kind.fields[name].type, one)) for name, one in inside.items())
    assert isinstance(kind, GraphQLEnumType | GraphQLScalarType), "there is no other input type"
    said = kind.serialize(value)
    return str(said) if isinstance(kind, GraphQLEnumType) else _json_literal(said)


def _json_literal(value: Any) -> str:
    """JSON in GraphQL's notation, where keys stand without quotes."""
    if isinstance(value, dict):
        odd = [key for key in value if not NAME.fullmatch(key)]
        if odd:
            raise NotInDocument(odd[0])
        return _object((key, _json_literal(item)) for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_json_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _object(fields: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{name}: {text}' for name, text in fields)}}}"
