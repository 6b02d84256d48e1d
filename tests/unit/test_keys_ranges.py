"""Range values, ranges and hash keys by example: their exact text, and their limits."""

from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs import Boolean, Date, Int64, Text, Timestamp
from graphql_api.codecs.hash_keys import hash_key, parse_hash_key
from graphql_api.codecs.key_ranges import (
    Between,
    Column,
    Condition,
    Eq,
    KeyRange,
    Prefix,
    decode_tuple,
    encode_tuple,
    encoded_range,
    raw_range,
)
from graphql_api.codecs.key_segments import escape_text, successor, unescape_text
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong

LAST = Column("last", Text())
FIRST = Column("first", Text())
COUNT = Column("count", Int64(), descending=True)
USER = Column("userId", Text())
COLUMNS = (LAST, COUNT, USER)

ZERO = "90776627963145224191"
ONE = "90776627963145224190"


def test_a_range_value_is_its_segments() -> None:
    """A range value holds names and encoded values; a null is the bare name."""
    assert encode_tuple(COLUMNS, ("ann", 0, "u1")) == f"last#ann\x01|count#{ZERO}\x01|userId#u1"
    assert encode_tuple(COLUMNS, ("", None, "u1")) == "last#\x01|count\x01|userId#u1"


def test_no_columns_have_the_sentinel() -> None:
    """A singleton has no columns, and no key is empty."""
    assert encode_tuple((), ()) == "#"
    assert decode_tuple((), "#") == ()
    assert encoded_range((), ()) == KeyRange()


RANGES: list[tuple[list[Condition], KeyRange]] = [
    ([], KeyRange("last#", "last$", high_open=True)),
    ([Between()], KeyRange("last#", "last$", high_open=True)),
    ([Prefix("")], KeyRange("last#", "last$", high_open=True)),
    ([Eq("a")], KeyRange("last#a\x01|", "last#a\x01}")),
    ([Prefix("a")], KeyRange("last#a", "last#b", high_open=True)),
    ([Prefix("a\U0010ffff")], KeyRange("last#a\U0010ffff", "last#b", high_open=True)),
    ([Between("a", "b")], KeyRange("last#a", "last#b\x01}")),
    ([Between("a")], KeyRange("last#a", "last$", high_open=True)),
    ([Between(high="b")], KeyRange("last#", "last#b\x01}")),
    ([Eq("a"), Eq(None)], KeyRange("last#a\x01|count\x01|", "last#a\x01|count\x01}")),
    ([Eq("a"), Between(0, 1)], KeyRange(f"last#a\x01|count#{ONE}", f"last#a\x01|count#{ZERO}\x01}}")),
    ([Eq("a"), Between(low=1)], KeyRange("last#a\x01|count#", f"last#a\x01|count#{ONE}\x01}}")),
    (
        [Eq("a"), Between(high=1)],
        KeyRange(f"last#a\x01|count#{ONE}", "last#a\x01|count$", high_open=True),
    ),
    (
        [Eq("a"), Eq(0), Eq("u")],
        KeyRange(f"last#a\x01|count#{ZERO}\x01|userId#u", f"last#a\x01|count#{ZERO}\x01|userId#u"),
    ),
    (
        [Eq("a"), Eq(None), Prefix("u")],
        KeyRange("last#a\x01|count\x01|userId#u", "last#a\x01|count\x01|userId#v", high_open=True),
    ),
    (
        [Eq("a"), Eq(None), Between("u", "v")],
        KeyRange("last#a\x01|count\x01|userId#u", "last#a\x01|count\x01|userId#v"),
    ),
]


@pytest.mark.parametrize(("conditions", "expected"), RANGES, ids=str)
def test_conditions_become_one_range(conditions: list[Condition], expected: KeyRange) -> None:
    """Each condition is one range of key text, as docs/key-format.md lists them."""
    assert encoded_range(COLUMNS, conditions) == expected


