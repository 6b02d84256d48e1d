"""Range keys, and the key range of each search condition (docs/reference/key-format.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from graphql_api.codecs.scalar_codec import Codec, short_repr
from graphql_api.errors import EmptyKey, InvalidValue, KeyTooLong

RangeValue = str | int | Decimal
"""Value of a range key. Engines order text by its UTF-8 bytes and numbers by value."""

MAX_KEY_BYTES = 1020
"""limit of a range value, below `MAX_BOUND_BYTES` so that its successor fits into a bound"""

MAX_BOUND_BYTES = 1024

SINGLETON_RANGE_VALUE = "#"
"""range value of a record without columns, because keys cannot be empty"""

SEP = "\x01|"
"""separates two segments; sorts below every character that an encoded value can contain"""

AFTER = "\x01}"
"""upper bound of all keys that continue with `SEP`; sorts below every longer value"""

_LAST_CODE_POINT = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """All key values between two bounds. None is no bound; an open bound is exclusive."""

    low: RangeValue | None = None
    high: RangeValue | None = None
    low_open: bool = False
    high_open: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no value can lie between the bounds."""
        if self.low is None or self.high is None:
            return False
        low: Any = self.low
        return bool(self.high <= low if self.low_open or self.high_open else self.high < low)

    def contains(self, value: RangeValue) -> bool:
        """Whether the value lies between the bounds."""
        # The code point order of str is the UTF-8 byte order. The values of one index are all text or all numbers.
        low: Any = self.low
        high: Any = self.high
        if low is not None and (value <= low if self.low_open else value < low):
            return False
        return high is None or bool(value < high if self.high_open else value <= high)

    def intersection(self, other: "KeyRange") -> "KeyRange":
        """Return the range of the values that are in both ranges."""
        # Of equal bounds the open one is narrower.
        lows: list[Any] = [(one.low, one.low_open) for one in (self, other) if one.low is not None]
        highs: list[Any] = [(one.high, not one.high_open) for one in (self, other) if one.high is not None]
        low, low_open = max(lows, default=(None, other.low_open))
        high, high_closed = min(highs, default=(None, not other.high_open))
        return KeyRange(low, high, low_open, not high_closed)


# --- conditions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Eq:
    """The column equals this value; None matches null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Prefix:
    """The column's text starts with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Between:
    """The column's value lies between two inclusive bounds; None is no bound."""

    low: Any = None
    high: Any = None


Condition = Eq | Prefix | Between


# --- segments of a range value: `name#value` ----------------------------------------------------------------------


def readable_key(key: str) -> str:
    """Format a key for people: show separators without their control character."""
    return key.replace(SEP, SEP[1]).replace(AFTER, AFTER[1])


def key_segment(name: str, encoded: str | None) -> str:
    """Format one property of a range value. The bare name represents null and sorts before every value."""
    return name if encoded is None else f"{name}#{encoded}"


def join_segments(segments: Iterable[str]) -> str:
    """Join segments to a range value."""
    return SEP.join(segments)


def split_segments(text: str) -> list[tuple[str, str | None]]:
    """Split a range value into names and encoded values; a bare name has the value None."""
    parts = (part.partition("#") for part in text.split(SEP))
    return [(name, encoded if hash_sign else None) for name, hash_sign, encoded in parts]


def successor(prefix: str) -> str | None:
    """Return the smallest text above all texts that start with the prefix, or None if there is none."""
    stem = prefix.rstrip(_LAST_CODE_POINT)
    if not stem:
        return None
    next_code_point = ord(stem[-1]) + 1
    return stem[:-1] + ("\ue000" if next_code_point == 0xD800 else chr(next_code_point))


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
        try:
            encoded = self.codec.encode(value)
        except InvalidValue as problem:
            raise InvalidValue(f"{self.name}: {problem.message}", argument=problem.argument) from problem
        return self.codec.complement(encoded) if self.descending else encoded

    def decode(self, encoded: str) -> Any:
        return self.codec.decode(self.codec.complement(encoded) if self.descending else encoded)

    def segments(self, values: Iterable[Any]) -> list[str]:
        """Build the column's segments of the range values of several records, of which none is null."""
        if self.descending:
            return [*map(self.segment, values)]
        try:
            return [f"{self.name}#{encoded}" for encoded in map(self.codec.encode, values)]
        except InvalidValue as problem:
            raise InvalidValue(f"{self.name}: {problem.message}", argument=problem.argument) from problem

    def segment(self, value: Any) -> str:
        """Build the column's segment of a range value. Null is the bare name."""
        return self.name if value is None else f"{self.name}#{self.encode(value)}"


def encode_tuple(columns: Sequence[Column], values: Sequence[Any]) -> str:
    """Encode the range value of a record: the columns in order. Only the first column must not be null."""
    if len(values) != len(columns):
        raise ValueError(f"{len(values)} values for {len(columns)} columns")
    if columns and values[0] is None:
        raise ValueError(f"{columns[0].name}: a record without its first column has no range value")
    return join_columns(columns, [column.segment(value) for column, value in zip(columns, values, strict=True)])


