"""A record's key as one short text that outlives restarts and releases (docs/record-keys.md).

It says which entity, tenant, id and child ids it means, and in which shard generation the record lives, so that one
read finds it whatever has grown since. It is signed, not encrypted: a changed, cut or foreign one is refused, but its
parts are no secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from hmac import compare_digest
from uuid import UUID

from graphql_api.errors import InvalidRecordKey
from graphql_api.keys.codec import shown
from graphql_api.keys.urltext import from_text, to_text

VERSION = 1
MOST_CHILDREN = 3
MAX_KEY_CHARACTERS = 8192
_MAC_BYTES = 8
_LAST_GENERATION = 254

KeyValue = str | int | Decimal | UUID | date | datetime | timedelta
"""What a part of a record key may be; it comes back with its type."""


@dataclass(frozen=True, slots=True)
class RecordKey:
    """Names one record of one tenant, for ever."""

    origin: str
    """name of the entity, as in hash keys"""
    ids: tuple[KeyValue, ...]
    children: tuple[KeyValue, ...] = ()
    tenant: str | None = None
    generation: int | None = None
    """the shard generation in which the record was created, where it is known"""


class RecordKeySeal:
    """Writes and reads record keys; its secret is never changed."""

    def __init__(self, secret: bytes) -> None:
        self._key = blake2b(secret, digest_size=64, person=b"shardql-record").digest()

    def seal(self, key: RecordKey) -> str:
        """The key as a text; `ValueError` for what no record can be named by."""
        payload = _pack(key)
        text = to_text(payload + self._mac(payload))
        if len(text) > MAX_KEY_CHARACTERS:
            raise ValueError(f"A record key has at most {MAX_KEY_CHARACTERS:,} characters, not {len(text):,}.")
        return text

    def open(self, text: object, *, origin: str, tenant: str | None, argument: str = "id") -> RecordKey:
        """The record key in a text, if it was made here for this entity and tenant."""
        octets = from_text(text, MAX_KEY_CHARACTERS)
        if octets is None or not compare_digest(octets[-_MAC_BYTES:], self._mac(octets[:-_MAC_BYTES])):
            raise _no_key(argument)
        key = _unpack(octets[:-_MAC_BYTES], argument)
        if key.tenant != tenant:
            raise _no_key(argument)
        if key.origin != origin:
            raise InvalidRecordKey(
                f"{argument} is the key of a record of {key.origin!r}, and one of {origin!r} is asked for: pass one of "
                f"{origin!r}.",
                argument=argument,
            )
        return key

    def _mac(self, payload: bytes) -> bytes:
        return blake2b(payload, key=self._key, digest_size=_MAC_BYTES).digest()


def _no_key(argument: str) -> InvalidRecordKey:
    return InvalidRecordKey(f"{argument} is no record key: pass one exactly as you received it.", argument=argument)


# --- writing ---------------------------------------------------------------------------------------------------


def _pack(key: RecordKey) -> bytes:
    if not key.origin or len(key.children) > MOST_CHILDREN:
        raise ValueError(f"A record key has an origin and at most {MOST_CHILDREN} child ids.")
    if key.generation is not None and not 0 <= key.generation <= _LAST_GENERATION:
        raise ValueError(f"A record key names a generation from 0 to {_LAST_GENERATION}, not {key.generation}.")
    out = bytearray((VERSION, 0 if key.generation is None else key.generation + 1))
    _put_text(out, key.origin)
    out.append(key.tenant is not None)
    if key.tenant is not None:
        _put_text(out, key.tenant)
    out += bytes((len(key.ids), len(key.children)))
    for value in (*key.ids, *key.children):
        tag = _tag_of(value)
        out += tag.encode()
        _put_text(out, _WRITERS[tag](value))
    return bytes(out)


def _put_text(out: bytearray, text: str) -> None:
    octets = text.encode()
    if len(octets) > MAX_KEY_CHARACTERS:
        raise ValueError(f"A part of {len(octets):,} bytes does not fit into a record key.")
    out += len(octets).to_bytes(2, "big") + octets


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(
            f"{shown(value)} can be no part of a record key: it lies outside of all years in UTC."
        ) from None


def _tag_of(value: object) -> str:
    # A datetime is a date and a bool is an int, so the exact type decides.
    tag = _TAGS.get(type(value))
    nameless = isinstance(value, datetime) and value.utcoffset() is None
    unequal = isinstance(value, Decimal) and not value.is_finite()
    if tag is None or nameless or unequal:
        raise ValueError(f"{shown(value)} can be no part of a record key.")
    return tag


_TAGS: Mapping[type, str] = {
    str: "s", int: "i", Decimal: "n", UUID: "u", date: "d", datetime: "t", timedelta: "p"
}  # fmt: skip

_WRITERS: Mapping[str, Callable[..., str]] = {
    "s": str,
    "i": str,
    "n": str,
    "u": lambda value: str(value.hex),
    "d": date.isoformat,
    "t": lambda value: str(_in_utc(value).isoformat()),
    "p": lambda value: str(value // timedelta(microseconds=1)),
}

_READERS: Mapping[str, Callable[[str], KeyValue]] = {
    "s": str,
    "i": int,
    "n": Decimal,
    "u": UUID,
    "d": date.fromisoformat,
    "t": datetime.fromisoformat,
    "p": lambda text: timedelta(microseconds=int(text)),
}


# --- reading ---------------------------------------------------------------------------------------------------


def _unpack(payload: bytes, argument: str) -> RecordKey:
    """Reads what `_pack` wrote; the signature was right, so anything else was written by another release."""
    try:
        return _Reader(payload).key()
    except (IndexError, KeyError, ValueError, ArithmeticError) as problem:
        raise InvalidRecordKey(
            f"{argument} was made by another release of this service: ask for the record anew.", argument=argument
        ) from problem


class _Reader:
    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def key(self) -> RecordKey:
        if self._octet() != VERSION:
            raise ValueError("another version")
        generation = self._octet()
        origin = self._text()
        tenant = self._text() if self._octet() else None
        ids, children = self._octet(), self._octet()
        values = [_READERS[chr(self._octet())](self._text()) for _ in range(ids + children)]
        if self._at != len(self._octets):
            raise ValueError("something is left")
        return RecordKey(
            origin, tuple(values[:ids]), tuple(values[ids:]), tenant, generation - 1 if generation else None
        )

    def _octet(self) -> int:
        self._at += 1
        return self._octets[self._at - 1]

    def _text(self) -> str:
        length = self._octet() << 8 | self._octet()
        self._at += length
        if self._at > len(self._octets):
            raise IndexError("cut short")
        return self._octets[self._at - length : self._at].decode()
