"""Records as JSON lines: a load stores exactly what was exported."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api import Catalog, Entity, Id
from graphql_api.errors import InvalidValue
from graphql_api.model.record_codec import encode_record
from graphql_api.ops.line_parser import LineParser
from graphql_api.ops.record_lines import record_line
from graphql_api.storage import Item
from tests.model.test_record_codec import RECORDS, SPEC, with_decimals
from tests.support.run_depth import examples


class Loose(Entity):
    """A record with a property of any type, and one whose default is not null."""

    loose_id: Id[str]
    anything: Any = None
    count: int | None = 5


LOOSE = Catalog(Loose).entity(Loose)
LEAVES = (
    st.none() | st.booleans() | st.text(max_size=3) | st.binary(max_size=3) | st.integers(-(10**37), 10**37)
    | st.decimals(allow_nan=False, allow_infinity=False, places=30, min_value=-(10**7), max_value=10**7)
    | st.frozensets(st.text(max_size=2), min_size=1, max_size=3) | st.frozensets(st.binary(max_size=2), min_size=1)
    | st.frozensets(st.integers(-9, 9), min_size=1)
)  # fmt: skip
KEYS = st.text(max_size=2) | st.sampled_from(["$bytes", "$set", "$map", "$"])
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=6
)


def stored_by_load(spec: Any, line: bytes) -> Item:
    """Return the attributes that a load of a line stores."""
    return encode_record(spec, LineParser(spec).parse(line))


@examples(20, deep=3_000)
@given(RECORDS)
def test_a_load_stores_what_was_exported(record: Any) -> None:
    """Properties of all types keep their stored values, in lines that are the same after the load."""
    attributes = with_decimals(encode_record(SPEC, record))
    line = record_line(SPEC, attributes)
    loaded = with_decimals(stored_by_load(SPEC, line))
    assert loaded == attributes
    assert record_line(SPEC, loaded) == line


@examples(60, deep=5_000)
@given(ANYTHING)
def test_values_of_undeclared_types_keep_type_and_digits(value: Any) -> None:
    """Bytes, sets, maps that look like marks, and numbers of 38 digits are read back as they were stored."""
    try:
        attributes = encode_record(LOOSE, Loose(loose_id="a", anything=value))
    except InvalidValue:
        return  # It cannot be stored, such as a number of 39 digits.
    assert with_decimals(stored_by_load(LOOSE, record_line(LOOSE, attributes))) == with_decimals(attributes)


def test_null_is_written_where_it_is_not_the_default() -> None:
    """A load of a line without the property would store the default."""
    line = record_line(LOOSE, encode_record(LOOSE, Loose(loose_id="a", count=None)))
    assert json.loads(line) == {"looseId": "a", "count": None}


@pytest.mark.parametrize(
    "value", [{"$bytes": "%"}, {"$bytes": 1}, {"$set": "a"}, {"$set": [["a"]]}, {"$set": [{"a": 1}]}, {"$map": []}]
)
def test_invalid_marks_are_refused(value: Any) -> None:
    """The line is rejected with the mark, and nothing is guessed."""
    line = json.dumps({"looseId": "a", "anything": value}).encode()
    with pytest.raises(InvalidValue, match=r"\$"):
        LineParser(LOOSE).parse(line)


def test_maps_with_other_keys_are_plain() -> None:
    """Only a map with exactly one key, which is a mark, is taken for one."""
    value = {"$bytes": "%", "other": 1, "$ref": {"$id": "x"}}
    line = json.dumps({"looseId": "a", "anything": value}).encode()
    assert stored_by_load(LOOSE, line)["anything"] == value
