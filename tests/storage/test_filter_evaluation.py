"""Filters of the storage port: their evaluation, and the part that an engine can evaluate."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.storage.filter_evaluation import (
    ATTRIBUTE_OPERATIONS,
    are_comparable,
    filter_matches,
    keep_supported_tests,
)
from graphql_api.storage.values import AllOf, AnyOf, AttributeTest, StoreFilter
from tests.store_contract.filter_samples import ATTRIBUTES, EVERY_TYPE, filters, reference_match
from tests.support.run_depth import examples

ITEMS = st.fixed_dictionaries({}, optional=dict.fromkeys(ATTRIBUTES, EVERY_TYPE))


def attribute_test(attribute: str) -> AttributeTest:
    """A test of an attribute."""
    return AttributeTest(attribute, "eq", ("v",), or_missing=False)


A, B, X = attribute_test("a"), attribute_test("b"), attribute_test("x")


@examples(300)
@given(filter=filters(EVERY_TYPE), item=ITEMS)
def test_filters_match_the_reference_implementation(filter: StoreFilter, item: dict[str, Any]) -> None:
    """A filter matches the same items as the reference implementation."""
    assert filter_matches(filter, item) == reference_match(filter, item)


@examples(300)
@given(filter=filters(EVERY_TYPE), item=ITEMS, supported=st.sets(st.sampled_from(ATTRIBUTES)))
def test_a_pushdown_filter_keeps_all_matching_records(
    filter: StoreFilter, item: dict[str, Any], supported: set[str]
) -> None:
    """A record that matches a filter also matches its pushdown filter, whatever tests are supported."""
    pushdown = keep_supported_tests(filter, ATTRIBUTE_OPERATIONS, lambda test: test.attribute in supported)
    assert pushdown is None or filter_matches(pushdown, item) or not filter_matches(filter, item)


PUSHDOWN_CASES: dict[str, tuple[StoreFilter, StoreFilter | None]] = {
    "a supported test": (A, A),
    "an unsupported test": (X, None),
    "some parts of all": (AllOf((A, X, B)), AllOf((A, B))),
    "no part of all": (AllOf((X, X)), None),
    "some alternatives of any": (AnyOf((A, X)), None),
    "all alternatives of any": (AnyOf((A, B)), AnyOf((A, B))),
    "any within all": (AllOf((AnyOf((A, X)), B)), AllOf((B,))),
    "all within any": (AnyOf((AllOf((A, X)), B)), AnyOf((AllOf((A,)), B))),
    "an unsupported alternative within any": (AnyOf((AllOf((X,)), B)), None),
    "an empty all": (AllOf(()), None),
    "an empty any": (AnyOf(()), None),
}


@pytest.mark.parametrize(("filter", "pushdown"), PUSHDOWN_CASES.values(), ids=PUSHDOWN_CASES.keys())
def test_pushdown_filters(filter: StoreFilter, pushdown: StoreFilter | None) -> None:
    """Unsupported parts of `AllOf` are dropped. `AnyOf` is dropped as a whole if an alternative is unsupported."""
    assert keep_supported_tests(filter, ATTRIBUTE_OPERATIONS, lambda test: test.attribute != "x") == pushdown


@pytest.mark.parametrize(
    ("values", "comparable"),
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
def test_comparable_values(values: tuple[Any, ...], comparable: bool) -> None:
    """Texts, numbers and bytes are comparable with values of their type. Booleans and null are not."""
    assert are_comparable(*values) == comparable


def test_unknown_operations() -> None:
    """An unknown operation is an error."""
    with pytest.raises(ValueError, match="'like'"):
        filter_matches(AttributeTest("a", "like", ("v",), or_missing=False), {"a": "v"})
