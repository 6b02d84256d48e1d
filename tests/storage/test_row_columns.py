"""Columns of rows: single attributes of several rows are those of the decoded records."""

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphql_api.storage import BodyFormat, Key, Row, encode_body
from graphql_api.storage.engines.dynamodb.wire_format import WIRE_FORMAT, encode_item
from graphql_api.storage.record_body import BODY_FORMAT, attributes_format
from graphql_api.storage.values import PLAIN

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=3),
    st.integers(-(10**37), 10**37),
    st.decimals(-1000, 1000, places=3).map(lambda number: number.normalize() + 0),
    st.binary(max_size=3),
)
sets = st.frozensets(st.text(min_size=1, max_size=3), min_size=1, max_size=2)
values = st.recursive(
    scalars | sets,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(min_size=1, max_size=2), inner, max_size=2),
    max_leaves=5,
)
NAMES = ("a", "b", "c")
items = st.lists(st.dictionaries(st.sampled_from(NAMES), values), max_size=4)


def columns(form: BodyFormat, bodies: list[Any]) -> dict[str, list[Any]]:
    """Return the columns of rows with these bodies."""
    read = Row.bodies([Row("", 0, Key("", ""), body, form) for body in bodies]).columns()
    return {name: read(name) for name in NAMES}


def typed(found: dict[str, list[Any]]) -> dict[str, list[tuple[type, Any]]]:
    """Return columns with the types of their values: 1 equals 1.0 and True."""
    return {name: [(type(value), value) for value in column] for name, column in found.items()}


@given(records=items)
def test_columns_are_those_of_decoded_records(records: list[dict[str, Any]]) -> None:
    """All formats of rows give the columns of the decoded records, with None for a missing attribute."""
    for form, encode in ((BODY_FORMAT, encode_body), (WIRE_FORMAT, encode_item), (PLAIN, lambda item: item)):
        bodies: list[Any] = [encode(item) for item in records]
        decoded = [form.decode(body) for body in bodies]
        expected = {name: [item.get(name) for item in decoded] for name in NAMES}
        assert typed(columns(form, bodies)) == typed(expected)


@given(records=items)
def test_columns_of_a_projection(records: list[dict[str, Any]]) -> None:
    """A projected format has only the attributes of its projection."""
    found = columns(attributes_format({"a", "b"}), [*map(encode_body, records)])
    assert found["c"] == [None] * len(records)
    assert typed(found)["a"] == typed(columns(BODY_FORMAT, [*map(encode_body, records)]))["a"]


def test_rows_of_several_formats() -> None:
    """Rows of several indexes may differ in their format."""
    rows = [
        Row("", 0, Key("", ""), {"a": 1}),
        Row("", 0, Key("", ""), encode_body({"a": Decimal("1.5")}), BODY_FORMAT),
    ]
    assert Row.bodies(rows).columns()("a") == [1, Decimal("1.5")]
    assert Row.bodies([]).columns()("a") == []
