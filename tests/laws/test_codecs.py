"""Laws of every scalar codec: order, injectivity, and round trips of each representation."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs import Codec, Date, DateTime, DecimalNumber, Duration, Float64, Uuid
from graphql_api.codecs.key_ranges import (
    SEP,
    join_segments,
    key_segment,
    split_segments,
    successor,
)
from graphql_api.codecs.text_codecs import escape_text, unescape_text
from graphql_api.errors import InvalidValue
from tests.laws.key_strategies import VALUES, plain_order, related_texts, several, texts

each_codec = pytest.mark.parametrize("codec", list(VALUES), ids=repr)
each_fixed_codec = pytest.mark.parametrize("codec", [codec for codec in VALUES if codec.fixed_width], ids=repr)


def order(one: Any, other: Any) -> int:
    """Compares plain values: -1, 0 or 1."""
    return int(one > other) - int(one < other)


@each_codec
@given(data=st.data())
def test_byte_order_is_value_order(codec: Codec[Any], data: st.DataObject) -> None:
    """The UTF-8 bytes of encoded values compare as the values do, and are equal only for equal values."""
    values = data.draw(several(codec))
    for one in values:
        for other in values:
            assert order(codec.encode(one).encode(), codec.encode(other).encode()) == plain_order(one, other)


@each_codec
@given(data=st.data())
def test_decode_reverses_encode(codec: Codec[Any], data: st.DataObject) -> None:
    """`decode` reverses `encode` and restores the type of the value."""
    value = data.draw(VALUES[codec])
    decoded = codec.decode(codec.encode(value))
    assert decoded == value
    assert type(decoded) is type(value)


@each_codec
@given(data=st.data())
def test_encodings_contain_no_separator(codec: Codec[Any], data: st.DataObject) -> None:
    """Encoded values contain neither the segment separator nor NUL."""
    encoded = codec.encode(data.draw(VALUES[codec]))
    assert not {"\x00", "\x01"} & set(encoded)
    assert split_segments(join_segments([key_segment("a", encoded), "b"])) == [("a", encoded), ("b", None)]


@each_codec
@given(data=st.data(), other=texts(max_size=3))
def test_decode_rejects_texts_that_encode_no_value(codec: Codec[Any], data: st.DataObject, other: str) -> None:
    """`decode` rejects every text that is not the encoding of a value."""
    encoded = codec.encode(data.draw(VALUES[codec]))
    at = data.draw(st.integers(0, len(encoded)))
    for changed in (encoded[:at] + other + encoded[at:], encoded[:at] + other + encoded[at + 1 :], encoded[:at], other):
        try:
            decoded = codec.decode(changed)
        except InvalidValue:
            continue
        assert codec.encode(decoded) == changed


@each_fixed_codec
@given(data=st.data())
def test_complement_reverses_the_order(codec: Codec[Any], data: st.DataObject) -> None:
    """Encodings of a fixed-width codec have one length; their complements sort in reverse order and complement back."""
    one, other = data.draw(several(codec, 2, 2))
    first, second = codec.encode(one), codec.encode(other)
    assert len(first) == len(second) == len(codec.complement(first))
    assert order(codec.complement(first).encode(), codec.complement(second).encode()) == plain_order(other, one)
    assert codec.complement(codec.complement(first)) == first


@each_codec
@given(data=st.data())
def test_load_reverses_store(codec: Codec[Any], data: st.DataObject) -> None:
    """`load` reverses `store`, even if the engine returns whole numbers as Decimal or decimals as int."""
    value = data.draw(VALUES[codec])
    stored = codec.store(value)
    assert codec.load(stored) == value
    assert type(codec.load(stored)) is type(value)
    is_number = isinstance(stored, int | Decimal) and not isinstance(stored, bool)
    assert is_number == (codec.stored_type == "number")
    if is_number:
        assert codec.load(Decimal(stored)) == value
        assert codec.load(Decimal(f"{Decimal(stored):E}")) == value
        if stored == int(stored):
            assert codec.load(int(stored)) == value


@each_codec
@given(data=st.data())
def test_parse_reverses_format(codec: Codec[Any], data: st.DataObject) -> None:
    """`parse` reverses `format`, and only equal values have equal formatted texts."""
    value, other = data.draw(several(codec, 2, 2))
    assert codec.parse(codec.format(value)) == value
    assert (codec.format(value) == codec.format(other)) == (value == other)


@each_codec
@given(data=st.data(), text=texts())
def test_parse_returns_a_value_or_raises_invalid_value(codec: Codec[Any], data: st.DataObject, text: str) -> None:
    """`parse` returns a value that can be stored, or raises `InvalidValue`, for any text."""
    try:
        value = codec.parse(data.draw(st.one_of(st.just(text), st.text(max_size=8), st.text("0123456789+-.eETPSZ:"))))
    except InvalidValue:
        return
    assert codec.load(codec.store(value)) == value


ORDERED_AS_STORED: tuple[Callable[[], Codec[Any]], ...] = (Date, DateTime, Uuid, Duration, Float64, DecimalNumber)


@pytest.mark.parametrize("codec", [make() for make in ORDERED_AS_STORED], ids=repr)
@given(data=st.data())
def test_stored_order_is_value_order(codec: Codec[Any], data: st.DataObject) -> None:
    """Stored ISO texts and stored numbers sort as their values do, so raw indexes over them are in order."""
    one, other = data.draw(several(codec, 2, 2))
    first, second = codec.store(one), codec.store(other)
    assert order(first, second) == plain_order(one, other)


# --- segments --------------------------------------------------------------------------------------------------


@given(related_texts())
def test_escaping_keeps_order_and_prefixes(given_texts: list[str]) -> None:
    """Escaping keeps the order and the prefixes of texts, and `unescape_text` reverses it."""
    for one in given_texts:
        assert unescape_text(escape_text(one)) == one
        for other in given_texts:
            assert order(escape_text(one).encode(), escape_text(other).encode()) == order(one.encode(), other.encode())
            assert escape_text(one).startswith(escape_text(other)) == one.startswith(other)


@given(st.lists(st.tuples(st.sampled_from(["a", "ab", "userId"]), st.none() | texts()), min_size=1, max_size=4))
def test_split_reverses_join(parts: list[tuple[str, str | None]]) -> None:
    """Splitting a range value returns the joined names and encoded values; null and empty text stay distinct."""
    encoded = [(name, None if value is None else escape_text(value)) for name, value in parts]
    assert split_segments(join_segments(key_segment(name, value) for name, value in encoded)) == encoded


ENDS = ["", SEP, "\ud7ff", "\uffff", "\U0010ffff", "\U0010ffff\U0010ffff"]


@given(related_texts(), st.sampled_from(ENDS))
def test_successor_is_the_end_of_a_prefix_range(given_texts: list[str], end_of_prefix: str) -> None:
    """The texts with a prefix are exactly those from the prefix to below its successor."""
    prefix, *others = given_texts
    prefix += end_of_prefix
    end = successor(prefix)
    for text in (*others, prefix, prefix + "\U0010ffff", *([end] if end else [])):
        within = prefix.encode() <= text.encode() and (end is None or text.encode() < end.encode())
        assert within == text.startswith(prefix)


FOREIGN_VALUES: list[Any] = [True, 7, 10**30, "x", "2024-01-01", Decimal("1.5"), Decimal(7), Decimal("1E+200"), b"x"]


@each_codec
@given(data=st.data())
def test_columns_convert_as_single_values_do(codec: Codec[Any], data: st.DataObject) -> None:
    """`column_to_json` converts as `load` and `to_json` do, and refuses the same stored values."""
    stored = data.draw(st.lists(st.none() | VALUES[codec].map(codec.store), max_size=4))
    stored += data.draw(st.lists(st.sampled_from(FOREIGN_VALUES), max_size=1))
    try:
        expected = [None if one is None else codec.to_json(codec.load(one)) for one in stored]
    except InvalidValue:
        with pytest.raises(InvalidValue):
            codec.column_to_json(stored)
    else:
        found = [*codec.column_to_json(stored)]
        assert found == expected
        assert [*map(type, found)] == [*map(type, expected)]
