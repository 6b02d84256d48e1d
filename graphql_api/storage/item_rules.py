"""Rules that every engine applies to records: sizes, numbers, equality of values, and conditions of writes."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from orjson import dumps

from graphql_api.errors import ConditionFailed, ItemTooLarge, StoreRefused
from graphql_api.storage.values import AttributeValue, Expect, Item, Key

MAX_RECORD_BYTES = 400 * 1024
MAX_DIGITS = 38
MAX_DEPTH = 32
MIN_EXPONENT, MAX_EXPONENT = -130, 125

_MAX_NUMBER_BITS = 420
"""enough for 10 to the power of 126; an int with more bits is out of range whatever its digits"""


# --- values ----------------------------------------------------------------------------------------------------


def check_number(value: int | Decimal, where: str, remedy: str = "store it as text") -> None:
    """Refuse a number that cannot be stored exactly."""
    problem = _number_problem(value)
    if problem is not None:
        raise StoreRefused(f"{where}: the number {problem}. Round it, or {remedy}.")


def _number_problem(value: int | Decimal) -> str | None:
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
    digits = len("".join(map(str, value.as_tuple().digits)).strip("0"))
    return f"has {digits} digits, at most {MAX_DIGITS} can be stored" if digits > MAX_DIGITS else None


def check_depth(depth: int, where: str) -> None:
    """Refuse a value that is nested too deeply."""
    if depth > MAX_DEPTH:
        raise StoreRefused(f"{where} is nested deeper than {MAX_DEPTH} levels. Reduce the nesting.")


def set_type(value: frozenset[Any], where: str) -> Literal["SS", "BS", "NS"]:
    """Return the type of a set. Refuse an empty set, and a set of several types."""
    if not value:
        raise StoreRefused(f"{where} is an empty set. Omit the attribute instead.")
    if all(isinstance(part, str) for part in value):
        return "SS"
    if all(isinstance(part, bytes) for part in value):
        return "BS"
    if all(map(is_number, value)):
        return "NS"
    raise StoreRefused(f"{where} mixes types in a set. Use only texts, only numbers or only bytes.")


def is_number(value: Any) -> bool:
    """Return whether a value is a number. A boolean is none."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def unsupported_type_error(value: Any, where: str) -> StoreRefused:
    """Return the error for a value of a type that cannot be stored."""
    hint = " Use Decimal for fractions." if isinstance(value, float) else ""
    return StoreRefused(f"{where} is a {type(value).__name__}, which cannot be stored.{hint}")


def values_equal(left: Any, right: Any) -> bool:
    """Return whether an engine considers two attribute values equal: 1 equals 1.0, but never true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(values_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(values_equal(part, right[name]) for name, part in left.items())
    return bool(left == right)


def canonical_json(value: AttributeValue) -> Any:
    """Return JSON that is the same for equal values only: 1 equals 1.0, but neither "1" nor true."""
    match value:
        case None | bool() | str():
            return value
        case int() | Decimal():
            digits = format(Decimal(value), "f") if value else "0"
            return ["number", digits.rstrip("0").rstrip(".") if "." in digits else digits]
        case bytes():
            return ["bytes", value.hex()]
        case Mapping():
            return {name: canonical_json(item) for name, item in value.items()}
        case AbstractSet():
            return ["set", *sorted((canonical_json(item) for item in value), key=dumps)]
        case _:
            return ["list", *map(canonical_json, value)]


# --- sizes -----------------------------------------------------------------------------------------------------


def check_record_size(item: Item, name: str = "A record", limit: int = MAX_RECORD_BYTES) -> None:
    """Refuse a record that exceeds the size limit."""
    size = record_size(item)
    if size > limit:
        raise ItemTooLarge(f"{name} has {size:,} bytes, at most {limit:,} are allowed. Make it smaller.")


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


def _number_size(number: Decimal) -> int:
    """Return one byte, one for a minus sign, and one per pair of digits, where pairs align with the decimal point.

    DynamoDB Local charges exactly this. The documentation of DynamoDB only states that it is approximate.
    """
    if not number:
        return 1
    digits = "".join(map(str, number.as_tuple().digits))
    last = int(number.as_tuple().exponent) + len(digits) - len(digits.rstrip("0"))
    return number.adjusted() // 2 - last // 2 + 2 + (number < 0)


# --- conditions of writes --------------------------------------------------------------------------------------

MAX_CONDITION_ATTRIBUTES = 100
"""attributes in the condition of one write; DynamoDB allows 300 operators and 4 KB"""

_MAX_NAMED = 3
"""attributes named in an error message"""


class FailedCondition(NamedTuple):
    """A condition that did not hold, with the record that was stored instead."""

    position: int
    key: Key
    expect: Expect
    old: dict[str, Any] | None
    """the stored record, or None"""


def check_condition(expect: Expect) -> None:
    """Refuse a condition that is contradictory or exceeds the limits."""
    if not (expect.attributes or expect.without):
        return
    if expect.absent and (expect.attributes or expect.without):
        raise StoreRefused(
            "A record is expected both to be absent and to have or lack attributes. Expect only one of them."
        )
    both = sorted(expect.attributes.keys() & set(expect.without))
    if both:
        raise StoreRefused(f"{both[0]!r} is expected both to have a value and to be missing. Expect only one of them.")
    named = len(expect.attributes) + len(expect.without)
    if named > MAX_CONDITION_ATTRIBUTES:
        raise StoreRefused(
            f"A condition names {named} attributes, at most {MAX_CONDITION_ATTRIBUTES} are allowed. Test the write id "
            "of the record instead."
        )


def condition_holds(expect: Expect, old: Item | None) -> bool:
    """Return whether the stored record, or its absence, satisfies the condition."""
    if expect.absent or old is None:
        return expect.absent and old is None
    return not _differing_attributes(expect, old)


def condition_failed_error(failed: Sequence[FailedCondition]) -> ConditionFailed:
    """Return the error for one or more conditions that did not hold."""
    first = failed[0]
    message = (
        f"The record {tuple(first.key)!r} does not meet the condition: {_describe_failure(first.expect, first.old)}"
    )
    if len(failed) > 1:
        others = len(failed) - 1
        message += f", and {others} other{'s do not' if others > 1 else ' does not'} either"
    failures = {one.position: one.old for one in failed}
    return ConditionFailed(f"{message}.", position=first.position, old=first.old, failures=failures)


def _describe_failure(expect: Expect, old: Item | None) -> str:
    """Describe the difference by attribute names only, because values may be secrets."""
    if expect.absent:
        return "it already exists"
    if old is None:
        return "it does not exist"
    names = _differing_attributes(expect, old)
    listed = ", ".join(map(repr, names[:_MAX_NAMED]))
    if not names:
        return "it differs"
    return f"it differs in {listed}{' and more' if len(names) > _MAX_NAMED else ''}"


def _differing_attributes(expect: Expect, old: Item) -> list[str]:
    changed = [
        name for name, value in expect.attributes.items() if name not in old or not values_equal(old[name], value)
    ]
    return [*changed, *(name for name in expect.without if name in old)]
