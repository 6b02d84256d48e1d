"""Laws of every scalar's codec: order, injectivity, and the way back from each of its forms."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs import Codec, Date, DateTime, DecimalNumber, Duration, Float64, Uuid
from graphql_api.codecs.key_segments import (
    SEP,
    escape_text,
    join_segments,
    key_segment,
    split_segments,
    successor,
    unescape_text,
)
from graphql_api.errors import InvalidValue
from tests.laws.strategies import VALUES, plain_order, related_texts, several, texts

each_codec = pytest.mark.parametrize("codec", list(VALUES), ids=repr)
each_fixed_codec = pytest.mark.parametrize("codec", [codec for codec in VALUES if codec.fixed_width], ids=repr)


def order(one: Any, other: Any) -> int:
    """-1, 0 or 1, as plain values compare."""
    return int(one > other) - int(one < other)


@each_codec
@given(data=st.data())
def test_byte_order_is_value_order(codec: Codec[Any], data: st.DataObject) -> None:
    """Encoded values compare by UTF-8 bytes as the values do, and are equal exactly if the values are."""
    values = data.draw(several(codec))
    for one in values:
        for other in values:
            assert order(codec.encode(one).encode(), codec.encode(other).encode()) == plain_order(one, other)


@each_codec
@given(data=st.data())
def test_decode_reverses_encode(codec: Codec[Any], data: st.DataObject) -> None:
    """A value comes back from its encoding, in the type it has."""
    value = data.draw(VALUES[codec])
    decoded = codec.decode(codec.encode(value))
    assert decoded == value
    assert type(decoded) is type(value)


@each_codec
@given(data=st.data())
def test_encodings_are_safe_inside_a_range_value(codec: Codec[Any], data: st.DataObject) -> None:
    """No encoded value holds what separates segments, nor NUL."""
    encoded = codec.encode(data.draw(VALUES[codec]))
    assert not {"\x00", "\x01"} & set(encoded)
    assert split_segments(join_segments([key_segment("a", encoded), "b"])) == [("a", encoded), ("b", None)]


@each_codec
@given(data=st.data(), other=texts(max_size=3))
def test_decode_refuses_every_other_text(codec: Codec[Any], data: st.DataObject, other: str) -> None:
    """A text is refused by `decode` unless it is the encoding of what it decodes to."""
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
    """Fixed-width encodings all have one length; their complements sort backwards and complement back."""
    one, other = data.draw(several(codec, 2, 2))
    first, second = codec.encode(one), codec.encode(other)
    assert len(first) == len(second) == len(codec.complement(first))
    assert order(codec.complement(first).encode(), codec.complement(second).encode()) == plain_order(other, one)
    assert codec.complement(codec.complement(first)) == first


@each_codec
@given(data=st.data())
def test_load_reverses_store(codec: Codec[Any], data: st.DataObject) -> None:
    """A value comes back from the record, also where the engine gives whole numbers as Decimal or decimals as int."""
    value = data.draw(VALUES[codec])
    stored = codec.store(value)
    assert codec.load(stored) == value
    assert type(codec.load(stored)) is type(value)
    is_number = isinstance(stored, int | Decimal) and not isinstance(stored, bool)
    assert is_number == codec.stores_number
    if is_number:
        assert codec.load(Decimal(stored)) == value
        assert codec.load(Decimal(f"{Decimal(stored):E}")) == value
        if stored == int(stored):
            assert codec.load(int(stored)) == value


@each_codec
@given(data=st.data())
def test_parse_reverses_format(codec: Codec[Any], data: st.DataObject) -> None:
    """A value comes back from its outside text, and equal values have one outside text."""
    value, other = data.draw(several(codec, 2, 2))
    assert codec.parse(codec.format(value)) == value
    assert (codec.format(value) == codec.format(other)) == (value == other)


@each_codec
@given(data=st.data(), text=texts())
def test_parse_gives_a_value_or_refuses(codec: Codec[Any], data: st.DataObject, text: str) -> None:
    """Whatever text comes from outside, it is a value that can be stored or a typed error."""
    try:
        value = codec.parse(data.draw(st.one_of(st.just(text), st.text(max_size=8), st.text("0123456789+-.eETPSZ:"))))
    except InvalidValue:
        return
    assert codec.load(codec.store(value)) == value


ORDERED_AS_STORED: tuple[Callable[[], Codec[Any]], ...] = (Date, DateTime, Uuid, Duration, Float64, DecimalNumber)


@pytest.mark.parametrize("codec", [make() for make in ORDERED_AS_STORED], ids=repr)
@given(data=st.data())
def test_stored_order_is_value_order(codec: Codec[Any], data: st.DataObject) -> None:
    """Stored ISO text and stored numbers sort as the values do, so raw indexes over them are in order."""
    one, other = data.draw(several(codec, 2, 2))
    first, second = codec.store(one), codec.store(other)
    assert order(first, second) == plain_order(one, other)


# --- segments --------------------------------------------------------------------------------------------------


@given(related_texts())
def test_enc_keeps_order_and_prefixes(given_texts: list[str]) -> None:
    """Escaped text sorts as the text does, starts with what the text starts with, and unescapes to it."""
    for one in given_texts:
        assert unescape_text(escape_text(one)) == one
        for other in given_texts:
            assert order(escape_text(one).encode(), escape_text(other).encode()) == order(one.encode(), other.encode())
            assert escape_text(one).startswith(escape_text(other)) == one.startswith(other)


@given(st.lists(st.tuples(st.sampled_from(["a", "ab", "userId"]), st.none() | texts()), min_size=1, max_size=4))
def test_split_reverses_join(parts: list[tuple[str, str | None]]) -> None:
    """Names and encoded values come back from a range value, nulls as nulls and empty texts as empty texts."""
    encoded = [(name, None if value is None else escape_text(value)) for name, value in parts]
    assert split_segments(join_segments(key_segment(name, value) for name, value in encoded)) == encoded


ENDS = ["", SEP, "\ud7ff", "\uffff", "\U0010ffff", "\U0010ffff\U0010ffff"]


@given(related_texts(), st.sampled_from(ENDS))
def test_successor_parts_prefixed_from_later(given_texts: list[str], end_of_prefix: str) -> None:
    """What starts with a prefix is exactly what lies from the prefix to below its successor."""
    prefix, *others = given_texts
    prefix += end_of_prefix
    end = successor(prefix)
    for text in (*others, prefix, prefix + "\U0010ffff", *([end] if end else [])):
        within = prefix.encode() <= text.encode() and (end is None or text.encode() < end.encode())
        assert within == text.startswith(prefix)