def join_columns(columns: Sequence[Column], segments: Sequence[str]) -> str:
    """Return the range value of a record with these segments of its columns."""
    if not columns:
        return SINGLETON_RANGE_VALUE
    key = SEP.join(segments)
    return key if len(key) <= MAX_KEY_BYTES and key.isascii() else _check_size(key, MAX_KEY_BYTES, columns)


def decode_tuple(columns: Sequence[Column], text: str) -> tuple[Any, ...]:
    """Decode a range value; the inverse of `encode_tuple`."""
    if not columns and text == SINGLETON_RANGE_VALUE:
        return ()
    parts = split_segments(text)
    if [name for name, _ in parts] != [column.name for column in columns] or parts[0][1] is None:
        names = ", ".join(column.name for column in columns) or "no columns"
        raise InvalidValue(f"{short_repr(text)} is no range value of {names}. Read only keys that ShardQL wrote.")
    encodings = (encoded for _, encoded in parts)
    return tuple(
        None if encoded is None else column.decode(encoded) for column, encoded in zip(columns, encodings, strict=True)
    )


def encoded_range(columns: Sequence[Column], conditions: Sequence[Condition]) -> KeyRange:
    """Return the range of the range values of all records that match the conditions.

    The conditions belong to the first columns, in order. All but the last condition must be `Eq`.
    Null matches only `Eq(None)`.
    """
    if len(conditions) > len(columns):
        raise ValueError(f"{len(conditions)} conditions for {len(columns)} columns")
    if not columns:
        return KeyRange()
    *leading, last = conditions or [Between()]
    values = [condition.value for condition in leading if isinstance(condition, Eq)]
    if len(values) < len(leading):
        raise ValueError("only the last condition may differ from Eq")
    stem = "".join(column.segment(value) + SEP for column, value in zip(columns, values, strict=False))
    position = len(leading)
    end = AFTER if position < len(columns) - 1 else ""
    key_range = _condition_range(columns[position], last, stem, end)
    for bound in (key_range.low, key_range.high):
        _check_size(str(bound), MAX_BOUND_BYTES, columns[: position + 1])
    return key_range


def _condition_range(column: Column, condition: Condition, stem: str, end: str) -> KeyRange:
    """Return the range of a condition below `stem`. `end` closes a value; it is empty for the last column."""
    match condition:
        case Eq(value):
            key = stem + column.segment(value)
            return KeyRange(key + (SEP if end else ""), key + end)
        case Prefix(text):
            _require_text(column.codec, column.name)
            low = stem + column.segment(text)
            return KeyRange(low, successor(low), high_open=True)
        case Between(low, high):
            if column.descending:
                low, high = high, low
            start = stem + column.name + "#"
            low_key = start if low is None else start + column.encode(low)
            if high is None:
                return KeyRange(low_key, successor(start), high_open=True)
            return KeyRange(low_key, start + column.encode(high) + end)


def raw_range(codec: Codec[Any], condition: Condition | None) -> KeyRange:
    """Return the range of a condition on a raw index, which is ordered by the unencoded stored values."""
    match condition:
        case None:
            return KeyRange()
        case Eq(value):
            key = _raw_key(codec, value)
            return KeyRange(key, key)
        case Prefix(text):
            _require_text(codec)
            if not text:
                return KeyRange()
            low = str(_raw_key(codec, text))
            # A successor can be longer than its text, if the last character is the last one of its UTF-8 length.
            high = successor(low)
            return KeyRange(low, high and _check_size(high, MAX_BOUND_BYTES), high_open=True)
        case Between(low, high):
            # The empty text is below all keys and is never a key itself.
            return KeyRange(
                None if low in (None, "") else _raw_key(codec, low), None if high is None else _raw_key(codec, high)
            )


def _raw_key(codec: Codec[Any], value: Any) -> RangeValue:
    stored = codec.store(value)
    if isinstance(stored, bool):
        raise TypeError("engines cannot order an index by booleans")
    if stored == "":
        raise EmptyKey("The text is empty. Keys cannot be empty: give a non-empty string, or omit the condition.")
    return _check_size(stored, MAX_BOUND_BYTES) if isinstance(stored, str) else stored


def _require_text(codec: Codec[Any], name: str = "") -> None:
    if codec.kind != "text":
        column = f"{name}: " if name else ""
        raise InvalidValue(f"{column}prefix requires text, and the type is {codec.name}. Use eq, or from and to.")


def _check_size(key: str, limit: int, columns: Sequence[Column] = ()) -> str:
    size = len(key) if key.isascii() else len(key.encode())
    if size > limit:
        names = ", ".join(column.name for column in columns)
        what, remedy = (f"range value of {names}", "them") if names else ("bound", "the text")
        raise KeyTooLong(f"The {what} would have {size:,} bytes, at most {limit:,} fit. Shorten {remedy}.")
    return key
