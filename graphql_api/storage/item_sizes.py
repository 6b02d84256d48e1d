"""Sizes of records as DynamoDB counts them: names and values, independent of their serialization."""

from collections.abc import Mapping
from decimal import Decimal

from graphql_api.storage.values import AttributeValue, Item

READ_UNIT_BYTES = 4096
"""bytes per read unit"""


def record_size(item: Item) -> int:
    """Return the size of a record in bytes, which the 400 KB limit and capacity units refer to."""
    return sum(attribute_size(name, value) for name, value in item.items())


def attribute_size(name: str, value: AttributeValue) -> int:
    """Return the size of an attribute in bytes, including its name."""
    return len(name.encode()) + value_size(value)


def value_size(value: AttributeValue) -> int:
    """Return the size of a value in bytes. A list or map adds three bytes, and one byte per element."""
    match value:
        case None | bool():
            return 1
        case str():
            return len(value.encode())
        case int() | Decimal():
            return _number_size(Decimal(value))
        case bytes():
            return len(value)
        case Mapping():
            return 3 + record_size(value) + len(value)
        case list():
            return 3 + sum(map(value_size, value)) + len(value)
        case _:
            return sum(map(value_size, value))


def read_units(size: int, *, consistent: bool = False) -> float:
    """Return the read units for a read of `size` bytes: half a unit per started 4 KB, at least half a unit."""
    blocks = max(1, -(-size // READ_UNIT_BYTES))
    return float(blocks) if consistent else blocks / 2


def _number_size(number: Decimal) -> int:
    """Return one byte, one for a minus sign, and one per pair of digits, where pairs align with the decimal point.

    DynamoDB Local charges exactly this. The documentation of DynamoDB only states that it is approximate.
    """
    if not number:
        return 1
    digits = "".join(map(str, number.as_tuple().digits))
    last = int(number.as_tuple().exponent) + len(digits) - len(digits.rstrip("0"))
    return number.adjusted() // 2 - last // 2 + 2 + (number < 0)


def significant_digits(number: Decimal) -> str:
    """Return the digits of a number without leading and trailing zeros."""
    return "".join(map(str, number.as_tuple().digits)).strip("0")
