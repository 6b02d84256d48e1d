"""What a filter of the port means, and what is left of it where not every test can be made."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.storage.filter_evaluation import filter_matches, are_comparable, pushdown_filter
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, StoreFilter
from tests.depth import examples
from tests.store_contract.filter_samples import ATTRIBUTES, EVERY_TYPE, filters, passes

ITEMS = st.fixed_dictionaries({}, optional=dict.fromkeys(ATTRIBUTES, EVERY_TYPE))


def asks(attribute: str) -> AttributeTest:
    """A test of an attribute."""
    return AttributeTest(attribute, "eq", ("v",), or_missing=False)


A, B, X = asks("a"), asks("b"), asks("x")


@examples(300)
@given(filter=filters(EVERY_TYPE), item=ITEMS)
def test_a_filter_holds_where_its_plain_meaning_does(filter: StoreFilter, item: dict[str, Any]) -> None:
    """Values equal those of their type alone, and have an order among their kind; what is missing passes if so said."""
    assert filter_matches(filter, item) == passes(filter, item)


@examples(300)
@given(filter=filters(EVERY_TYPE), item=ITEMS, testable=st.sets(st.sampled_from(ATTRIBUTES)))
def test_what_is_left_of_a_filter_holds_wherever_it_does(
    filter: StoreFilter, item: dict[str, Any], testable: set[str]
) -> None:
    """A record that passes a filter passes what is left of it, whatever tests cannot be made."""
    left = pushdown_filter(filter, lambda test: test.attribute in testable)
    assert left is None or filter_matches(left, item) or not filter_matches(filter, item)


LEFT: dict[str, tuple[StoreFilter, StoreFilter | None]] = {
    "one that can be made": (A, A),
    "one that cannot": (X, None),
    "some of all": (AllOf((A, X, B)), AllOf((A, B))),
    "none of all": (AllOf((X, X)), None),
    "some of any": (AnyOf((A, X)), None),
    "each of any": (AnyOf((A, B)), AnyOf((A, B))),
    "any within all": (AllOf((AnyOf((A, X)), B)), AllOf((B,))),
    "all within any": (AnyOf((AllOf((A, X)), B)), AnyOf((AllOf((A,)), B))),
    "nothing within any": (AnyOf((AllOf((X,)), B)), None),
    "no part at all": (AllOf(()), None),
    "no alternative at all": (AnyOf(()), None),
}


@pytest.mark.parametrize(("filter", "left"), LEFT.values(), ids=LEFT.keys())
def test_what_is_left_of_a_filter(filter: StoreFilter, left: StoreFilter | None) -> None:
    """Of what must all hold the rest stays; alternatives stay together or go together."""
    assert pushdown_filter(filter, lambda test: test.attribute != "x") == left


@pytest.mark.parametrize(
    ("values", "ordered"),
    [
        (("a", "b"), True),
        ((1, Decimal("2.5")), True),
        ((b"a", b"b"), True),
        (("a", b"a"), False),
        ((1, "1"), False),
        ((1, True), False),
        ((None, None), False),
        (([], []), False),
    ],
)
def test_values_that_have_an_order(values: tuple[Any, ...], ordered: bool) -> None:
    """Texts, numbers and octets have an order among themselves; true and false have none."""
    assert are_comparable(*values) == ordered


def test_an_unknown_comparison() -> None:
    """A comparison that there is not is a mistake of the caller."""
    with pytest.raises(ValueError, match="'like'"):
        filter_matches(AttributeTest("a", "like", ("v",), or_missing=False), {"a": "v"})
