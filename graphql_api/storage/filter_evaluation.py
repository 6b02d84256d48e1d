"""What a filter of the port means, and what is left of one where not every test can be made."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from graphql_api.storage.item_rules import same
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Item, StoreFilter


def filter_matches(filter: StoreFilter, item: Item) -> bool:
    """Whether a record passes; values of different types neither are equal nor have an order."""
    match filter:
        case AllOf(parts):
            return all(filter_matches(part, item) for part in parts)
        case AnyOf(parts):
            return any(filter_matches(part, item) for part in parts)
        case AttributeTest(attribute, operation, values, or_missing):
            if attribute not in item:
                return or_missing
            return _passes(item[attribute], operation, values)


def weakened(filter: StoreFilter, can_test: Callable[[AttributeTest], bool]) -> StoreFilter | None:
    """A filter of only those tests that can be made, which holds wherever the whole one does; None: nothing is left."""
    match filter:
        case AttributeTest():
            return filter if can_test(filter) else None
        case AllOf(parts):
            left = [part for part in (weakened(each, can_test) for each in parts) if part is not None]
            return AllOf(tuple(left)) if left else None
        case AnyOf(parts):
            left = [part for part in (weakened(each, can_test) for each in parts) if part is not None]
            return AnyOf(tuple(left)) if left and len(left) == len(parts) else None


def tested_attributes(filter: StoreFilter | None) -> frozenset[str]:
    """The attributes that a filter looks at."""
    match filter:
        case None:
            return frozenset()
        case AttributeTest(attribute):
            return frozenset({attribute})
    return frozenset[str]().union(*map(tested_attributes, filter.parts))


def ordered_together(*values: Any) -> bool:
    """Whether values have an order among each other: texts, numbers or octets, of one kind."""
    return (
        all(isinstance(value, str) for value in values) or all(map(_is_number, values)) or all(map(_is_octets, values))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_octets(value: Any) -> bool:
    return isinstance(value, bytes)


def _passes(value: Any, operation: str, values: tuple[Any, ...]) -> bool:
    match operation:
        case "eq" | "in":
            return any(same(value, other) for other in values)
        case "prefix":
            return ordered_together(value, *values) and isinstance(value, str | bytes) and value.startswith(values[0])
        case "contains" if isinstance(value, list | frozenset):
            return any(same(part, values[0]) for part in value)
        case "contains":
            return isinstance(value, str) and isinstance(values[0], str) and values[0] in value
    if not ordered_together(value, *values):
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
    raise ValueError(f"There is no comparison {operation!r}.")
