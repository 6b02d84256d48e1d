"""The stored body of a record: tags, sizes, and equality of values."""

import re
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.sqlite.table_layout import decode_range_value, encode_range_value, tie_breaker
from graphql_api.storage.item_rules import record_size, values_equal
from graphql_api.storage.record_body import decode_body, encode_body
from tests.store_contract.samples import NUMBERS


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("a\0é", "a\0é"),
        (True, True),
        (None, None),
        (2**63 - 1, 2**63 - 1),
        (2**63, {"N": "9223372036854775808"}),
        (Decimal("1.50"), {"N": "1.50"}),
        (b"\0\xff", {"B": "AP8="}),
        ([1, "a", [b""]], [1, "a", [{"B": ""}]]),
        ({"N": "no tag"}, {"M": {"N": "no tag"}}),
        (frozenset({"b", "a"}), {"SS": ["a", "b"]}),
        (frozenset({10, 9, Decimal("0.5")}), {"NS": ["0.5", "9", "10"]}),
        (frozenset({b"b", b"a"}), {"BS": ["YQ==", "Yg=="]}),
    ],
)
def test_tags(value: Any, stored: Any) -> None:
    """JSON types are stored unchanged. Other types and maps have a tag, so that no value is mistaken for a tag."""
    body = encode_body({"a": value})
    assert orjson.loads(body) == {"a": stored}
    assert decode_body(body) == {"a": value}


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("é", 2),
        (b"abc", 3),
        (True, 1),
        (None, 1),
        (0, 1),
        (7, 2),
        (-7, 3),
        (123456, 4),
        (1000, 2),
        (12340, 4),
        (Decimal("0.0012"), 2),
        (Decimal("1.5"), 3),
        (Decimal("-0.05"), 3),
        ([], 3),
        (["a", 1], 3 + 2 + 1 + 2),
        ({"ab": "c"}, 3 + 1 + 2 + 1),
        (frozenset({"ab", "c"}), 3),
    ],
)
def test_sizes(value: Any, size: int) -> None:
    """The size of a record is that of its names and values, by the rules of DynamoDB."""
    assert record_size({"name": value}) == len("name") + size


@given(
    st.recursive(st.none() | st.integers(0, 9) | st.just(""), lambda inner: st.lists(inner, max_size=20), max_leaves=99)
)
def test_body_is_at_least_half_as_long_as_the_size(value: Any) -> None:
    """The body of a record has at least half its size, so that the size of short bodies need not be computed."""
    item = {"a": value}
    assert len(encode_body(item)) * 2 >= record_size(item)


NUMBERS_OF_ALL_SIZES = st.integers(-(2**65), 2**65) | st.decimals(allow_nan=False, allow_infinity=False, places=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.text() | NUMBERS_OF_ALL_SIZES | st.binary() | st.frozensets(st.text(), min_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.text(min_size=1), VALUES, max_size=5))
def test_bodies_are_those_of_the_walk(item: dict[str, Any]) -> None:
    """An item whose values need no tags has the body that it has when each value is visited."""
    try:
        expected = encode_body(MappingProxyType(item))  # only the values of plain dictionaries are not visited
    except StoreRefused as problem:
        with pytest.raises(StoreRefused, match=re.escape(problem.message)):
            encode_body(item)
    else:
        assert encode_body(item) == expected


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, Decimal("1.0"), True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, False, False),
        ("1", 1, False),
        ("a", b"a", False),
        ([1, True], [1, 1], False),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": Decimal(1)}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"b": 1}, False),
        (frozenset({1}), frozenset({Decimal(1)}), True),
        (frozenset({"a"}), ["a"], False),
    ],
)
def test_equality(one: Any, other: Any, equal: bool) -> None:
    """Values are equal only within their type. A boolean never equals a number."""
    assert values_equal(one, other) is equal
    assert values_equal(other, one) is equal


@given(NUMBERS, NUMBERS)
def test_encoded_numbers(one: Any, other: Any) -> None:
    """Encoded numbers have the order of the numbers and decode to equal numbers, as int if they are whole."""
    first, second = encode_range_value(one), encode_range_value(other)
    assert (first < second, first == second) == (one < other, one == other)
    decoded = decode_range_value(first, "N")
    assert decoded == one
    assert isinstance(decoded, int) == (one == int(one))


@given(st.tuples(*[st.binary(max_size=3)] * 4))
def test_tie_breakers(parts: tuple[bytes, bytes, bytes, bytes]) -> None:
    """Two records never tie."""
    one, other = parts[:2], parts[2:]
    assert (tie_breaker(*one) == tie_breaker(*other)) == (one == other)
    assert len(tie_breaker(*one)) == 16
