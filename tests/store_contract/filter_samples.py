"""Filters and values of attributes, and what a filter plainly means."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, Item, StoreFilter

ATTRIBUTES = ("color", "size")
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


# --- the plain meaning -----------------------------------------------------------------------------------------


def passes(filter: StoreFilter, item: Item) -> bool:
    """Whether a record passes, worked out from values alone."""
    if isinstance(filter, AllOf):
        return all(passes(part, item) for part in filter.parts)
    if isinstance(filter, AnyOf):
        return any(passes(part, item) for part in filter.parts)
    if filter.attribute not in item:
        return filter.or_missing
    value, operation, operands = item[filter.attribute], filter.operation, filter.values
    if operation in ("eq", "in"):
        return any(typed(value) == typed(operand) for operand in operands)
    if operation == "contains" and isinstance(value, list | frozenset):
        return any(typed(part) == typed(operands[0]) for part in value)
    if {kind(value), *map(kind, operands)} not in ({"text"}, {"number"}, {"octets"}):
        return False
    first, last = operands[0], operands[-1]
    match operation:
        case "prefix":
            return kind(value) != "number" and bool(value[: len(first)] == first)
        case "contains":
            return kind(value) == "text" and value.find(first) >= 0
        case "between":
            return bool(first <= value <= last)
    return bool({"lt": value < first, "le": value <= first, "gt": value > first, "ge": value >= first}[operation])


def kind(value: Any) -> str:
    """The type of a value, as far as types have an order."""
    if isinstance(value, bool):
        return "none"
    return {str: "text", int: "number", Decimal: "number", bytes: "octets"}.get(type(value), "none")


def typed(value: Any) -> Any:
    """A value that equals another one only if that is of its type."""
    if isinstance(value, list):
        return "list", [typed(part) for part in value]
    if isinstance(value, dict):
        return "map", {name: typed(part) for name, part in value.items()}
    return kind(value) if kind(value) != "none" else type(value), value


def filters(values: st.SearchStrategy[Any], attributes: Sequence[str] = ATTRIBUTES) -> st.SearchStrategy[StoreFilter]:
    """Filters of every operation, some within others."""
    names, missing = st.sampled_from(attributes), st.booleans()
    tests = st.one_of(
        st.builds(AttributeTest, names, st.just("eq"), st.tuples(values), missing),
        st.builds(AttributeTest, names, st.just("in"), st.lists(values, max_size=3).map(tuple), missing),
        st.builds(AttributeTest, names, st.sampled_from((*ORDERED, "prefix", "contains")), st.tuples(values), missing),
        st.builds(AttributeTest, names, st.just("between"), st.tuples(values, values), missing),
    )
    return st.recursive(
        tests,
        lambda inner: (
            st.builds(AllOf, st.lists(inner, max_size=3).map(tuple))
            | st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple))
        ),
        max_leaves=6,
    )
