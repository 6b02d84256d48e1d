"""Record keys: one short signed string that identifies a record, valid across restarts and releases.

A key holds the entity, the tenant, the id, the child ids and the shard generation of the record.
With the generation, one read finds the record even after the shards have grown.
Keys are signed, not encrypted: changed, truncated or foreign keys are refused, but the parts are readable.
The format is documented in docs/record-keys.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from hmac import compare_digest
from secrets import token_bytes
from typing import ClassVar
from uuid import UUID

from graphql_api.codecs.base64url import base64url_decode, base64url_encode
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import InvalidRecordKey

VERSION = 1
MAX_CHILDREN = 3
MAX_KEY_CHARACTERS = 8192
MIN_SECRET_BYTES = 32
MAX_GENERATION = 254
_MAC_BYTES = 8

KeyValue = str | int | Decimal | UUID | date | datetime | timedelta | Enum
"""Type of a part of a record key. Parts keep their type. Enums must be replaced by their ordinal before sealing."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordKey:
    """Identify one record of one tenant, permanently.

    Keys of the same record are equal: the generation is only a hint where to read and does not count.
    """

    EMPTY: ClassVar["RecordKey"]
    """the key of no record: it is falsy, and equal to no other key"""

    origin: str
    """name of the entity, as in hash keys"""
    ids: tuple[KeyValue, ...]
    children: tuple[KeyValue, ...] = ()
    tenant: str | None = None
    generation: int | None = None
    """the shard generation in which the record was created, if known"""

    def __post_init__(self) -> None:
        if not self.origin and (self.ids or self.children or self.tenant is not None or self.generation is not None):
            raise ValueError(
                "A record key without an origin is the empty key, which has no other part: name an entity."
            )

    def __bool__(self) -> bool:
        return bool(self.origin)

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, RecordKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        """Format the parts for people. Clients receive the sealed form instead."""
        if not self:
            return "(empty)"
        parts = "; ".join(", ".join(map(_format_part, part)) for part in (self.ids, self.children) if part)
        return f"{'' if self.tenant is None else f'{self.tenant}|'}{self.origin}({parts})"

    def _identity(self) -> tuple[object, ...]:
        """Return what equality compares. The types are part of it: Python has equal values of different types."""
        ids, children = ([(type(value), value) for value in part] for part in (self.ids, self.children))
        return self.origin, self.tenant, tuple(ids), tuple(children)


RecordKey.EMPTY = RecordKey("", ())


def _format_part(value: KeyValue) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return value.isoformat() if isinstance(value, date) else str(value)


