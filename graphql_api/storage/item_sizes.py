"""How many bytes a record has, as DynamoDB counts them: names and values, not how they happen to be written down."""

from collections.abc import Mapping
from decimal import Decimal

from graphql_api.storage.values import AttributeValue, Item

READ_BYTES = 4096
"""of a read unit"""


def record_size(item: Item) -> int:
    """The bytes of a record: what its limit of 400 KB and its capacity units are counted by."""
    return sum(attribute_size(name, value) for name, value in item.items())


def attribute_size(name: str, value: AttributeValue) -> int:
    """The bytes of one attribute, its name included."""
    return len(name.encode()) + value_size(value)


def value_size(value: AttributeValue) -> int:
    """The bytes of a value: three for a list or map and one for each of its parts, on top of what these have."""
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
    """The capacity units of reading so many bytes at once: half a unit for each 4 KB that is begun, never none."""
    begun = max(1, -(-size // READ_BYTES))
    return float(begun) if consistent else begun / 2


def _number_size(number: Decimal) -> int:
    """One byte, one for a minus, and one for each pair of digits, where pairs begin at the decimal point.

    This is what DynamoDB Local charges, to the byte; AWS writes of "approximately" a byte for two significant digits.
    """
    if not number:
        return 1
    digits = "".join(map(str, number.as_tuple().digits))
    last = int(number.as_tuple().exponent) + len(digits) - len(digits.rstrip("0"))
    return number.adjusted() // 2 - last // 2 + 2 + (number < 0)


def significant_digits(number: Decimal) -> str:
    """The digits of a number without zeros at either end."""
    return "".join(map(str, number.as_tuple().digits)).strip("0")
