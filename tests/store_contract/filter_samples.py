"""Strategies for filters and attribute values, and a reference implementation of filters."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Item, StoreFilter

ATTRIBUTES = ("color", "size")
OPERATIONS = ("eq", "in", "between", "lt", "le", "gt", "ge", "prefix", "contains")
ORDERED = ("lt", "le", "gt", "ge")

TEXTS = st.text("ab\0é\U0001f600", max_size=2)
NUMBERS = st.integers(-2, 2) | st.sampled_from([Decimal("0.5"), Decimal("-1.50"), 10**37, Decimal("1E+100")])
OCTETS = st.binary(max_size=2)
PLAIN = TEXTS | NUMBERS | OCTETS
EVERY_TYPE = st.one_of(
    st.none(),
    st.booleans(),
    PLAIN,
    st.lists(PLAIN, max_size=2),
    st.dictionaries(st.sampled_from("xy"), PLAIN, max_size=2),
    st.frozensets(TEXTS.filter(bool), min_size=1, max_size=2),
    st.frozensets(NUMBERS, min_size=1, max_size=2),
    st.frozensets(OCTETS.filter(bool), min_size=1, max_size=2),
)


# --- the reference implementation --------------------------------------------------------------------------------


def reference_match(filter: StoreFilter, item: Item) -> bool:
    """Return whether an item matches a filter. Independent of the implementation."""
    if isinstance(filter, AllOf):
        return all(reference_match(part, item) for part in filter.parts)
    if isinstance(filter, AnyOf):
        return any(reference_match(part, item) for part in filter.parts)
    if filter.attribute not in item:
        return filter.or_missing
    value, operation, operands = item[filter.attribute], filter.operation, filter.values
    if operation in ("eq", "in"):
        return any(with_type(value) == with_type(operand) for operand in operands)
    if operation == "contains" and isinstance(value, list | frozenset):
        return any(with_type(part) == with_type(operands[0]) for part in value)
    if {type_name(value), *map(type_name, operands)} not in ({"text"}, {"number"}, {"bytes"}):
        return False
    first, last = operands[0], operands[-1]
    match operation:
        case "prefix":
            return type_name(value) != "number" and bool(value[: len(first)] == first)
        case "contains":
            return type_name(value) == "text" and value.find(first) >= 0
        case "between":
            return bool(first <= value <= last)
    return bool({"lt": value < first, "le": value <= first, "gt": value > first, "ge": value >= first}[operation])


def type_name(value: Any) -> str:
    """Return the ordered type of a value, or `unordered`."""
    if isinstance(value, bool):
        return "unordered"
    return {str: "text", int: "number", Decimal: "number", bytes: "bytes"}.get(type(value), "unordered")


def with_type(value: Any) -> Any:
    """Return a form of a value that equals another only if both have the same type."""
    if isinstance(value, list):
        return "list", [with_type(part) for part in value]
    if isinstance(value, dict):
        return "map", {name: with_type(part) for name, part in value.items()}
    return type_name(value) if type_name(value) != "unordered" else type(value), value


def filters(values: st.SearchStrategy[Any], attributes: Sequence[str] = ATTRIBUTES) -> st.SearchStrategy[StoreFilter]:
    """Filters with every operation, nested in `AllOf` and `AnyOf`."""
    names, missing = st.sampled_from(attributes), st.booleans()
    tests = st.one_of(
        st.builds(AttributeTest, names, st.just("eq"), st.tuples(values), missing),
        st.builds(AttributeTest, names, st.just("in"), st.lists(values, max_size=3).map(tuple), missing),
        st.builds(AttributeTest, names, st.sampled_from((*ORDERED, "prefix", "contains")), st.tuples(values), missing),
        st.builds(AttributeTest, names, st.just("between"), st.tuples(values, values), missing),
    )
    return st.recursive(
        tests,
        lambda nested: (
            st.builds(AllOf, st.lists(nested, max_size=3).map(tuple))
            | st.builds(AnyOf, st.lists(nested, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )
