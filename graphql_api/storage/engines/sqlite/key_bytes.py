"""Keys as bytes: their byte order, which SQLite compares, equals the order of the values."""

from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

from graphql_api.codecs import DecimalNumber, RangeValue
from graphql_api.storage import MAX_HASH_BYTES, MAX_RANGE_BYTES, Key, check_key_number, encode_key_text, split_hash_key
from graphql_api.storage.engines.sqlite.engine_quirks import TieOrder

EntryPosition = tuple[bytes, bytes, bytes]
"""The position of an entry within a base: range value, shard, tie-breaker."""

AFTER_EVERYTHING = b"\xff" * 17
"""sorts after every text (UTF-8 has no byte FF), every encoded number and every digest"""

_NUMBERS = DecimalNumber()


def next_bytes(value: bytes) -> bytes:
    """Return the immediate successor of a byte string."""
    return value + b"\0"


@lru_cache(maxsize=16_384)
def _encode_hash_key(hash_key: str) -> tuple[bytes, bytes]:
    base, shard = split_hash_key(hash_key)
    return base.encode(), shard.encode()


def encode_hash_key(value: Any, where: str) -> tuple[bytes, bytes]:
    """Encode a hash key as base and shard, as entries store it. Refuse an invalid hash key."""
    encode_key_text(value, MAX_HASH_BYTES, where)
    return _encode_hash_key(value)


def encode_range_value(value: Any, kind: Literal["S", "N"], where: str) -> bytes:
    """Encode a range value in its order. Refuse an invalid range value."""
    return encode_number(value, where) if kind == "N" else encode_key_text(value, MAX_RANGE_BYTES, where)


def encode_number(value: Any, where: str) -> bytes:
    """Encode a numeric key as digits that sort like the numbers."""
    check_key_number(value, where)
    return _NUMBERS.encode(Decimal(value)).encode()


def decode_range_value(encoded: bytes, kind: Literal["S", "N"]) -> RangeValue:
    """Decode a range value. Whole numbers are returned as int."""
    return encoded.decode() if kind == "S" else _decode_number(encoded)


@lru_cache(maxsize=16_384)
def _decode_number(encoded: bytes) -> RangeValue:
    number = _NUMBERS.decode(encoded.decode())
    return int(number) if number == number.to_integral_value() else number


def tie_breaker(hash_key: bytes, range_key: bytes, order: TieOrder) -> bytes:
    """Return the bytes that order index entries with equal hash key and range value; unique per record."""
    ordered = hash_key.replace(b"\0", b"\0\xff") + b"\0\0" + range_key
    return ordered if order == "key" else blake2b(ordered, digest_size=16).digest()


def encode_table_key(key: Key, where: str) -> tuple[bytes, bytes, bytes]:
    """Encode a table key as base, range key and shard."""
    base, shard = encode_hash_key(key.hash, f"{where}: the hash key")
    return base, encode_key_text(key.range, MAX_RANGE_BYTES, f"{where}: the range key"), shard
