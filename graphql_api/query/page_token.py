"""Encode and decode the payload of a page token: one cursor for any number of shards (docs/reference/tokens.md)."""

from collections.abc import Iterator
from decimal import Decimal
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import NamedTuple

from graphql_api.codecs import RangeValue
from graphql_api.errors import InvalidToken

PAYLOAD_FORMAT = 1
_HINT_FLAG, _LAGGING_FLAG = 0x40, 0x80
_DIGEST_BYTES = 8
_MAX_DESCRIPTION_BYTES = 40
_MAX_EXPONENT = 200
"""decimal exponent of the greatest number, more than any engine can store"""
_GAP, _TEXT, _TEXT_WITH_RECORD, _NUMBER_WITH_RECORD = range(4)
"""kinds of cursors"""


class RecordPosition(NamedTuple):
    """The position of a record in its own entity's shards: needed only where rows of an index may tie."""

    ordinal: int
    range_key: str


class Cursor(NamedTuple):
    """A position in the ordered result: directly after one record, or (without a value) in the gap before an index.

    Each row of a page may need one, so it is a named tuple, which is made and copied faster than a data class.
    """

    index: int  # type: ignore[assignment]  # hides the method of tuples
    """number of the index within a union, otherwise 0"""
    value: RangeValue | None = None
    ordinal: int = 0
    """of the record's shard"""
    record: RecordPosition | None = None


class LaggingShards(NamedTuple):
    """Shards that failed on an earlier page and resume at an earlier cursor than the others."""

    cursor: Cursor
    ordinals: tuple[int, ...]


class PageToken(NamedTuple):
    """The content of a page token. The digests bind it to one search."""

    issued_hour: int
    generations: int
    """number of shard generations that the issuing server knew"""
    index_digest: bytes
    search_digest: bytes
    description: str
    """the beginning of the search conditions, for error messages only"""
    cursor: Cursor
    selectivity_hint: int = 0
    """log2 of the records scanned for each match; 0 without a filter"""
    lagging: tuple[LaggingShards, ...] = ()


def digest(*parts: object) -> bytes:
    """Return a digest of eight bytes over all parts."""
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def short_description(description: str, max_bytes: int = _MAX_DESCRIPTION_BYTES) -> str:
    """Truncate a description to what a token holds; an ellipsis marks the cut."""
    encoded = description.encode()
    if len(encoded) <= max_bytes:
        return description
    ellipsis = "…"
    return encoded[: max_bytes - len(ellipsis.encode())].decode(errors="ignore") + ellipsis


# --- encode ----------------------------------------------------------------------------------------------------


def pack(token: PageToken) -> bytes:
    """Encode a token as the payload to seal."""
    hint_flag, lagging_flag = _HINT_FLAG * bool(token.selectivity_hint), _LAGGING_FLAG * bool(token.lagging)
    description = token.description.encode()
    out = bytearray((PAYLOAD_FORMAT | hint_flag | lagging_flag,))
    out += token.issued_hour.to_bytes(3, "big")
    _append_number(out, token.generations)
    out += token.index_digest + token.search_digest
    out.append(len(description))
    out += description
    if token.selectivity_hint:
        out.append(token.selectivity_hint)
    _append_cursor(out, token.cursor, is_last=not token.lagging)
    for group in token.lagging:
        _append_cursor(out, group.cursor, is_last=False)
        _append_number(out, len(group.ordinals))
        for previous, ordinal in pairwise((0, *sorted(group.ordinals))):
            _append_number(out, ordinal - previous)
    return bytes(out)


def _append_cursor(out: bytearray, cursor: Cursor, *, is_last: bool) -> None:
    """Append a cursor. The last text of a token needs no length."""
    if cursor.value is None:
        _append_number(out, cursor.index << 2 | _GAP)
        return
    is_number = not isinstance(cursor.value, str)
    kind = _NUMBER_WITH_RECORD if is_number else _TEXT if cursor.record is None else _TEXT_WITH_RECORD
    _append_number(out, cursor.index << 2 | kind)
    _append_number(out, cursor.ordinal)
    _append_text(out, str(cursor.value), is_last=is_last and cursor.record is None)
    if cursor.record is not None:
        _append_number(out, cursor.record.ordinal)
        _append_text(out, cursor.record.range_key, is_last=is_last)


def _append_number(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(0x80 | number & 0x7F)
        number >>= 7
    out.append(number)


def _append_text(out: bytearray, text: str, *, is_last: bool) -> None:
    encoded = text.encode()
    if not is_last:
        _append_number(out, len(encoded))
    out += encoded


# --- decode ----------------------------------------------------------------------------------------------------


def unpack(payload: bytes, argument: str) -> PageToken:
    """Decode what `pack` encoded; any other payload was made by another release."""
    try:
        return _PayloadReader(payload).token()
    except (IndexError, ValueError, ArithmeticError) as problem:
        raise InvalidToken(
            f"{argument} was made by another release of this service: omit it to start from the first page.",
            argument=argument,
        ) from problem


class _PayloadReader:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._offset = 0

    def token(self) -> PageToken:
        first_byte = self._byte()
        if first_byte & ~(_HINT_FLAG | _LAGGING_FLAG) != PAYLOAD_FORMAT:
            raise ValueError("unknown payload format")
        token = PageToken(
            issued_hour=int.from_bytes(self._bytes(3), "big"),
            generations=self._number(),
            index_digest=self._bytes(_DIGEST_BYTES),
            search_digest=self._bytes(_DIGEST_BYTES),
            description=self._bytes(self._byte()).decode(),
            selectivity_hint=self._byte() if first_byte & _HINT_FLAG else 0,
            cursor=self._cursor(is_last=not first_byte & _LAGGING_FLAG),
            lagging=tuple(self._lagging()) if first_byte & _LAGGING_FLAG else (),
        )
        if self._offset != len(self._payload):
            raise ValueError("bytes after the end")
        return token

    def _lagging(self) -> Iterator[LaggingShards]:
        while self._offset < len(self._payload):
            cursor = self._cursor(is_last=False)
            yield LaggingShards(cursor, tuple(accumulate(self._number() for _ in range(self._number()))))

    def _cursor(self, *, is_last: bool) -> Cursor:
        index, kind = divmod(self._number(), 4)
        if kind == _GAP:
            return Cursor(index)
        ordinal, text = self._number(), self._text(is_last=is_last and kind == _TEXT)
        value: RangeValue = _parse_number(text) if kind == _NUMBER_WITH_RECORD else text
        record = None if kind == _TEXT else RecordPosition(self._number(), self._text(is_last=is_last))
        return Cursor(index, value, ordinal, record)

    def _byte(self) -> int:
        self._offset += 1
        return self._payload[self._offset - 1]

    def _bytes(self, count: int) -> bytes:
        self._offset += count
        if self._offset > len(self._payload):
            raise IndexError("payload too short")
        return self._payload[self._offset - count : self._offset]

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _text(self, *, is_last: bool) -> str:
        return self._bytes(len(self._payload) - self._offset if is_last else self._number()).decode()


def _parse_number(text: str) -> int | Decimal:
    number = Decimal(text)
    if not number.is_finite() or number.adjusted() > _MAX_EXPONENT:
        raise ValueError("not a number of an index")
    return int(number) if number == number.to_integral_value() else number
