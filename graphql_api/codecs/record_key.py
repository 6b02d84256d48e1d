"""A record's key as one short text that outlives restarts and releases (docs/record-keys.md).

It says which entity, tenant, id and child ids it means, and in which shard generation the record lives, so that one
read finds it whatever has grown since. It is signed, not encrypted: a changed, cut or foreign one is refused, but its
parts are no secret.
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

from graphql_api.codecs.base64url import from_text, to_text
from graphql_api.codecs.scalar_codec import shown
from graphql_api.errors import InvalidRecordKey

VERSION = 1
MAX_CHILDREN = 3
MAX_KEY_CHARACTERS = 8192
MIN_SECRET_BYTES = 32
LAST_GENERATION = 254
_MAC_BYTES = 8

KeyValue = str | int | Decimal | UUID | date | datetime | timedelta | Enum
"""What a part of a record key may be; it comes back with its type. Enums are sealed by their declared place."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordKey:
    """Names one record of one tenant, for ever.

    Keys are equal that name the same record; in which generation that lives is only a hint of where it is found.
    """

    EMPTY: ClassVar["RecordKey"]
    """names nothing: it is false, and equal to no other key"""

    origin: str
    """name of the entity, as in hash keys"""
    ids: tuple[KeyValue, ...]
    children: tuple[KeyValue, ...] = ()
    tenant: str | None = None
    generation: int | None = None
    """the shard generation in which the record was created, where it is known"""

    def __post_init__(self) -> None:
        if not self.origin and (self.ids or self.children or self.tenant is not None or self.generation is not None):
            raise ValueError(
                "A record key without an origin is the empty one, which has no other part: name an entity."
            )

    def __bool__(self) -> bool:
        return bool(self.origin)

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, RecordKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        """The parts for people to read; what clients get is sealed."""
        if not self:
            return "(empty)"
        parts = "; ".join(", ".join(map(_readable, part)) for part in (self.ids, self.children) if part)
        return f"{'' if self.tenant is None else f'{self.tenant}|'}{self.origin}({parts})"

    def _identity(self) -> tuple[object, ...]:
        """Values of different types are different, though Python may say that they are equal."""
        ids, children = ([(type(value), value) for value in part] for part in (self.ids, self.children))
        return self.origin, self.tenant, tuple(ids), tuple(children)


RecordKey.EMPTY = RecordKey("", ())


def _readable(value: KeyValue) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return value.isoformat() if isinstance(value, date) else str(value)


class RecordKeySeal:
    """Writes and reads record keys; its secret is never changed."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ValueError(f"The secret of record keys has at least {MIN_SECRET_BYTES} random bytes.")
        self._key = blake2b(secret, digest_size=64, person=b"shardql-record").digest()

    @staticmethod
    def new_secret() -> bytes:
        """A secret to keep for as long as there are records."""
        return token_bytes(MIN_SECRET_BYTES)

    @classmethod
    def new(cls) -> "RecordKeySeal":
        """One with a secret of its own."""
        return cls(cls.new_secret())

    def seal(self, key: RecordKey) -> str:
        """The key as a text; `ValueError` for what no record can be named by."""
        payload = _pack(key)
        text = to_text(payload + self._mac(payload))
        if len(text) > MAX_KEY_CHARACTERS:
            raise ValueError(f"A record key has at most {MAX_KEY_CHARACTERS:,} characters, not {len(text):,}.")
        return text

    def is_sealed(self, text: object) -> bool:
        """Whether a text was written here, for whatever entity and tenant."""
        return self._payload(text) is not None

    def open(self, text: object, *, origin: str | None = None, tenant: str | None, argument: str = "id") -> RecordKey:
        """The record key in a text, if it was made here for this tenant, and for this entity if one is named."""
        payload = self._payload(text)
        if payload is None:
            raise _no_key(argument)
        key = _unpack(payload, argument)
        if key.tenant != tenant:
            raise _no_key(argument)
        if origin is not None:
            check_origin(key, origin, argument)
        return key

    def _payload(self, text: object) -> bytes | None:
        """What was signed, if it was signed with this secret."""
        octets = from_text(text, MAX_KEY_CHARACTERS)
        if octets is None or not compare_digest(octets[-_MAC_BYTES:], self._mac(octets[:-_MAC_BYTES])):
            return None
        return octets[:-_MAC_BYTES]

    def _mac(self, payload: bytes) -> bytes:
        return blake2b(payload, key=self._key, digest_size=_MAC_BYTES).digest()


def check_origin(key: RecordKey, origin: str, argument: str) -> None:
    """Refuses the key of another entity's record."""
    if key.origin != origin:
        raise InvalidRecordKey(
            f"{argument} is the key of a record of {key.origin!r}, and one of {origin!r} is asked for: pass one of "
            f"{origin!r}.",
            argument=argument,
        )


def _no_key(argument: str) -> InvalidRecordKey:
    return InvalidRecordKey(f"{argument} is no record key: pass one exactly as you received it.", argument=argument)


# --- writing ---------------------------------------------------------------------------------------------------


def _pack(key: RecordKey) -> bytes:
    if not key.origin or len(key.children) > MAX_CHILDREN:
        raise ValueError(f"A record key has an origin and at most {MAX_CHILDREN} child ids.")
    if key.generation is not None and not 0 <= key.generation <= LAST_GENERATION:
        raise ValueError(f"A record key names a generation from 0 to {LAST_GENERATION}, not {key.generation}.")
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
