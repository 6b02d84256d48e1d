"""Record keys: short signed strings that identify records, across restarts and releases.

They are signed, not encrypted: changed or foreign keys are refused. The format is in docs/reference/record-keys.md.
"""

from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from hashlib import blake2b
from hmac import compare_digest
from io import BytesIO
from secrets import token_bytes
from typing import Any, ClassVar

from graphql_api.codecs.base64url import base64url_decode, base64url_encode
from graphql_api.codecs.registry import CODEC_BY_TAG, CODEC_BY_TYPE
from graphql_api.codecs.scalar_codec import short_repr
from graphql_api.errors import InvalidRecordKey, InvalidValue

VERSION = 1
MAX_CHILDREN = 3
MAX_KEY_CHARACTERS = 8192
MIN_SECRET_BYTES = 32
MAX_GENERATION = 254
_MAC_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class RecordKey:
    """Identify one record of one tenant, permanently.

    Keys of the same record are equal: the generation is only a hint where to read and does not count.
    """

    EMPTY: ClassVar["RecordKey"]
    """the key of no record: it is falsy, and equal to no other key"""

    origin: str
    """name of the entity, as in hash keys"""
    ids: tuple[Any, ...]
    """scalars, which keep their types; enums must be replaced by their ordinals before sealing"""
    children: tuple[Any, ...] = ()
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
        # For people: clients receive the sealed form instead.
        if not self:
            return "(empty)"
        parts = "; ".join(", ".join(map(_format_part, part)) for part in (self.ids, self.children) if part)
        return f"{'' if self.tenant is None else f'{self.tenant}|'}{self.origin}({parts})"

    def to_text(self) -> str:
        """Return the key as text for storage, unsigned and without its tenant."""
        try:
            return base64url_encode(_pack(replace(self, tenant=None)))
        except ValueError as problem:
            raise InvalidValue(f"The record key {self} cannot be stored. {problem}") from problem

    @staticmethod
    def from_text(text: str) -> "RecordKey":
        """Return the key in a text that `to_text` made."""
        octets = base64url_decode(text, MAX_KEY_CHARACTERS)
        try:
            return _unpack(BytesIO(octets or b""))
        except (IndexError, KeyError, ValueError, ArithmeticError, InvalidValue) as problem:
            raise InvalidValue(f"{short_repr(text)} is no stored record key.") from problem

    def _identity(self) -> tuple[object, ...]:
        """Return what equality compares. The types are part of it: Python has equal values of different types."""
        ids, children = ([(type(value), value) for value in part] for part in (self.ids, self.children))
        return self.origin, self.tenant, tuple(ids), tuple(children)


RecordKey.EMPTY = RecordKey("", ())


def _format_part(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    return str(value.value if isinstance(value, Enum) else value)


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
        try:
            key = _unpack(BytesIO(payload))
        except (IndexError, KeyError, ValueError, ArithmeticError, InvalidValue) as problem:
            # The signature is valid, so another release has written this form.
            raise InvalidRecordKey(
                f"{argument} was made by another release of this service: request the record again.", argument=argument
            ) from problem
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
        codec = CODEC_BY_TYPE.get(type(value))  # A datetime is a date and a bool is an int: the exact type decides.
        if codec is None or codec.key_tag is None:
            raise ValueError(f"{short_repr(value)} can be no part of a record key.")
        payload += codec.key_tag.encode()
        try:
            _append_text(payload, codec.pack(value))
        except InvalidValue as problem:
            raise ValueError(f"{short_repr(value)} can be no part of a record key. {problem.message}") from problem
    return bytes(payload)


def _append_text(payload: bytearray, text: str) -> None:
    octets = text.encode()
    if len(octets) > MAX_KEY_CHARACTERS:
        raise ValueError(f"A part of {len(octets):,} bytes does not fit into a record key.")
    payload += len(octets).to_bytes(2, "big") + octets


# --- reading ---------------------------------------------------------------------------------------------------


def _unpack(stream: BytesIO) -> RecordKey:
    version, generation = stream.read(2)
    if version != VERSION:
        raise ValueError("another version")
    origin = _read_text(stream)
    (has_tenant,) = stream.read(1)
    tenant = _read_text(stream) if has_tenant else None
    ids, children = stream.read(2)
    values = [CODEC_BY_TAG[stream.read(1).decode()].unpack(_read_text(stream)) for _ in range(ids + children)]
    if stream.read():
        raise ValueError("trailing bytes")
    return RecordKey(origin, tuple(values[:ids]), tuple(values[ids:]), tenant, generation - 1 if generation else None)


def _read_text(stream: BytesIO) -> str:
    length = int.from_bytes(_read(stream, 2), "big")
    return _read(stream, length).decode()


def _read(stream: BytesIO, length: int) -> bytes:
    octets = stream.read(length)
    if len(octets) < length:
        raise ValueError("truncated")
    return octets
