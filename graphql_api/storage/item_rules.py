"""Records as every engine keeps and compares them: at most 400 KB, numbers of 38 digits, equality by value."""

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
"""enough for 10 to the power of 126: a longer int is beyond the range, whatever its digits"""


def number_problem(value: int | Decimal) -> str | None:
    """Why a number cannot be stored exactly, or None."""
    if isinstance(value, int):
        if -(10**MAX_DIGITS) < value < 10**MAX_DIGITS:
            return None
        if value.bit_length() > _MAX_NUMBER_BITS:
            return "is beyond 9.99E+125"
        value = Decimal(value)
    if not value.is_finite():
        return "is no finite number"
    if not value:
        return None
    if not MIN_EXPONENT <= value.adjusted() <= MAX_EXPONENT:
        return "lies outside of 1E-130 to 9.99E+125"
    digits = len(significant_digits(value))
    return f"has {digits} digits, at most {MAX_DIGITS} can be kept" if digits > MAX_DIGITS else None


def refuse_large(item: Item, name: str = "A record") -> None:
    """Refuses a record that is larger than any engine keeps."""
    size = record_size(item)
    if size > MAX_RECORD_BYTES:
        raise ItemTooLarge(f"{name} has {size:,} bytes, at most {MAX_RECORD_BYTES:,} are allowed. Make it smaller.")


def same(one: Any, other: Any) -> bool:
    """Whether two attribute values are equal as an engine compares them: 1 is 1.0 but never true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(part, other[name]) for name, part in one.items())
    return bool(one == other)
