"""Values in the wire format of DynamoDB."""

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.dynamodb.wire_format import (
    decode_item,
    decode_value,
    encode_item,
    encode_number,
    encode_value,
    max_wire_size,
)
from tests.store_contract.samples import NUMBERS


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("é\0", {"S": "é\0"}),
        ("", {"S": ""}),
        (True, {"BOOL": True}),
        (None, {"NULL": True}),
        (12, {"N": "12"}),
        (Decimal("1.50"), {"N": "15E-1"}),
        (10**38, {"N": "1E38"}),
        (Decimal("-0.00"), {"N": "0"}),
        (b"\0\xff", {"B": b"\0\xff"}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ({"b": 1, "a": None}, {"M": {"a": {"NULL": True}, "b": {"N": "1"}}}),
        (frozenset({"b", "a"}), {"SS": ["a", "b"]}),
        (frozenset({10, Decimal("0.5")}), {"NS": ["5E-1", "10"]}),
        (frozenset({b"b", b"a"}), {"BS": [b"a", b"b"]}),
    ],
)
def test_values(value: Any, wire: Any) -> None:
    """Every value is encoded under the name of its type, and decodes to the same value."""
    assert encode_value(value, "a") == wire
    assert decode_value(wire) == value


@given(NUMBERS)
def test_numbers(number: int | Decimal) -> None:
    """A number is sent with at most 38 digits and decodes to the same number, as an int if it is whole."""
    text = encode_number(number, "a")
    assert len(text.lstrip("-").partition("E")[0]) <= 38
    found = decode_value({"N": text})
    assert found == number
    assert isinstance(found, int) == (number == int(number))


def test_number_formats() -> None:
    """Whole numbers decode to int in every notation."""
    assert [decode_value({"N": text}) for text in ("1E+3", "-7", "2.0", "0.25")] == [1000, -7, 2, Decimal("0.25")]
    assert isinstance(decode_value({"N": "1E+3"}), int)


def test_equal_records_have_equal_encodings() -> None:
    """Equal records have equal encodings, so that a token matches a repeated transaction."""
    one = encode_item({"a": {"x": 1, "y": frozenset("abc")}, "b": Decimal("1.0")})
    other = encode_item({"b": 1, "a": {"y": frozenset("cba"), "x": Decimal(1)}})
    assert str(one) == str(other)


PARTS = st.one_of(st.text(), st.binary(), NUMBERS, st.booleans(), st.none())
VALUES = PARTS | st.lists(PARTS) | st.dictionaries(st.text(min_size=1), PARTS) | st.frozensets(st.binary(), min_size=1)


@given(st.dictionaries(st.text(min_size=1), VALUES), st.sampled_from([0, 60_000]))
def test_wire_size(values: dict[str, Any], repetitions: int) -> None:
    """The estimated size of a record is an upper bound, and exact for large records."""
    item = encode_item(values | ({"large": "é" * repetitions} if repetitions else {}))
    sent = len(json.dumps(item, default=lambda content: b64encode(content).decode()))
    assert max_wire_size(item) == sent if repetitions else max_wire_size(item) >= sent - len("{}")


def test_errors_name_the_attribute() -> None:
    """The error for an invalid value names its attribute."""
    with pytest.raises(StoreRefused, match="inner"):
        encode_item({"outer": {"inner": 1.5}})


def test_unknown_types() -> None:
    """An unknown type of the protocol is an error."""
    with pytest.raises(ValueError, match="'X'"):
        decode_item({"a": {"X": 1}})
