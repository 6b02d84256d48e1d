"""Values as they are written inside of a GraphQL document, and values that stand for any."""

import json
from decimal import Decimal
from typing import Any, Literal

from graphql_api.keys.codec import Codec
from graphql_api.keys.scalars import (
    Boolean,
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
