"""Lines are parsed alike with and without pydantic: equal records, equal set properties, equal errors."""

import json
from decimal import Decimal
from math import inf
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from graphql_api import Catalog, Created, Entity, Id, Int32, Timestamp, Updated, Version, canonical, derived, generated
from graphql_api.errors import ShardQLError
from graphql_api.model import EntitySpec, plain_record_maker
from graphql_api.ops import line_parser
from graphql_api.ops.line_parser import LineParser
from tests.support.run_depth import examples


class Plain(Entity):
    """Has properties of all types that JSON holds, with and without defaults."""

    plain_id: Id[str]
    created: Created[Timestamp]
    count: int
    small: Int32 | None = 5
    height: float | None = None
    active: bool = True
    name: str
    name_canonical: str = derived(canonical, "name")


class Stamped(Entity):
    """Has properties that the server sets, and a property that is no JSON type."""

    stamped_id: Id[str] = generated()
    updated: Updated[Timestamp]
    version: Version[Int32]
    price: Decimal | None = None
    note: str = ""


CATALOG = Catalog(Plain, Stamped)
PLAIN, STAMPED = CATALOG.entity(Plain), CATALOG.entity(Stamped)
NUMBERS = (
    "0.0",
    "-0.0",
    "1e-500",
    "1e400",
    "1.0",
    "1e2",
    "18446744073709551616",
    "-9223372036854775809",
    "1.10",
    "NaN",
)
VALUES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3)
    | st.sampled_from(["\ud800", "é", [], {}, [1]])
)  # fmt: skip
GOOD: dict[str, Any] = {"plainId": "p", "created": 7, "count": 1, "name": "Nä"}
NAMES = [*GOOD, "small", "height", "active", "nameCanonical", "unknown"]


def outcome(parser: LineParser, text: bytes) -> Any:
    """Return everything that shows of a parsed record, or of the error."""
    try:
        record = parser.parse(text)
    except ShardQLError as problem:
        return type(problem), problem.message
    hidden = record.__pydantic_extra__, record.__pydantic_private__
    return type(record), [*vars(record).items()], record.model_fields_set, hidden, repr(record)


def assert_parsed_alike(entity: EntitySpec, text: bytes) -> None:
    """Compare what both ways of parsing a line return."""
    assert outcome(LineParser(entity), text) == outcome(LineParser(entity, by_model=True), text), text


@examples(quick=150, deep=5_000)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3), st.booleans())
def test_lines_are_parsed_as_by_the_model(changes: dict[str, Any], escaped: bool) -> None:
    """Whatever a line holds, the fast path parses it as pydantic does, or leaves it to pydantic."""
    text = json.dumps(GOOD | changes, ensure_ascii=escaped).encode(errors="surrogatepass")
    assert_parsed_alike(PLAIN, text)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", ["count", "small", "height", "name", "active"])
def test_numbers_are_parsed_as_by_the_model(name: str, number: str) -> None:
    """Numbers that JSON libraries read differently have one result: very small, very large, whole or not."""
    assert_parsed_alike(PLAIN, json.dumps(GOOD | {name: "@"}).replace('"@"', number).encode())


@pytest.mark.parametrize(
    "text",
    [
        b'\xef\xbb\xbf{"plainId": "p", "created": 1, "count": 2, "name": "n"}',
        b'{"plainId": "p", "plainId": "q", "created": 1, "count": 2, "name": "n"}',
        b'{"plainId": "p", "created": 1, "count": 2, "name": "\xff"}',
        b"[1]",
        b"{",
        b"[" * 100_000,
    ],
)
def test_texts_are_parsed_as_by_the_model(text: bytes) -> None:
    """A byte order mark, a repeated name, invalid UTF-8, and what is no object have one result."""
    assert_parsed_alike(PLAIN, text)


@pytest.mark.parametrize("line", [{"stampedId": "s"}, {"stampedId": "s", "version": 3, "note": "x"}, {"price": 1.10}])
def test_server_values_do_not_count_as_set(line: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties that a line lacks and the server sets have their values, and do not count as set."""
    monkeypatch.setattr(line_parser, "system_clock", lambda: 1_800_000_000.0)
    text = json.dumps({"stampedId": "s"} | line).encode()
    assert_parsed_alike(STAMPED, text)
    assert "updated" not in LineParser(STAMPED).parse(text).model_fields_set


def test_usual_lines_need_no_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines with the declared types take the fast path."""
    monkeypatch.setattr(LineParser, "_parse_by_model", lambda *_: pytest.fail("pydantic is needed"))
    record: Any = LineParser(PLAIN).parse(json.dumps(GOOD | {"height": 1.5, "small": None}).encode())
    assert (record.height, record.name_canonical, record.active) == (1.5, "na", True)


@examples(quick=100, deep=3_000)
@given(st.dictionaries(st.sampled_from([part.name for part in PLAIN.properties.values()]), VALUES, max_size=3))
def test_records_are_made_as_by_the_model(changes: dict[str, Any]) -> None:
    """Records of values in Python are made as pydantic makes them, or left to pydantic."""
    values = {"plain_id": "p", "created": 7, "count": 1, "name": "n"} | changes
    made = plain_record_maker(PLAIN).make(values)
    if made is not None:
        expected = Plain.model_validate(values)
        assert ([*vars(made).items()], made.model_fields_set) == ([*vars(expected).items()], expected.model_fields_set)


class Checked(Entity):
    """Has a property that only pydantic can validate."""

    checked_id: Id[str]
    count: Annotated[int, Field(ge=0)]


def test_properties_with_constraints_need_pydantic() -> None:
    """Records with constraints, unknown names, missing values or values of other types are left to pydantic."""
    checked = Catalog(Checked).entity(Checked)
    assert plain_record_maker(checked).make({"checked_id": "c", "count": 1}) is None
    good = {"plain_id": "p", "created": 1, "count": 1, "name": "n"}
    assert plain_record_maker(PLAIN).make(good) == Plain(plain_id="p", created=1, count=1, name="n")
    for change in ({"height": inf}, {"height": 1}, {"count": None}, {"created": True}, {"unknown": 1}):
        assert plain_record_maker(PLAIN).make(good | change) is None
    assert plain_record_maker(PLAIN).make({"plain_id": "p"}) is None
