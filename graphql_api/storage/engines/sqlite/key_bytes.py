"""Keys as bytes: what SQLite compares, byte by byte, is the order of the values."""

from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

from graphql_api.codecs import DecimalNumber, RangeValue
from graphql_api.storage import MAX_HASH_BYTES, MAX_RANGE_BYTES, Key, check_key_number, key_text, shard_of
from graphql_api.storage.engines.sqlite.test_switches import TieOrder

Point = tuple[bytes, bytes, bytes]
"""A place among the entries of one base: range value, shard, tie."""

BEYOND = b"\xff" * 17
"""above every text (no UTF-8 byte is FF), every encoded number and every digest"""

_NUMBERS = DecimalNumber()


def after(value: bytes) -> bytes:
    """The next value that bytes can have."""
    return value + b"\0"


@lru_cache(maxsize=16_384)
def _base_and_shard(hash_key: str) -> tuple[bytes, bytes]:
    base, shard = shard_of(hash_key)
    return base.encode(), shard.encode()


def base_and_shard(value: Any, where: str) -> tuple[bytes, bytes]:
    """A hash key in the two parts that entries keep; refuses what is no hash key."""
    key_text(value, MAX_HASH_BYTES, where)
    return _base_and_shard(value)


def range_bytes(value: Any, kind: Literal["S", "N"], where: str) -> bytes:
    """A range value in bytes that order like the values; refuses what is no range value."""
    return number_bytes(value, where) if kind == "N" else key_text(value, MAX_RANGE_BYTES, where)


def number_bytes(value: Any, where: str) -> bytes:
    """A numeric key in digits that order like the numbers."""
    check_key_number(value, where)
    return _NUMBERS.encode(Decimal(value)).encode()


def read_range(encoded: bytes, kind: Literal["S", "N"]) -> RangeValue:
    """The range value that was encoded; whole numbers come back as int."""
    return encoded.decode() if kind == "S" else _read_number(encoded)


@lru_cache(maxsize=16_384)
def _read_number(encoded: bytes) -> RangeValue:
    number = _NUMBERS.decode(encoded.decode())
    return int(number) if number == number.to_integral_value() else number


def tie_of(hash_key: bytes, range_key: bytes, order: TieOrder) -> bytes:
    """What orders index entries of one hash key and range value, different for each record."""
    ordered = hash_key.replace(b"\0", b"\0\xff") + b"\0\0" + range_key
    return ordered if order == "key" else blake2b(ordered, digest_size=16).digest()


def check_key(key: Key, where: str) -> tuple[bytes, bytes, bytes]:
    """A table key as base, range and shard."""
    base, shard = base_and_shard(key.hash, f"{where}: the hash key")
    return base, key_text(key.range, MAX_RANGE_BYTES, f"{where}: the range key"), shard
