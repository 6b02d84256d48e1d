"""Evaluation of the port's filters, and the part of a filter that an engine can push down."""

import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from graphql_api.storage.item_rules import is_number, values_equal
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Item, RangeRead, StoreFilter

T = TypeVar("T")

Operands = tuple[Any, ...]
Operation = Callable[[Any, Operands], bool]


def filter_matches(filter: StoreFilter, item: Item) -> bool:
    """Return whether a record matches. Values of different types are neither equal nor ordered."""
    match filter:
        case AllOf(parts):
            return all(filter_matches(part, item) for part in parts)
        case AnyOf(parts):
            return any(filter_matches(part, item) for part in parts)
        case AttributeTest(attribute, operation, values, or_missing):
            if operation not in ATTRIBUTE_OPERATIONS:
                raise ValueError(f"Unknown operation {operation!r}.")
            return ATTRIBUTE_OPERATIONS[operation](item[attribute], values) if attribute in item else or_missing


def keep_supported_tests(
    filter: StoreFilter | None, operations: Container[str], can_test: Callable[[AttributeTest], bool]
) -> StoreFilter | None:
    """Return the part of a filter that an engine with these operations can test, or None if there is none.

    The result matches every record that the whole filter matches.
    """
    if filter is None:
        return None
    if isinstance(filter, AttributeTest):
        return filter if filter.operation in operations and can_test(filter) else None
    kept = (keep_supported_tests(part, operations, can_test) for part in filter.parts)
    parts = tuple(part for part in kept if part is not None)
    if not parts or (isinstance(filter, AnyOf) and len(parts) < len(filter.parts)):
        return None
    return replace(filter, parts=parts)


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
        all(isinstance(value, str) for value in values)
        or all(map(is_number, values))
        or all(isinstance(value, bytes) for value in values)
    )


def _equals_any(value: Any, operands: Operands) -> bool:
    return any(values_equal(value, operand) for operand in operands)


def _ordered(holds: Callable[..., Any]) -> Operation:
    return lambda value, operands: are_comparable(value, *operands) and bool(holds(value, *operands))


def _contains(value: Any, operands: Operands) -> bool:
    if isinstance(value, list | frozenset):
        return any(values_equal(part, operands[0]) for part in value)
    return isinstance(value, str) and isinstance(operands[0], str) and operands[0] in value


ATTRIBUTE_OPERATIONS: Mapping[str, Operation] = {
    "eq": _equals_any,
    "in": _equals_any,
    "lt": _ordered(operator.lt),
    "le": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "ge": _ordered(operator.ge),
    "between": _ordered(lambda value, low, high: low <= value <= high),
    "prefix": _ordered(lambda value, start: isinstance(value, str | bytes) and value.startswith(start)),
    "contains": _contains,
}
"""The operations of `AttributeTest` and their meaning. An engine may support only some of them."""


def build_per_search(reads: Sequence[RangeRead], build: Callable[[RangeRead], T]) -> list[T]:
    """Return what `build` returns for each read. Reads of one search share filter and attributes, and the result."""
    built: list[T] = []
    for number, read in enumerate(reads):
        previous = reads[number - 1]
        is_shared = built and read.filter is previous.filter and read.attributes == previous.attributes
        built.append(built[-1] if is_shared else build(read))
    return built
