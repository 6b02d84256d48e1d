"""Ranges of key values: what every search condition becomes (docs/key-format.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from graphql_api.codecs.key_segments import AFTER, SEP, join, segment, split, successor
from graphql_api.codecs.scalar_codec import Codec, shown
from graphql_api.codecs.text_codecs import Text
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong

RangeValue = str | int | Decimal
"""What an engine orders a partition by: text by its UTF-8 bytes, numbers by their value."""

MAX_KEY_BYTES = 1020
"""of a range value, so that what directly follows it still fits into a bound"""

MAX_BOUND_BYTES = 1024

SENTINEL = "#"
"""the range value of no columns at all, since no key may be empty"""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """All key values between two bounds; a missing bound is no bound, an open one is left out itself."""

    low: RangeValue | None = None
    high: RangeValue | None = None
    low_open: bool = False
    high_open: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the bounds leave no room for any value."""
        if self.low is None or self.high is None:
            return False
        return _below(self.high, self.low) or (self.low == self.high and (self.low_open or self.high_open))

    def contains(self, value: RangeValue) -> bool:
        """Whether the value lies between the bounds."""
        above_low = self.low is None or _below(self.low, value) or (value == self.low and not self.low_open)
        below_high = self.high is None or _below(value, self.high) or (value == self.high and not self.high_open)
        return above_low and below_high

    def within(self, other: "KeyRange") -> "KeyRange":
        """What lies in both."""
        low, low_open = self.low, self.low_open
        if low is None or (other.low is not None and _below(low, other.low)):
            low, low_open = other.low, other.low_open
        elif low == other.low:
            low_open = low_open or other.low_open
        high, high_open = self.high, self.high_open
        if high is None or (other.high is not None and _below(other.high, high)):
            high, high_open = other.high, other.high_open
        elif high == other.high:
            high_open = high_open or other.high_open
        return KeyRange(low, high, low_open, high_open)


def _below(one: Any, other: Any) -> bool:
    # Code point order of str is UTF-8 byte order; the values of one index are all text or all numbers.
    return bool(one < other)


# --- conditions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Eq:
    """The column has this value; None finds those without one."""

    value: Any


@dataclass(frozen=True, slots=True)
class Prefix:
    """The column's text starts like this."""

    text: str


@dataclass(frozen=True, slots=True)
class Between:
    """The column's value lies between these, both included; None is no bound on that side."""

    low: Any = None
    high: Any = None


Condition = Eq | Prefix | Between


# --- range values made of columns ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """One property inside a range value."""

    name: str
    codec: Codec[Any]
    descending: bool = False

    def __post_init__(self) -> None:
        if self.descending and not self.codec.fixed_width:
            raise ValueError(f"{self.name}: {self.codec.name} has no fixed width and cannot be descending")

    def encode(self, value: Any) -> str:
        """The value as it stands in this column."""
        try:
            encoded = self.codec.encode(value)
        except InvalidValue as problem:
            raise InvalidValue(f"{self.name}: {problem.message}", argument=problem.argument) from problem
        return self.codec.complement(encoded) if self.descending else encoded

    def decode(self, encoded: str) -> Any:
        """The inverse of `encode`."""
        return self.codec.decode(self.codec.complement(encoded) if self.descending else encoded)

    def segment(self, value: Any) -> str:
        """The column's part of a range value; a null is the bare name."""
        return segment(self.name, None if value is None else self.encode(value))


def encode_tuple(columns: Sequence[Column], values: Sequence[Any]) -> str:
    """The range value of a record: its columns in order, of which only the first may not be null."""
    if len(values) != len(columns):
        raise ValueError(f"{len(values)} values for {len(columns)} columns")
    if not columns:
        return SENTINEL
    if values[0] is None:
        raise ValueError(f"{columns[0].name}: a record without its first column has no range value")
    return _fitting(join(map(Column.segment, columns, values)), MAX_KEY_BYTES, columns)


