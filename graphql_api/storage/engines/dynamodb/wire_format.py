"""The wire format of DynamoDB: every value is tagged with its type."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from graphql_api.errors import StoreRefused
from graphql_api.storage import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_RECORD_BYTES,
    Item,
    check_record_size,
    malformed_text_error,
    number_problem,
)

Wire = dict[str, Any]
"""A value tagged with its type: `{"S": "text"}`"""

WireItem = dict[str, Wire]

_SAFE_CHARACTERS = MAX_RECORD_BYTES // 8
"""number of characters below which the size of a record needs no exact count"""

_MAX_ESCAPE_LENGTH = 12
"""bytes of a character that is escaped in JSON: `\\ud83d\\ude00`"""

_SHORT_LIMIT = 10**MAX_DIGITS


def encode_item(item: Item) -> WireItem:
    """Encode a record, identically for equal records. Refuse a record that exceeds the limits of an engine."""
    if "" in item:
        raise StoreRefused("A record has an attribute with an empty name. Name every attribute.")
    encoded = _encode_map(item, "the record", 0)
    if _may_be_large(encoded):
        check_record_size(item)
    return encoded


def max_wire_size(item: WireItem) -> int:
    """Return an upper bound of the bytes sent for a record. The driver escapes all characters that are not ASCII."""
    characters = _max_characters(item)
    if characters is None or characters > _SAFE_CHARACTERS:
        return len(json.dumps(item, default=_base64))
    return _MAX_ESCAPE_LENGTH * (characters + 2 * len(item))


def _base64(content: bytes) -> str:
    """Return a placeholder of the length that the bytes have when sent."""
    return "=" * (-(-len(content) // 3) * 4)


def encode_value(value: Any, where: str, depth: int = 1) -> Wire:
    """Encode a value with its type tag."""
    if depth > MAX_DEPTH:
        raise StoreRefused(f"{where} is nested deeper than {MAX_DEPTH} levels. Reduce the nesting.")
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": _encode_text(value, where)}
        case int() | Decimal():
            return {"N": encode_number(value, where)}
        case bytes():
            return {"B": value}
        case list():
            return {"L": [encode_value(part, where, depth + 1) for part in value]}
        case Mapping():
            return {"M": _encode_map(value, where, depth)}
        case frozenset():
            return _encode_set(value, where)
    hint = " Use Decimal for fractions." if isinstance(value, float) else ""
    raise StoreRefused(f"{where} is a {type(value).__name__}, which cannot be stored.{hint}")


def decode_item(item: WireItem) -> dict[str, Any]:
    """Decode a record."""
    return {name: decode_value(value) for name, value in item.items()}


def decode_value(value: Wire) -> Any:
    """Decode a value."""
    if len(value) != 1:  # the driver omits unknown types
        raise ValueError(f"an attribute with {len(value)} types: {value!r}")
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL":
            return content
        case "N":
            return decode_number(content)
        case "NULL":
            return None
        case "B":
            return bytes(content)
        case "L":
            return [decode_value(part) for part in content]
        case "M":
            return decode_item(content)
        case "SS":
            return frozenset(content)
        case "NS":
            return frozenset(map(decode_number, content))
        case "BS":
            return frozenset(map(bytes, content))
    raise ValueError(f"an attribute with the unknown type {kind!r}")


def decode_number(text: str) -> int | Decimal:
    """Decode a number. Whole numbers are returned as int."""
    if text.isdigit():
        return int(text)
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def encode_number(value: int | Decimal, where: str) -> str:
    """Encode a number with minimal digits."""
    if isinstance(value, int) and -_SHORT_LIMIT < value < _SHORT_LIMIT:
        return str(value)
    problem = number_problem(value)
    if problem is not None:
        raise StoreRefused(f"{where}: the number {problem}. Round it, or store it as text.")
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    if not significant:
        return "0"
    power = int(exponent) + len(text) - len(significant)
    return ("-" if sign else "") + significant + (f"E{power}" if power else "")


def _encode_map(value: Mapping[Any, Any], where: str, depth: int) -> WireItem:
    for name in value:
        if not isinstance(name, str):
            raise StoreRefused(f"{where} has the attribute name {name!r}, which is not text. Use text.")
        _encode_text(name, "the name of an attribute")
    return {name: encode_value(value[name], name, depth + 1) for name in sorted(value)}


def _encode_set(value: frozenset[Any], where: str) -> Wire:
    if not value:
        raise StoreRefused(f"{where} is an empty set. Omit the attribute instead.")
    if all(isinstance(part, str) for part in value):
        return {"SS": [_encode_text(part, where) for part in sorted(value)]}
    if all(isinstance(part, bytes) for part in value):
        return {"BS": sorted(value)}
    if all(isinstance(part, int | Decimal) and not isinstance(part, bool) for part in value):
        return {"NS": [encode_number(part, where) for part in sorted(value)]}
    raise StoreRefused(f"{where} mixes types in a set. Use only texts, only numbers or only bytes.")


def _encode_text(value: str, where: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            raise malformed_text_error(where) from problem
    return str.__str__(value)


def _may_be_large(encoded: WireItem) -> bool:
    """Return whether the size of a record must be counted. Fast for a few short texts."""
    characters = _max_characters(encoded)
    return characters is None or characters > _SAFE_CHARACTERS


def _max_characters(encoded: WireItem) -> int | None:
    """Return an upper bound of the characters of names and values, or None if that requires recursion."""
    size = 0
    for name, value in encoded.items():
        ((kind, content),) = value.items()
        if kind not in {"S", "B", "N", "BOOL", "NULL"}:
            return None
        size += len(name) + (len(content) if kind in {"S", "B"} else 22)
    return size
