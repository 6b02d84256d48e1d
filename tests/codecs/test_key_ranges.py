"""Range keys, key ranges and hash keys: exact texts and size limits."""

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
    successor,
)
from graphql_api.codecs.text_codecs import escape_text, unescape_text
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong

LAST = Column("last", Text())
FIRST = Column("first", Text())
COUNT = Column("count", Int64(), descending=True)
USER = Column("userId", Text())
COLUMNS = (LAST, COUNT, USER)

ZERO = "90776627963145224191"
ONE = "90776627963145224190"


def test_range_key_text() -> None:
    """A range key consists of property names and encoded values. A null is the name alone."""
    assert encode_tuple(COLUMNS, ("ann", 0, "u1")) == f"last#ann\x01|count#{ZERO}\x01|userId#u1"
    assert encode_tuple(COLUMNS, ("", None, "u1")) == "last#\x01|count\x01|userId#u1"


def test_range_key_without_columns_is_the_sentinel() -> None:
    """The range key of an entity without sort columns is the sentinel `#`, because keys must not be empty."""
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
def test_conditions_compile_to_one_key_range(conditions: list[Condition], expected: KeyRange) -> None:
    """Conditions compile to one key range, as documented in docs/reference/key-format.md."""
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
def test_raw_conditions_compile_to_ranges_of_stored_values(
    codec: Any, condition: Condition | None, expected: KeyRange
) -> None:
    """Conditions on a raw index become ranges of stored values."""
    assert raw_range(codec, condition) == expected


def test_prefix_requires_text() -> None:
    """A prefix condition on a type other than text is refused, with the property name and the alternative."""
    with pytest.raises(InvalidValue, match=r"count: prefix requires text, and the type is int64.*Use eq"):
        encoded_range((COUNT, USER), [Prefix("1")])
    for prefix in ("", "2026"):
        with pytest.raises(InvalidValue, match="prefix requires text, and the type is date"):
            raw_range(Date(), Prefix(prefix))


def test_empty_raw_keys_are_refused() -> None:
    """Empty text and booleans are refused as keys of a raw index."""
    for condition in (Eq(""), Between(None, "")):
        with pytest.raises(EmptyKey):
            raw_range(Text(), condition)
    with pytest.raises(TypeError, match="booleans"):
        raw_range(Boolean(), Eq(True))


def test_invalid_value_error_names_the_column() -> None:
    """An invalid value is refused with the name of its column."""
    with pytest.raises(InvalidValue, match=r"^count: str given where int64 is declared"):
        encode_tuple(COLUMNS, ("a", "0", "u"))
    with pytest.raises(InvalidValue, match=r"^last: .*lone surrogate"):
        encoded_range(COLUMNS, [Prefix("\udfff")])


def test_range_key_size_is_limited() -> None:
    """A range key may have 1,020 bytes in UTF-8; a longer one raises `KeyTooLong`."""
    room = 1020 - len("userId#")
    assert len(encode_tuple((USER,), ("é" * (room // 2) + "e" * (room % 2),)).encode()) == 1020
    with pytest.raises(KeyTooLong, match="userId would have 1,021 bytes"):
        encode_tuple((USER,), ("é" * (room // 2) + "e" * (room % 2 + 1),))


def test_bound_size_is_limited() -> None:
    """A bound of a key range may have 1,024 bytes, on encoded and raw indexes; a longer one raises `KeyTooLong`."""
    room = 1024 - len("last#")
    assert encoded_range(COLUMNS, [Prefix("a" * room)]).low == "last#" + "a" * room
    with pytest.raises(KeyTooLong, match="last would have 1,025 bytes"):
        encoded_range(COLUMNS, [Prefix("a" * (room + 1))])
    with pytest.raises(KeyTooLong, match="1,025"):
        encoded_range(COLUMNS, [Prefix("a" * (room - 3) + "\uffff")])
    assert raw_range(Text(), Eq("a" * 1024)).low == "a" * 1024
    with pytest.raises(KeyTooLong):
        raw_range(Text(), Eq("a" * 1025))


def test_programming_errors_raise_value_error() -> None:
    """Programming errors raise `ValueError`: wrong number of values, wrong order of conditions, descending text."""
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
def test_decoding_invalid_range_key_is_refused(text: str) -> None:
    """Decoding a text that is not a range key of the columns raises `InvalidValue`."""
    with pytest.raises(InvalidValue):
        decode_tuple(COLUMNS, text)


def test_key_ranges_compare_numbers_by_value() -> None:
    """Key ranges compare ints and Decimals by value. A missing bound does not limit the range."""
    assert KeyRange(1, Decimal("2.5")).contains(Decimal("2.50"))
    assert not KeyRange(1, Decimal("2.5"), high_open=True).contains(Decimal("2.50"))
    assert KeyRange().contains("anything")
    assert not KeyRange(low=3).is_empty
    assert KeyRange(3, 2).is_empty


def test_successor_skips_surrogates() -> None:
    """The successor of a text skips surrogates, drops maximal code points, and may not exist."""
    assert successor("a\ud7ff") == "a\ue000"
    assert successor("a\uffff") == "a\U00010000"
    assert successor("a\U0010ffff\U0010ffff") == "b"
    assert successor("\U0010ffff") is None
    assert successor("") is None


@pytest.mark.parametrize("text", ["\x00", "\x01", "\x02", "a\x023", "\x02\x020", "\ud800"])
def test_unescaping_invalid_text_is_refused(text: str) -> None:
    """Unescaping a text that no value is escaped to raises `InvalidValue`."""
    with pytest.raises(InvalidValue):
        unescape_text(text)


def test_escaping_changes_only_control_characters() -> None:
    """Escaping changes only three control characters."""
    text = "".join(map(chr, range(3, 0xD800)))
    assert escape_text(text) == text


# --- hash keys ---------------------------------------------------------------------------------------------------


def test_hash_key_text() -> None:
    """A hash key contains tenant, entity, shard and values. Five characters of values and tenants are escaped."""
    assert hash_key("email", "") == "email!"
    assert hash_key("user", "03", [("beneficiaryId", "b/1")]) == "user!03|beneficiaryId#b%2F1"
    assert (
        hash_key("user", "03", [("a", "%|#!/\x00é "), ("b", "")], "a|b") == "a%7Cb|user!03|a#%25%7C%23%21%2F\x00é |b#"
    )


def test_hash_key_size_is_limited() -> None:
    """A hash key may have 2,048 bytes; a longer one raises `KeyTooLong`."""
    room = 2048 - len("user!03|a#")
    assert len(hash_key("user", "03", [("a", "x" * room)])) == 2048
    with pytest.raises(KeyTooLong, match=r"2,049 bytes.*Shorten a\."):
        hash_key("user", "03", [("a", "x" * (room + 1))])
    with pytest.raises(KeyTooLong, match="the tenant"):
        hash_key("user", "03", (), "x" * 2048)


def test_invalid_hash_key_parts_are_refused() -> None:
    """Lone surrogates and an empty tenant are refused. Delimiters in names raise `ValueError`."""
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
def test_parsing_invalid_hash_key_is_refused(text: str) -> None:
    """Parsing a text that is not a hash key raises `InvalidValue`."""
    with pytest.raises(InvalidValue, match="is no hash key"):
        parse_hash_key(text)
