"""Composite ids as text: separators, escapes, prefixes, and refusal of invalid texts."""

import string
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs import (
    Codec,
    Date,
    DateTime,
    DecimalNumber,
    Duration,
    EnumCodec,
    Int64,
    Text,
    Uuid,
)
from graphql_api.codecs.composite_ids import (
    format_composite_id,
    parse_composite_id,
    parse_id_prefix,
    parse_leading_id_parts,
)
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import EmptyKey, InvalidValue, ShardQLError
from tests.laws.key_strategies import texts

SEPARATORS = sorted(set(string.punctuation) - {"%"})
"""the separators that catalogs accept"""


class Size(Enum):
    SMALL = "s/m"
    LARGE = "l%2F"


VALUES: dict[Codec[Any], st.SearchStrategy[Any]] = {
    Text(): texts(min_size=1),
    Int64(): st.integers(-(2**63), 2**63 - 1),
    DecimalNumber(): st.sampled_from([Decimal(text) for text in ("0", "-1.5", "1E+30", "0.001")]),
    Date(): st.dates(),
    DateTime(): st.datetimes(timezones=st.just(UTC)),
    Duration(): st.timedeltas(),
    Uuid(): st.uuids(),
    EnumCodec(Size): st.sampled_from(Size),
}


@st.composite
def composites(draw: st.DrawFn) -> tuple[list[Codec[Any]], list[Any]]:
    """The codecs of an id, and one value for each."""
    codecs = draw(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=4))
    return codecs, [draw(VALUES[codec]) for codec in codecs]


texts_with_escapes = st.text(alphabet="%25F/:a-", min_size=1, max_size=8)


@given(composite=composites(), separator=st.sampled_from(SEPARATORS))
def test_parsing_reverses_formatting(composite: tuple[list[Codec[Any]], list[Any]], separator: str) -> None:
    """Parsing a formatted id returns its values, with any separator."""
    codecs, parts = composite
    assert parse_composite_id(format_composite_id(parts, codecs, separator), codecs, separator) == parts


@given(
    parts=st.lists(texts_with_escapes, min_size=2, max_size=4),
    other=st.lists(texts_with_escapes, min_size=2, max_size=4),
)
def test_different_ids_have_different_texts(parts: list[str], other: list[str]) -> None:
    """Two ids have the same text only if their parts are equal, even if the parts contain separators and escapes."""
    codecs: list[Codec[Any]] = [Text()] * len(parts)
    formatted = format_composite_id(parts, codecs, "/")
    assert parse_composite_id(formatted, codecs, "/") == parts
    assert (formatted == format_composite_id(other, [Text()] * len(other), "/")) == (parts == other)


def test_single_part_is_not_escaped() -> None:
    """An id of a single part is not escaped."""
    assert format_composite_id(["a/b%2F"], [Text()], "/") == "a/b%2F"
    assert parse_composite_id("a/b%2F", [Text()], "/") == ["a/b%2F"]


def test_separators_in_parts_are_percent_encoded() -> None:
    """In ids of several parts, the separator and `%` are percent-encoded."""
    assert format_composite_id(["a/b", "50%"], [Text(), Text()], "/") == "a%2Fb/50%25"
    assert parse_composite_id("a%2Fb/50%25", [Text(), Text()], "/") == ["a/b", "50%"]
    assert format_composite_id(["a/b", "c:d"], [Text(), Text()], ":") == "a/b:c%3Ad"


@pytest.mark.parametrize(
    ("id_value", "codec", "value"),
    [
        ("42", Int64(), 42),
        (42, Int64(), 42),
        ("6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a", Uuid(), UUID("6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a")),
        (date(2026, 1, 31), Date(), date(2026, 1, 31)),
        ("2026-01-31", Date(), date(2026, 1, 31)),
        ("PT1S", Duration(), timedelta(seconds=1)),
        ("2026-01-31T12:00:00+02:00", DateTime(), datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_single_part_accepts_value_or_text(id_value: Any, codec: Codec[Any], value: Any) -> None:
    """An id of one part is accepted as a value, or as the text of a value."""
    assert parse_composite_id(id_value, [codec], "/") == [value]


@pytest.mark.parametrize(
    ("id_value", "error", "message"),
    [
        ("", EmptyKey, "give a non-empty string"),
        ("a", InvalidValue, "has 1 of 2 parts: write all of them, separated by '/'"),
        ("a/", EmptyKey, "has an empty part"),
        ("/5", EmptyKey, "has an empty part"),
        ("a/5/6", InvalidValue, "has 3 parts, and the id has 2: write a '/' within a part as '%2F'"),
        ("a/b", InvalidValue, "'b' is no int64. Write it like 42"),
        (5, InvalidValue, "5 is no string: write the 2 parts of the id as one string, separated by '/'"),
        (10**5000, InvalidValue, "as one string, separated by '/'"),
        (["a", 5], InvalidValue, "as one string, separated by '/'"),
        ("\ud800/5", InvalidValue, "lone surrogate"),
        ("x" * 5000, InvalidValue, "has 1 of 2 parts"),
    ],
    ids=short_repr,
)
def test_invalid_ids_are_refused(id_value: Any, error: type[ShardQLError], message: str) -> None:
    """An id with too few, too many, empty or invalid parts is refused, and the message says how to write it."""
    codecs: list[Codec[Any]] = [Text(), Text() if id_value == "a/" else Int64()]
    with pytest.raises(error) as caught:
        parse_composite_id(id_value, codecs, "/")
    assert message in caught.value.message
    assert len(caught.value.message) < 300


def test_leading_parts_are_parsed() -> None:
    """The leading parts of an id may be fewer than all parts; each one is complete."""
    codecs: list[Codec[Any]] = [Text(), Int64(), Text()]
    assert parse_leading_id_parts("a", codecs, "/") == ["a"]
    assert parse_leading_id_parts("a/5", codecs, "/") == ["a", 5]
    assert parse_leading_id_parts("a/5/b%2Fc", codecs, "/") == ["a", 5, "b/c"]
    with pytest.raises(InvalidValue, match="has 4 parts, and the id has 3"):
        parse_leading_id_parts("a/5/b/c", codecs, "/")


def test_id_prefix_has_complete_parts_and_a_text_prefix() -> None:
    """A prefix that ends with the separator consists of complete parts. Otherwise its last part is a text prefix."""
    codecs: list[Codec[Any]] = [Text(), Text(), Int64()]
    assert parse_id_prefix("", codecs, "/") == ([], "")
    assert parse_id_prefix("elec", codecs, "/") == ([], "elec")
    assert parse_id_prefix("electronics/", codecs, "/") == (["electronics"], "")
    assert parse_id_prefix("electronics/ph", codecs, "/") == (["electronics"], "ph")
    assert parse_id_prefix("a/b/", codecs, "/") == (["a", "b"], "")
    with pytest.raises(InvalidValue, match="only text supports prefixes"):
        parse_id_prefix("a/b/5", codecs, "/")


@given(
    junk=st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary(), st.lists(st.text())), data=st.data()
)
def test_any_input_is_parsed_or_refused(junk: Any, data: st.DataObject) -> None:
    """Any input is parsed as an id or refused with a `ShardQLError`; no other error occurs."""
    codecs = data.draw(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=3))
    for read in (parse_composite_id, parse_leading_id_parts, parse_id_prefix):
        try:
            read(junk, codecs, "/")
        except ShardQLError as problem:
            assert problem.message  # noqa: PT017 - most junk is refused, some is an id
