"""Strategies for the laws of keys: special characters, values of every scalar, and rows in reference order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import cmp_to_key
from math import nextafter
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

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
)
from graphql_api.codecs.key_ranges import Column

ALPHABET = (
    *("#", "|", "!", "/", "%", "{", "}", "~", "$", " ", "0", "1", "2", "A", "a", "b", "z"),
    *("\x00", "\x01", "\x02", "\x03", "\x7f", "\xe9", "e", "\u0301"),
    *("\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "😀"),
)
"""every delimiter and escape, their neighbours, both forms of é, and the edges of UTF-8 and UTF-16"""


def texts(min_size: int = 0, max_size: int = 6) -> st.SearchStrategy[str]:
    """Draws short texts of special characters."""
    return st.lists(st.sampled_from(ALPHABET), min_size=min_size, max_size=max_size).map("".join)


def prefix_before(text: str) -> str:
    """Returns the prefix whose range ends directly before the text: its last character is one code point lower."""
    if not text or text[-1] == "\x00":
        return text
    return text[:-1] + ("\ud7ff" if text[-1] == "\ue000" else chr(ord(text[-1]) - 1))


@st.composite
def related_texts(draw: st.DrawFn, least: int = 2, most: int = 5) -> list[str]:
    """Draws texts that often are equal, are prefixes of each other, or differ in the last character only."""
    found = [draw(texts())]
    for _ in range(draw(st.integers(least - 1, most - 1))):
        earlier = draw(st.sampled_from(found))
        relative = st.one_of(
            texts(max_size=2).map(earlier.__add__),
            st.sampled_from([earlier[:end] for end in range(len(earlier) + 1)]),
            st.sampled_from(ALPHABET).map(earlier[:-1].__add__),
            texts(),
        )
        found.append(draw(relative))
    return found


class Colour(StrEnum):
    """Declared in another order than its values sort."""

    RED = "red"
    GREEN = "green"
    BLUE = "blue"
    ALSO_RED = "red"


class Priority(IntEnum):
    """Stored as numbers, declared in another order than the numbers sort."""

    HIGH = 10
    LOW = -1
    NONE = 0


ENUMS: tuple[type[Enum], ...] = (Colour, Priority)


def integers(least: int, greatest: int) -> st.SearchStrategy[int]:
    """Draws integers that are often a bound, zero, or a neighbour of these."""
    edges = [least, least + 1, -10, -9, -1, 0, 1, 9, 10, greatest - 1, greatest]
    return st.one_of(st.sampled_from(edges), st.integers(least, greatest))


def _storable(value: float) -> bool:
    return value == 0 or 1e-130 <= abs(value) < 1e126


MAX_FLOAT = nextafter(1e126, 0)

FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.5, 0.1, 1e-130, -1e-130, MAX_FLOAT, -MAX_FLOAT]),
    st.floats(allow_nan=False, allow_infinity=False).filter(_storable),
)

DECIMALS = st.one_of(
    st.sampled_from(list(map(Decimal, ("0", "-0.00", "1", "1.00", "1E+2", "100", "-1.0", "1E-130", "-1E-130")))),
    st.sampled_from([Decimal("9" * 38 + "E+88"), Decimal("-" + "9" * 38 + "E+88"), Decimal("9" * 38)]),
    st.builds(
        lambda sign, digits, exponent: Decimal((sign, tuple(map(int, str(digits))), exponent)),
        st.sampled_from([0, 1]),
        st.one_of(st.integers(0, 1000), st.integers(0, 10**38 - 1)),
        st.one_of(st.integers(-3, 3), st.integers(-130, 88)),
    ),
)

OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))

DATETIMES = st.one_of(
    st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=OFFSETS),  # noqa: DTZ001 - the offset is drawn
    st.builds(datetime.astimezone, st.just(datetime(2026, 1, 31, 12, tzinfo=UTC)), OFFSETS),
)

UUIDS = st.one_of(st.uuids(), st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)]))

DURATIONS = st.one_of(
    st.timedeltas(),
    st.sampled_from([timedelta.min, timedelta.max, timedelta(), timedelta(microseconds=-1), timedelta(microseconds=1)]),
)

VALUES: dict[Codec[Any], st.SearchStrategy[Any]] = {
    Text(): texts(),
    Int64(): integers(-(2**63), 2**63 - 1),
    Int32(): integers(-(2**31), 2**31 - 1),
    Timestamp(): integers(-(2**53), 2**53),
    TimestampMs(): integers(-(2**53), 2**53),
    Float64(): FLOATS,
    DecimalNumber(): DECIMALS,
    Boolean(): st.booleans(),
    Uuid(): UUIDS,
    Date(): st.one_of(st.dates(), st.sampled_from([date.min, date.max])),
    DateTime(): DATETIMES,
    Duration(): DURATIONS,
    **{EnumCodec(enum): st.sampled_from(list(enum)) for enum in ENUMS},
}
"""the strategy for the values of every codec"""


def several(codec: Codec[Any], least: int = 2, most: int = 4) -> st.SearchStrategy[list[Any]]:
    """Draws several values of one codec; texts are related."""
    return (
        related_texts(least, most)
        if isinstance(codec, Text)
        else st.lists(VALUES[codec], min_size=least, max_size=most)
    )


def plain_order(one: Any, other: Any) -> int:
    """Compares two values of one type in plain Python: nulls first, enum members as declared."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, Enum):
        members = list(type(one))
        one, other = members.index(one), members.index(other)
    return int(one > other) - int(one < other)


@dataclass(frozen=True)
class Table:
    """Columns, and rows of values for them; only the first value of a row is never null."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    def order(self, one: Sequence[Any], other: Sequence[Any]) -> int:
        """Compares two rows in plain Python: column by column, nulls first in either direction."""
        for column, left, right in zip(self.columns, one, other, strict=True):
            found = plain_order(left, right)
            if found:
                return -found if column.descending and left is not None and right is not None else found
        return 0

    @property
    def key(self) -> Callable[[Sequence[Any]], Any]:
        """The reference order as a sort key."""
        return cmp_to_key(self.order)


_NAMES = ("a", "ab", "a_b", "A", "created", "userId", "z", "_1")


@st.composite
def tables(draw: st.DrawFn, most_rows: int = 8) -> Table:
    """Draws columns, some of them descending, and rows whose values repeat and are prefixes of each other."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    columns: list[Column] = []
    pools: list[list[Any]] = []
    for name in names:
        codec = draw(st.one_of(st.just(Text()), st.sampled_from(list(VALUES))))
        columns.append(Column(name, codec, codec.fixed_width and draw(st.booleans())))
        pools.append(draw(several(codec)) + ([None] if pools else []))
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=1, max_size=most_rows))
    return Table(tuple(columns), tuple(rows))
