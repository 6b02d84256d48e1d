"""Predicate pushdown: translate the comparisons of a filter that engines evaluate exactly like this package."""

from collections.abc import Callable
from typing import Any

from graphql_api.codecs import Boolean, Codec, DecimalNumber, EnumCodec, Int32, Int64, Text, Timestamp, TimestampMs
from graphql_api.model import PropertySpec
from graphql_api.query.filters import ORDERED_OPERATORS, And, Filter, Not, Or, conjuncts
from graphql_api.storage import AllOf, AnyOf, AttributeTest, StoreFilter

PUSHED_OPERATORS = frozenset({"eq", "in", "prefix", "contains", *ORDERED_OPERATORS})
"""Operators that engines know (`AttributeTest`). All others are tested after the read."""
_CANONICAL_CODECS = (Text, Boolean, Int64, Int32, Timestamp, TimestampMs, DecimalNumber, EnumCodec)
"""Types with one stored form for equal values. Other writers may store values of other types in several forms."""


def store_filter(filter: Filter | None, has_default: Callable[[PropertySpec], bool]) -> StoreFilter | None:
    """Return a filter for the engine that matches at least all matches; parts that it cannot express are omitted."""
    parts = [pushed for part in conjuncts(filter) if (pushed := _push_down(part, has_default)) is not None]
    return None if not parts else parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _push_down(filter: Filter, has_default: Callable[[PropertySpec], bool]) -> StoreFilter | None:
    if isinstance(filter, Or):
        parts = [_push_down(part, has_default) for part in filter.parts]
        return None if None in parts or not parts else AnyOf(tuple(part for part in parts if part is not None))
    if isinstance(filter, And):
        return store_filter(filter, has_default)
    if isinstance(filter, Not) or filter.part.codec is None or filter.part.function is not None:
        return None
    codec = filter.part.codec
    if filter.operator not in PUSHED_OPERATORS or not isinstance(codec, _CANONICAL_CODECS):
        return None
    if filter.operator in ORDERED_OPERATORS and not _stored_order_is_value_order(codec):
        return None
    values = tuple(codec.store(value) for value in filter.values)
    return AttributeTest(filter.part.stored, filter.operator, values, or_missing=has_default(filter.part))


def _stored_order_is_value_order(codec: Codec[Any]) -> bool:
    return isinstance(codec, Text) or (codec.stores_number and not isinstance(codec, EnumCodec))
