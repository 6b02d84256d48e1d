"""Scalar codecs: exact encodings, stored values, texts, and refused inputs."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from graphql_api.codecs import (
    Boolean,
    Codec,
    Date,
    DateTime,
    DecimalNumber,
    Duration,
    EnumCodec,
    Float64,
    Int32,
    Int64,
    Text,
    Timestamp,
    TimestampMs,
    Uuid,
    enum_problem,
)
from graphql_api.errors import InvalidValue


class State(Enum):
    """Text values; the declared order is the sort order."""

    TODO = "todo"
    DOING = "doing"
    DONE = "done"


class Level(IntEnum):
    """Integer values, which are stored as numbers."""

    HIGH = 10
    LOW = 1


class Rights(Flag):
    """Members that can be combined."""

    READ = 1
    WRITE = 2


class MisleadingText(str):
    """A text whose string form is another text."""

    __slots__ = ()

    def __str__(self) -> str:
        return "another"


ID = UUID("6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a")
NOON = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)

FROZEN: list[tuple[Codec[Any], Any, str]] = [
    (Text(), "ann|a#1", "ann|a#1"),
    (Text(), "\x00\x01\x02\x03", "\x020\x021\x022\x03"),
    (Int64(), 0, "09223372036854775808"),
    (Int64(), -(2**63), "00000000000000000000"),
    (Int64(), 2**63 - 1, "18446744073709551615"),
    (Int32(), 7, "09223372036854775815"),
    (Timestamp(), 1_767_225_600, "09223372038622001408"),
    (TimestampMs(), -1, "09223372036854775807"),
    (Float64(), 0.0, "8000000000000000"),
    (Float64(), -0.0, "8000000000000000"),
    (Float64(), 1, "bff0000000000000"),
    (Float64(), -2.5, "3ffbffffffffffff"),
    (DecimalNumber(), Decimal("-0.00"), "1" + "0" * 41),
    (DecimalNumber(), Decimal("1.00"), "15001" + "0" * 37),
    (DecimalNumber(), 42, "150142" + "0" * 36),
    (DecimalNumber(), Decimal("-0.5"), "05004" + "9" * 37),
    (DecimalNumber(), Decimal("1E-130"), "13701" + "0" * 37),
    (Boolean(), False, "0"),
    (Boolean(), True, "1"),
    (Uuid(), ID, "6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a"),
    (Date(), date(987, 6, 5), "0987-06-05"),
    (DateTime(), NOON, "2026-01-31T12:30:00.000000Z"),
    (DateTime(), NOON.astimezone(timezone(timedelta(hours=-5))), "2026-01-31T12:30:00.000000Z"),
    (DateTime(), datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    (Duration(), timedelta(), "100000000000000000000"),
    (Duration(), timedelta(microseconds=-1), "099999999999999999999"),
    (EnumCodec(State), State.DONE, "002"),
    (EnumCodec(Level), Level.LOW, "001"),
]


@pytest.mark.parametrize(("codec", "value", "encoded"), FROZEN, ids=str)
def test_encoding_is_frozen(codec: Codec[Any], value: Any, encoded: str) -> None:
    """Each scalar is encoded as documented in docs/reference/key-format.md."""
    assert codec.encode(value) == encoded
    assert codec.decode(encoded) == value


COMPLEMENTS: list[tuple[Codec[Any], Any, str]] = [
    (Int64(), 0, "90776627963145224191"),
    (Float64(), 1.0, "400fffffffffffff"),
    (Uuid(), ID, "90e092b1-c3a9-b090-6285-f2b5c3e3d4e5"),
    (DateTime(), NOON, "7973-98-68T87:69:99.999999Z"),
    (EnumCodec(State), State.TODO, "999"),
]


@pytest.mark.parametrize(("codec", "value", "complement"), COMPLEMENTS, ids=str)
def test_complement_is_frozen(codec: Codec[Any], value: Any, complement: str) -> None:
    """A descending column stores the digit or hex complement."""
    assert codec.complement(codec.encode(value)) == complement


STORED: list[tuple[Codec[Any], Any, Any]] = [
    (Float64(), 0.1, Decimal("0.1")),
    (Float64(), 3, Decimal("3.0")),
    (DecimalNumber(), Decimal("1.00"), Decimal(1)),
    (Uuid(), ID, "6f1f6d4e-3c56-4f6f-9d7a-0d4a3c1c2b1a"),
    (Date(), date(2026, 1, 31), "2026-01-31"),
    (DateTime(), NOON.astimezone(ZoneInfo("Asia/Kolkata")), "2026-01-31T12:30:00.000000Z"),
    (Duration(), timedelta(seconds=1.5), 1_500_000),
    (EnumCodec(State), State.DOING, "doing"),
    (EnumCodec(Level), Level.HIGH, 10),
]


@pytest.mark.parametrize(("codec", "value", "stored"), STORED, ids=str)
def test_stored_values_are_plain(codec: Codec[Any], value: Any, stored: Any) -> None:
    """Records store plain texts and numbers."""
    assert codec.store(value) == stored
    assert codec.load(stored) == value


FORMATTED: list[tuple[Codec[Any], Any, str]] = [
    (Text(), "prod/é", "prod/é"),
    (Int64(), -42, "-42"),
    (Float64(), 2.5, "2.5"),
    (DecimalNumber(), Decimal("1E+2"), "100"),
    (DecimalNumber(), Decimal("1E+1"), "10"),
    (DecimalNumber(), Decimal("1E+38"), "1E+38"),
    (Boolean(), True, "true"),
    (Date(), date(2026, 1, 31), "2026-01-31"),
    (DateTime(), NOON, "2026-01-31T12:30:00.000000Z"),
    (Duration(), timedelta(), "PT0S"),
    (Duration(), timedelta(days=2), "P2D"),
    (Duration(), -timedelta(days=1, hours=2, microseconds=500), "-P1DT7200.0005S"),
    (EnumCodec(State), State.DONE, "done"),
    (EnumCodec(Level), Level.HIGH, "10"),
]


@pytest.mark.parametrize(("codec", "value", "text"), FORMATTED, ids=str)
def test_format_and_parse(codec: Codec[Any], value: Any, text: str) -> None:
    """Values are formatted as plain text, and parsed from it."""
    assert codec.format(value) == text
    assert codec.parse(text) == value


ALTERNATIVE_TEXTS: list[tuple[Codec[Any], str, Any]] = [
    (Float64(), "-1e3", -1000.0),
    (DecimalNumber(), "0.10e1", Decimal(1)),
    (Uuid(), "6F1F6D4E-3C56-4F6F-9D7A-0D4A3C1C2B1A", ID),
    (DateTime(), "2026-01-31T14:30+02:00", NOON),
    (DateTime(), "2026-01-31T12:30:00.0Z", NOON),
    (Duration(), "P1DT2H30M", timedelta(days=1, hours=2, minutes=30)),
]


@pytest.mark.parametrize(("codec", "text", "value"), ALTERNATIVE_TEXTS, ids=str)
def test_alternative_texts_are_parsed(codec: Codec[Any], text: str, value: Any) -> None:
    """Other common spellings of a value are parsed too."""
    assert codec.parse(text) == value


INVALID_VALUES: list[tuple[Codec[Any], Any, str]] = [
    (Text(), 1, "int given where text is declared"),
    (Text(), None, "null given"),
    (Text(), "a\ud800", r"lone surrogate \(U\+D800\) at position 1"),
    (Int64(), True, "bool given"),
    (Int64(), 1.0, "float given"),
    (Int64(), "1", "str given"),
    (Int64(), 2**63, "beyond int64"),
    (Int32(), 2**31, "beyond int32"),
    (Timestamp(), 2**53 + 1, "beyond timestamp"),
    (TimestampMs(), -(2**53) - 1, "beyond timestampMs"),
    (Float64(), True, "bool given"),
    (Float64(), "1.0", "str given"),
    (Float64(), Decimal(1), "Decimal given"),
    (Float64(), float("nan"), "nan is no number"),
    (Float64(), float("-inf"), "-inf is no number"),
    (Float64(), 1e126, "outside the range of stored numbers"),
    (Float64(), -9e-131, "outside the range of stored numbers"),
    (Float64(), 2**53 + 1, "no float represents exactly"),
    (Float64(), 10**400, "no float represents exactly"),
    (DecimalNumber(), 1.5, "float given"),
    (DecimalNumber(), False, "bool given"),
    (DecimalNumber(), Decimal("NaN"), "NaN is no number"),
    (DecimalNumber(), Decimal("sNaN"), "sNaN is no number"),
    (DecimalNumber(), Decimal("Infinity"), "Infinity is no number"),
    (DecimalNumber(), Decimal("1" * 39), "39 digits"),
    (DecimalNumber(), Decimal("1E+126"), "outside the range of stored numbers"),
    (DecimalNumber(), Decimal("9E-131"), "outside the range of stored numbers"),
    (Boolean(), 1, "int given"),
    (Uuid(), str(ID), "str given"),
    (Date(), NOON, "datetime given where date is declared"),
    (Date(), "2026-01-31", "str given"),
    (DateTime(), date(2026, 1, 31), "date given"),
    (DateTime(), NOON.replace(tzinfo=None), "has no offset"),
    (DateTime(), datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "years 1 to 9999"),
    (DateTime(), datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2))), "years 1 to 9999"),
    (Duration(), 5, "int given"),
    (EnumCodec(State), "todo", "str given where enum is declared. Give a member of State"),
    (EnumCodec(Level), 10, "int given"),
    (EnumCodec(Rights), Rights.READ | Rights.WRITE, "no single member"),
]


@pytest.mark.parametrize(("codec", "value", "message"), INVALID_VALUES, ids=repr)
def test_invalid_values_are_refused(codec: Codec[Any], value: Any, message: str) -> None:
    """Each operation refuses a value of another type, or one that cannot be stored or ordered."""
    for use in (codec.check, codec.encode, codec.store, codec.format):
        with pytest.raises(InvalidValue, match=message):
            use(value)


INVALID_TEXTS: list[tuple[Codec[Any], str]] = [
    *((Int64(), text) for text in ("", " 1", "+1", "01", "-0", "1_0", "1.0", "٣", "9" * 19, "1" * 5000)),
    *((Float64(), text) for text in ("", "nan", "inf", "1e400", "1e-400", ".5", "1_0", "0x1p3", "1,5")),
    *((DecimalNumber(), text) for text in ("", "NaN", "1e" + "9" * 30, "1e126", "1" * 39, "٣")),
    *((Boolean(), text) for text in ("", "True", "1")),
    *((Uuid(), text) for text in ("", "{" + str(ID) + "}", "urn:uuid:" + str(ID), ID.hex, "6f1f6d4e")),
    *((Date(), text) for text in ("", "20260131", "2026-W05-6", "2026-02-30", "2026-1-31")),
    *((DateTime(), text) for text in ("", "2026-01-31", "2026-01-31T12:30:00", "2026-01-31 12:30:00Z")),
    *(
        (DateTime(), text)
        for text in ("2026-01-31T12:30:00.1234567Z", "2026-01-31T24:00:00Z", "0001-01-01T00:00:00+01:00")
    ),
    *((Duration(), text) for text in ("", "P", "PT", "P1DT", "1D", "P1Y", "PT1.S", "P1000000000D", "PT0.1234567S")),
    *((EnumCodec(State), text) for text in ("", "TODO", "001")),
]


@pytest.mark.parametrize("codec", [Int64(), Float64(), DecimalNumber()], ids=repr)
def test_huge_ints_are_refused(codec: Codec[Any]) -> None:
    """An int with more digits than Python can print is refused as out of range."""
    with pytest.raises(InvalidValue, match=r"^the value is"):
        codec.check(10**5000)


@pytest.mark.parametrize(("codec", "text"), INVALID_TEXTS, ids=repr)
def test_invalid_texts_are_refused(codec: Codec[Any], text: str) -> None:
    """Parsing an invalid or non-canonical text raises `InvalidValue` with a short message."""
    with pytest.raises(InvalidValue) as caught:
        codec.parse(text)
    assert len(caught.value.message) < 250


INVALID_STORED_VALUES: list[tuple[Codec[Any], Any]] = [
    *((Text(), stored) for stored in (1, None, b"a")),
    *((Int64(), stored) for stored in ("1", True, None, Decimal("1.5"), Decimal("1E+100"), Decimal("NaN"))),
    *((Float64(), stored) for stored in ("1", True, Decimal("NaN"), Decimal("1E+126"), 10**400)),
    *((DecimalNumber(), stored) for stored in ("1", True, None)),
    *((Boolean(), stored) for stored in (1, "true", None)),
    *((Uuid(), stored) for stored in (1, "x")),
    *((Date(), stored) for stored in (1, "2026-01-31T00:00:00Z")),
    *((DateTime(), stored) for stored in (1, "2026-01-31")),
    *((Duration(), stored) for stored in ("PT1S", True, Decimal("0.5"), Decimal("NaN"), Decimal("Infinity"), 10**25)),
    *((EnumCodec(State), stored) for stored in ("gone", 1, None)),
    *((EnumCodec(Level), stored) for stored in (True, "10", Decimal(2))),
]


@pytest.mark.parametrize(("codec", "stored"), INVALID_STORED_VALUES, ids=repr)
def test_invalid_stored_values_are_refused(codec: Codec[Any], stored: Any) -> None:
    """Loading a stored value that the codec cannot have written raises `InvalidValue`."""
    with pytest.raises(InvalidValue):
        codec.load(stored)


def test_codecs_compare_by_value() -> None:
    """Codecs compare and hash by value."""
    assert Text() == Text()
    assert EnumCodec(State) == EnumCodec(State) != EnumCodec(Level)
    assert len({Text(), Text(), Int64(), EnumCodec(State), EnumCodec(State), EnumCodec(Level)}) == 4


def test_codec_names_are_frozen() -> None:
    """Codec names are frozen, because page tokens are bound to them."""
    codecs = (
        Text,
        Int64,
        Int32,
        Timestamp,
        TimestampMs,
        Float64,
        DecimalNumber,
        Boolean,
        Uuid,
        Date,
        DateTime,
        Duration,
    )
    assert [codec.name for codec in codecs] == [
        *("text", "int64", "int32", "timestamp", "timestampMs", "float64"),
        *("decimal", "boolean", "uuid", "date", "datetime", "duration"),
    ]
    assert EnumCodec.name == "enum"


def test_text_subclasses_are_converted_to_str() -> None:
    """A subclass of str becomes a plain str with the same characters."""
    assert type(Text().check(MisleadingText("a"))) is str
    assert Text().format(MisleadingText("a")) == "a"


def test_text_has_no_complement() -> None:
    """Text has no complement, because its encoding has no fixed width."""
    with pytest.raises(ValueError, match="no fixed width"):
        Text().complement("a")


def test_unknown_enum_value_suggests_the_nearest() -> None:
    """The error for an unknown enum value lists the values and suggests the nearest one."""
    with pytest.raises(InvalidValue, match=r"has todo, doing, done\. Did you mean 'doing'\?"):
        EnumCodec(State).parse("doin")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "no members"),
        ({"A": 1.5}, "neither str nor int"),
        ({"A": True}, "neither str nor int"),
        ({"A": 1, "B": "1"}, "the same text"),
        ({f"M{number}": number for number in range(1001)}, "at most 1,000"),
    ],
    ids=str,
)
def test_unsupported_enums_are_refused(members: dict[str, Any], message: str) -> None:
    """An enum whose members cannot be ordered, stored or distinguished is refused."""
    enum_class = Enum("Unfit", members)  # type: ignore[misc]
    problem = enum_problem(enum_class)
    assert problem is not None
    assert message in problem
    with pytest.raises(ValueError, match=message):
        EnumCodec(enum_class)