class RecordKeySeal:
    """Sign record keys and verify them. The secret must never change."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"The secret of record keys has at least {MIN_SECRET_BYTES} random bytes.")
        self._key = blake2b(secret, digest_size=64, person=b"shardql-record").digest()

    @staticmethod
    def new_secret() -> bytes:
        """Generate a secret. Keep it as long as there are records."""
        return token_bytes(MIN_SECRET_BYTES)

    @classmethod
    def new(cls) -> "RecordKeySeal":
        """Create a seal with a new secret."""
        return cls(cls.new_secret())

    def seal(self, key: RecordKey) -> str:
        """Encode and sign a key. Raise `ValueError` for a key that cannot identify a record."""
        payload = _pack(key)
        text = base64url_encode(payload + self._mac(payload))
        if len(text) > MAX_KEY_CHARACTERS:
            raise ValueError(f"A record key has at most {MAX_KEY_CHARACTERS:,} characters, not {len(text):,}.")
        return text

    def is_sealed(self, text: object) -> bool:
        """Whether the text is a key signed with this secret, for any entity and tenant."""
        return self._payload(text) is not None

    def open(self, text: object, *, origin: str | None = None, tenant: str | None, argument: str = "id") -> RecordKey:
        """Verify and decode a sealed key. Raise `InvalidRecordKey` for another tenant, or for another `origin`."""
        payload = self._payload(text)
        if payload is None:
            raise _invalid_key(argument)
        key = _unpack(payload, argument)
        if key.tenant != tenant:
            raise _invalid_key(argument)
        if origin is not None:
            check_origin(key, origin, argument)
        return key

    def _payload(self, text: object) -> bytes | None:
        """Return the signed bytes, or None if they were not signed with this secret."""
        octets = base64url_decode(text, MAX_KEY_CHARACTERS)
        if octets is None or not compare_digest(octets[-_MAC_BYTES:], self._mac(octets[:-_MAC_BYTES])):
            return None
        return octets[:-_MAC_BYTES]

    def _mac(self, payload: bytes) -> bytes:
        return blake2b(payload, key=self._key, digest_size=_MAC_BYTES).digest()


def check_origin(key: RecordKey, origin: str, argument: str) -> None:
    """Raise `InvalidRecordKey` if the key belongs to another entity."""
    if key.origin != origin:
        raise InvalidRecordKey(
            f"{argument} is the key of a record of {key.origin!r}, and one of {origin!r} is expected: pass one of "
            f"{origin!r}.",
            argument=argument,
        )


def _invalid_key(argument: str) -> InvalidRecordKey:
    return InvalidRecordKey(f"{argument} is no record key: pass one exactly as you received it.", argument=argument)


# --- writing ---------------------------------------------------------------------------------------------------


def _pack(key: RecordKey) -> bytes:
    if not key.origin or len(key.children) > MAX_CHILDREN:
        raise ValueError(f"A record key has an origin and at most {MAX_CHILDREN} child ids.")
    if key.generation is not None and not 0 <= key.generation <= MAX_GENERATION:
        raise ValueError(f"A record key has a generation from 0 to {MAX_GENERATION}, not {key.generation}.")
    payload = bytearray((VERSION, 0 if key.generation is None else key.generation + 1))
    _append_text(payload, key.origin)
    payload.append(key.tenant is not None)
    if key.tenant is not None:
        _append_text(payload, key.tenant)
    payload += bytes((len(key.ids), len(key.children)))
    for value in (*key.ids, *key.children):
        tag = _tag_of(value)
        payload += tag.encode()
        _append_text(payload, _WRITERS[tag](value))
    return bytes(payload)


def _append_text(payload: bytearray, text: str) -> None:
    octets = text.encode()
    if len(octets) > MAX_KEY_CHARACTERS:
        raise ValueError(f"A part of {len(octets):,} bytes does not fit into a record key.")
    payload += len(octets).to_bytes(2, "big") + octets


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(
            f"{short_repr(value)} can be no part of a record key: it is outside of the years 1 to 9999 in UTC."
        ) from None


def _tag_of(value: object) -> str:
    # A datetime is a date and a bool is an int, so the exact type decides.
    tag = _TAGS.get(type(value))
    is_ambiguous = isinstance(value, datetime) and value.utcoffset() is None
    is_not_finite = isinstance(value, Decimal) and not value.is_finite()
    if tag is None or is_ambiguous or is_not_finite:
        raise ValueError(f"{short_repr(value)} can be no part of a record key.")
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
    "t": lambda value: str(_to_utc(value).isoformat()),
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
    """Decode what `_pack` wrote. The signature was valid, so any other form was written by another release."""
    try:
        return _PayloadReader(payload).read_key()
    except (IndexError, KeyError, ValueError, ArithmeticError) as problem:
        raise InvalidRecordKey(
            f"{argument} was made by another release of this service: request the record again.", argument=argument
        ) from problem


class _PayloadReader:
    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._position = 0

    def read_key(self) -> RecordKey:
        if self._octet() != VERSION:
            raise ValueError("another version")
        generation = self._octet()
        origin = self._text()
        tenant = self._text() if self._octet() else None
        ids, children = self._octet(), self._octet()
        values = [_READERS[chr(self._octet())](self._text()) for _ in range(ids + children)]
        if self._position != len(self._octets):
            raise ValueError("trailing bytes")
        return RecordKey(
            origin, tuple(values[:ids]), tuple(values[ids:]), tenant, generation - 1 if generation else None
        )

    def _octet(self) -> int:
        self._position += 1
        return self._octets[self._position - 1]

    def _text(self) -> str:
        length = self._octet() << 8 | self._octet()
        self._position += length
        if self._position > len(self._octets):
            raise IndexError("truncated")
        return self._octets[self._position - length : self._position].decode()
