"""Evaluation of the port's filters, and the part of a filter that an engine can push down."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from graphql_api.storage.item_rules import values_equal
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Item, StoreFilter


def filter_matches(filter: StoreFilter, item: Item) -> bool:
    """Return whether a record matches. Values of different types are neither equal nor ordered."""
    match filter:
        case AllOf(parts):
            return all(filter_matches(part, item) for part in parts)
        case AnyOf(parts):
            return any(filter_matches(part, item) for part in parts)
        case AttributeTest(attribute, operation, values, or_missing):
            if attribute not in item:
                return or_missing
            return _comparison_holds(item[attribute], operation, values)


def keep_supported_tests(filter: StoreFilter, can_test: Callable[[AttributeTest], bool]) -> StoreFilter | None:
    """Return the part of a filter that an engine can test, or None if there is none.

    The result matches every record that the whole filter matches.
    """
    match filter:
        case AttributeTest():
            return filter if can_test(filter) else None
        case AllOf(parts):
            testable = [part for part in (keep_supported_tests(each, can_test) for each in parts) if part is not None]
            return AllOf(tuple(testable)) if testable else None
        case AnyOf(parts):
            testable = [part for part in (keep_supported_tests(each, can_test) for each in parts) if part is not None]
            return AnyOf(tuple(testable)) if testable and len(testable) == len(parts) else None


def tested_attributes(filter: StoreFilter | None) -> frozenset[str]:
    """Return the attributes that a filter reads."""
    match filter:
        case None:
            return frozenset()
        case AttributeTest(attribute):
            return frozenset({attribute})
    return frozenset[str]().union(*map(tested_attributes, filter.parts))


def are_comparable(*values: Any) -> bool:
    """Return whether the values can be ordered: all are texts, all numbers, or all bytes."""
    return (
        all(isinstance(value, str) for value in values) or all(map(_is_number, values)) or all(map(_is_bytes, values))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, bytes)


def _comparison_holds(value: Any, operation: str, values: tuple[Any, ...]) -> bool:
    match operation:
        case "eq" | "in":
            return any(values_equal(value, other) for other in values)
        case "prefix":
            return are_comparable(value, *values) and isinstance(value, str | bytes) and value.startswith(values[0])
        case "contains" if isinstance(value, list | frozenset):
            return any(values_equal(part, values[0]) for part in value)
        case "contains":
            return isinstance(value, str) and isinstance(values[0], str) and values[0] in value
    if not are_comparable(value, *values):
        return False
    match operation:
        case "lt":
            return bool(value < values[0])
        case "le":
            return bool(value <= values[0])
        case "gt":
            return bool(value > values[0])
        case "ge":
            return bool(value >= values[0])
        case "between":
            return bool(values[0] <= value <= values[1])
    raise ValueError(f"Unknown comparison {operation!r}.")