RAW: list[tuple[Any, Condition | None, KeyRange]] = [
    (Text(), None, KeyRange()),
    (Text(), Eq("a"), KeyRange("a", "a")),
    (Text(), Prefix("a"), KeyRange("a", "b", high_open=True)),
    (Text(), Prefix("\U0010ffff"), KeyRange("\U0010ffff", None, high_open=True)),
    (Text(), Prefix(""), KeyRange()),
    (Text(), Between("", "b"), KeyRange(None, "b")),
    (Timestamp(), Between(5, None), KeyRange(5)),
    (Timestamp(), Between(None, 5), KeyRange(None, 5)),
]


@pytest.mark.parametrize(("codec", "condition", "expected"), RAW, ids=str)
def test_raw_conditions_become_ranges_of_stored_values(
    codec: Any, condition: Condition | None, expected: KeyRange
) -> None:
    """A raw index is searched by the values that stand in the records."""
    assert raw_range(codec, condition) == expected


def test_a_prefix_is_for_text_only() -> None:
    """A prefix of anything but text is refused, with the property and what to use instead."""
    with pytest.raises(InvalidValue, match=r"count: prefix requires text, and the type is int64.*Use eq"):
        encoded_range((COUNT, USER), [Prefix("1")])
    for prefix in ("", "2026"):
        with pytest.raises(InvalidValue, match="prefix requires text, and the type is date"):
            raw_range(Date(), Prefix(prefix))


def test_raw_keys_are_never_empty() -> None:
    """An empty text or a boolean is no key of a raw index."""
    for condition in (Eq(""), Between(None, "")):
        with pytest.raises(EmptyKey):
            raw_range(Text(), condition)
    with pytest.raises(TypeError, match="booleans"):
        raw_range(Boolean(), Eq(True))


def test_wrong_values_name_their_column() -> None:
    """A value that the column cannot hold is refused with the column's name."""
    with pytest.raises(InvalidValue, match=r"^count: str given where int64 is declared"):
        encode_tuple(COLUMNS, ("a", "0", "u"))
    with pytest.raises(InvalidValue, match=r"^last: .*lone surrogate"):
        encoded_range(COLUMNS, [Prefix("\udfff")])


