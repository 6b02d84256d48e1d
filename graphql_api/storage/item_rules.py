"""Rules that every engine applies to records: size, numbers, and equality of values."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from graphql_api.errors import ItemTooLarge
from graphql_api.storage.item_sizes import record_size, significant_digits
from graphql_api.storage.values import Item

MAX_RECORD_BYTES = 400 * 1024
MAX_DIGITS = 38
MAX_DEPTH = 32
MIN_EXPONENT, MAX_EXPONENT = -130, 125

_MAX_NUMBER_BITS = 420
"""enough for 10 to the power of 126; an int with more bits is out of range whatever its digits"""


def number_problem(value: int | Decimal) -> str | None:
    """Return why a number cannot be stored exactly, or None if it can."""
    if isinstance(value, int):
        if -(10**MAX_DIGITS) < value < 10**MAX_DIGITS:
            return None
        if value.bit_length() > _MAX_NUMBER_BITS:
            return "is beyond 9.99E+125"
        value = Decimal(value)
    if not value.is_finite():
        return "is not a finite number"
    if not value:
        return None
    if not MIN_EXPONENT <= value.adjusted() <= MAX_EXPONENT:
        return "is outside 1E-130 to 9.99E+125"
    digits = len(significant_digits(value))
    return f"has {digits} digits, at most {MAX_DIGITS} can be stored" if digits > MAX_DIGITS else None


def check_record_size(item: Item, name: str = "A record") -> None:
    """Refuse a record that exceeds the size limit."""
    size = record_size(item)
    if size > MAX_RECORD_BYTES:
        raise ItemTooLarge(f"{name} has {size:,} bytes, at most {MAX_RECORD_BYTES:,} are allowed. Make it smaller.")


def values_equal(left: Any, right: Any) -> bool:
    """Return whether an engine considers two attribute values equal: 1 equals 1.0, but never true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(values_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(values_equal(part, right[name]) for name, part in left.items())
    return bool(left == right)