def decode_tuple(columns: Sequence[Column], text: str) -> tuple[Any, ...]:
    """The inverse of `encode_tuple`."""
    if not columns and text == SENTINEL:
        return ()
    parts = split(text)
    if [name for name, _ in parts] != [column.name for column in columns] or parts[0][1] is None:
        names = ", ".join(column.name for column in columns) or "no columns"
        raise InvalidValue(f"{shown(text)} is no range value of {names}. Read keys only from where ShardQL wrote them.")
    encodings = (encoded for _, encoded in parts)
    return tuple(
        None if encoded is None else column.decode(encoded) for column, encoded in zip(columns, encodings, strict=True)
    )


def range_of(columns: Sequence[Column], conditions: Sequence[Condition]) -> KeyRange:
    """The range values of all records that meet the conditions, which belong to the first columns, in order.

    All but the last condition are `Eq`. A condition other than `Eq(None)` is met by no null.
    """
    if len(conditions) > len(columns):
        raise ValueError(f"{len(conditions)} conditions for {len(columns)} columns")
    if not columns:
        return KeyRange()
    *leading, last = conditions or [Between()]
    known = [condition.value for condition in leading if isinstance(condition, Eq)]
    if len(known) < len(leading):
        raise ValueError("only the last condition may be another one than Eq")
    stem = "".join(column.segment(value) + SEP for column, value in zip(columns, known, strict=False))
    position = len(leading)
    end = AFTER if position < len(columns) - 1 else ""
    found = _last_range(columns[position], last, stem, end)
    for bound in (found.low, found.high):
        _fitting(str(bound), MAX_BOUND_BYTES, columns[: position + 1])
    return found


def _last_range(column: Column, condition: Condition, stem: str, end: str) -> KeyRange:
    """The range of the last condition; `end` is what closes a value of its column, nothing behind the last column."""
    match condition:
        case Eq(value):
            key = stem + column.segment(value)
            return KeyRange(key + (SEP if end else ""), key + end)
        case Prefix(text):
            _only_text(column.codec, column.name)
            low = stem + column.segment(text)
            return KeyRange(low, successor(low), high_open=True)
        case Between(low, high):
            if column.descending:
                low, high = high, low
            start = stem + column.name + "#"
            first = start if low is None else start + column.encode(low)
            if high is None:
                return KeyRange(first, successor(start), high_open=True)
            return KeyRange(first, start + column.encode(high) + end)


def raw_range(codec: Codec[Any], condition: Condition | None) -> KeyRange:
    """The range of a condition on a raw index, which is ordered by the plain stored values."""
    match condition:
        case None:
            return KeyRange()
        case Eq(value):
            key = _raw(codec, value)
            return KeyRange(key, key)
        case Prefix(text):
            _only_text(codec)
            low = str(_raw(codec, text)) if text else None
            return KeyRange(low, low and _fitting_bound(successor(low)), high_open=bool(low))
        case Between(low, high):
            # Every text is above the empty one, which is never a key itself.
            return KeyRange(
                None if low in (None, "") else _raw(codec, low), None if high is None else _raw(codec, high)
            )


def _raw(codec: Codec[Any], value: Any) -> RangeValue:
    stored = codec.store(value)
    if isinstance(stored, bool):
        raise TypeError("no engine orders an index by booleans")
    if stored == "":
        raise EmptyKey("No key is an empty text. Give a text, or leave the condition out.")
    if isinstance(stored, str):
        _fitting_bound(stored)
    return stored


def _fitting_bound(text: str | None) -> str | None:
    # What follows a text may have more bytes than the text: the last character can be the last one of its length.
    size = len((text or "").encode())
    if size > MAX_BOUND_BYTES:
        raise KeyTooLong(f"The bound would have {size:,} bytes, at most {MAX_BOUND_BYTES:,} fit. Shorten the text.")
    return text


def _only_text(codec: Codec[Any], name: str = "") -> None:
    if not isinstance(codec, Text):
        where = f"{name}: " if name else ""
        raise InvalidValue(f"{where}a prefix is asked of {codec.name}, which is no text. Use eq, or from and to.")


def _fitting(key: str, most: int, columns: Sequence[Column]) -> str:
    size = len(key.encode())
    if size > most:
        names = ", ".join(column.name for column in columns)
        raise KeyTooLong(f"The range value of {names} would have {size:,} bytes, at most {most:,} fit. Shorten them.")
    return key