def test_range_values_have_a_greatest_size() -> None:
    """A range value of 1,020 bytes fits, one byte more is a typed error, counted in bytes."""
    room = 1020 - len("userId#")
    assert len(encode_tuple((USER,), ("é" * (room // 2) + "e" * (room % 2),)).encode()) == 1020
    with pytest.raises(KeyTooLong, match="userId would have 1,021 bytes"):
        encode_tuple((USER,), ("é" * (room // 2) + "e" * (room % 2 + 1),))


def test_bounds_have_a_greatest_size() -> None:
    """A bound of 1,024 bytes fits, one byte more is a typed error, on encoded and raw indexes."""
    room = 1024 - len("last#")
    assert encoded_range(COLUMNS, [Prefix("a" * room)]).low == "last#" + "a" * room
    with pytest.raises(KeyTooLong, match="last would have 1,025 bytes"):
        encoded_range(COLUMNS, [Prefix("a" * (room + 1))])
    with pytest.raises(KeyTooLong, match="1,025"):
        encoded_range(COLUMNS, [Prefix("a" * (room - 3) + "\uffff")])
    assert raw_range(Text(), Eq("a" * 1024)).low == "a" * 1024
    with pytest.raises(KeyTooLong):
        raw_range(Text(), Eq("a" * 1025))


def test_mistakes_of_the_program_are_value_errors() -> None:
    """What no caller's input can cause is a ValueError: wrong counts, ranges before the end, descending text."""
    with pytest.raises(ValueError, match="2 values for 3 columns"):
        encode_tuple(COLUMNS, ("a", 0))
    with pytest.raises(ValueError, match="without its first column"):
        encode_tuple(COLUMNS, (None, 0, "u"))
    with pytest.raises(ValueError, match="only the last condition"):
        encoded_range(COLUMNS, [Prefix("a"), Eq(0)])
    with pytest.raises(ValueError, match="4 conditions for 3 columns"):
        encoded_range(COLUMNS, [Eq("a"), Eq(0), Eq("u"), Eq("v")])
    with pytest.raises(ValueError, match="no fixed width"):
        Column("a", Text(), descending=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "last#a",
        "last\x01|count\x01|userId#u",
        "last#a\x01|first\x01|userId#u",
        "last#a\x01|count#0\x01|userId#u",
    ],
)
def test_foreign_range_values_are_refused(text: str) -> None:
    """A text that is no range value of the columns is a typed error."""
    with pytest.raises(InvalidValue):
        decode_tuple(COLUMNS, text)


def test_ranges_hold_numbers_of_any_kind() -> None:
    """Bounds and values of int and Decimal compare by value; missing bounds are none."""
    assert KeyRange(1, Decimal("2.5")).contains(Decimal("2.50"))
    assert not KeyRange(1, Decimal("2.5"), high_open=True).contains(Decimal("2.50"))
    assert KeyRange().contains("anything")
    assert not KeyRange(low=3).is_empty
    assert KeyRange(3, 2).is_empty


def test_successor_skips_what_is_no_text() -> None:
    """Raising a code point skips the surrogates, drops what cannot be raised, and may find nothing."""
    assert successor("a\ud7ff") == "a\ue000"
    assert successor("a\uffff") == "a\U00010000"
    assert successor("a\U0010ffff\U0010ffff") == "b"
    assert successor("\U0010ffff") is None
    assert successor("") is None


@pytest.mark.parametrize("text", ["\x00", "\x01", "\x02", "a\x023", "\x02\x020", "\ud800"])
def test_dec_refuses_what_enc_never_makes(text: str) -> None:
    """A text that no value is encoded as is refused."""
    with pytest.raises(InvalidValue):
        unescape_text(text)


def test_enc_leaves_nearly_all_text_as_it_is() -> None:
    """Only three control characters are escaped."""
    text = "".join(map(chr, range(3, 0xD800)))
    assert escape_text(text) == text


# --- hash keys -------------------------------------------------------------------------------------------------


def test_hash_keys_read_like_their_parts() -> None:
    """A hash key holds head, shard and values; exactly five characters of values and tenants are escaped."""
    assert hash_key("email", "") == "email!"
    assert hash_key("user", "03", [("beneficiaryId", "b/1")]) == "user!03|beneficiaryId#b%2F1"
    assert (
        hash_key("user", "03", [("a", "%|#!/\x00é "), ("b", "")], "a|b") == "a%7Cb|user!03|a#%25%7C%23%21%2F\x00é |b#"
    )


def test_hash_keys_have_a_greatest_size() -> None:
    """A hash key of 2,048 bytes fits, one byte more is a typed error."""
    room = 2048 - len("user!03|a#")
    assert len(hash_key("user", "03", [("a", "x" * room)])) == 2048
    with pytest.raises(KeyTooLong, match=r"2,049 bytes.*Shorten a\."):
        hash_key("user", "03", [("a", "x" * (room + 1))])
    with pytest.raises(KeyTooLong, match="the tenant"):
        hash_key("user", "03", (), "x" * 2048)


def test_hash_keys_refuse_what_cannot_stand_in_them() -> None:
    """Lone surrogates and an empty tenant are typed errors; delimiters in names are mistakes of the program."""
    with pytest.raises(InvalidValue, match="lone surrogate"):
        hash_key("user", "", [("a", "\ud800")])
    with pytest.raises(InvalidValue, match="lone surrogate"):
        hash_key("user", "", (), "\ud800")
    with pytest.raises(EmptyKey, match="tenant"):
        hash_key("user", "", (), "")
    for head, shard, name in (("", "", "a"), ("us!er", "", "a"), ("user", "0|", "a"), ("user", "", "a#")):
        with pytest.raises(ValueError, match="unescaped"):
            hash_key(head, shard, [(name, "")])


@pytest.mark.parametrize(
    "text", ["", "user", "!", "|user!", "a|b|user!", "user!|a", "user!|a#%7c", "user!|a#b#c", "user!0!"]
)
def test_foreign_hash_keys_are_refused(text: str) -> None:
    """A text that is no hash key is a typed error."""
    with pytest.raises(InvalidValue, match="is no hash key"):
        parse_hash_key(text)
