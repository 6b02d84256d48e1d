"""Records as the protocol writes them: every value under the name of its type."""

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
    malformed_text,
    number_problem,
    refuse_large,
)

Wire = dict[str, Any]
"""A value with its type: `{"S": "text"}`"""

WireItem = dict[str, Wire]

_CERTAINLY_SMALL = MAX_RECORD_BYTES // 8
"""so many characters of Python's own writing: below this, nothing needs to be counted"""

_MAX_ESCAPE_LENGTH = 12
"""bytes of a character as JSON may write it: `\\ud83d\\ude00`"""

_SHORT = 10**MAX_DIGITS


def encode_item(item: Item) -> WireItem:
    """The record as it is sent, the same for equal records; refuses what no engine would keep."""
    if "" in item:
        raise StoreRefused("A record has an attribute without a name. Name every attribute.")
    encoded = _encode_map(item, "the record", 0)
    if _may_be_large(encoded):
        refuse_large(item)
    return encoded


def bytes_sent(item: WireItem) -> int:
    """At most how many bytes the record has on its way, where the driver escapes all that is not ASCII."""
    characters = _characters(item)
    if characters is None or characters > _CERTAINLY_SMALL:
        return len(json.dumps(item, default=_base64))
    return _MAX_ESCAPE_LENGTH * (characters + 2 * len(item))


def _base64(content: bytes) -> str:
    """Octets as long as they are when they are sent."""
    return "=" * (-(-len(content) // 3) * 4)


def encode_value(value: Any, where: str, depth: int = 1) -> Wire:
    """One value with its type."""
    if depth > MAX_DEPTH:
        raise StoreRefused(f"{where} is nested deeper than {MAX_DEPTH} levels. Flatten it.")
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": _text(value, where)}
        case int() | Decimal():
            return {"N": number_text(value, where)}
        case bytes():
            return {"B": value}
        case list():
            return {"L": [encode_value(part, where, depth + 1) for part in value]}
        case Mapping():
            return {"M": _encode_map(value, where, depth)}
        case frozenset():
            return _encode_set(value, where)
    hint = " Use Decimal for fractions." if isinstance(value, float) else ""
    raise StoreRefused(f"{where} is a {type(value).__name__}, which no engine stores.{hint}")


def decode_item(item: WireItem) -> dict[str, Any]:
    """The record that was sent."""
    return {name: decode_value(value) for name, value in item.items()}


def decode_value(value: Wire) -> Any:
    """What stands under the type."""
    if len(value) != 1:  # the driver leaves types out that it does not know
        raise ValueError(f"an attribute of {len(value)} types: {value!r}")
    ((kind, content),) = value.items()
    match kind:
        case "S" | "BOOL":
            return content
        case "N":
            return read_number(content)
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
            return frozenset(map(read_number, content))
        case "BS":
            return frozenset(map(bytes, content))
    raise ValueError(f"an attribute of the type {kind!r}")


def read_number(text: str) -> int | Decimal:
    """The number; a whole one is an int."""
    if text.isdigit():
        return int(text)
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def number_text(value: int | Decimal, where: str) -> str:
    """The number in as few digits as it has."""
    if isinstance(value, int) and -_SHORT < value < _SHORT:
        return str(value)
    problem = number_problem(value)
    if problem is not None:
        raise StoreRefused(f"{where}: the number {problem}. Round it, or store it as text.")
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return "0"
    power = int(exponent) + len(text) - len(kept)
    return ("-" if sign else "") + kept + (f"E{power}" if power else "")


def _encode_map(value: Mapping[Any, Any], where: str, depth: int) -> WireItem:
    for name in value:
        if not isinstance(name, str):
            raise StoreRefused(f"{where} names a value {name!r}, and names are text. Use text.")
        _text(name, "the name of an attribute")
    return {name: encode_value(value[name], name, depth + 1) for name in sorted(value)}


def _encode_set(value: frozenset[Any], where: str) -> Wire:
    if not value:
        raise StoreRefused(f"{where} is an empty set. Leave the attribute out instead.")
    if all(isinstance(part, str) for part in value):
        return {"SS": [_text(part, where) for part in sorted(value)]}
    if all(isinstance(part, bytes) for part in value):
        return {"BS": sorted(value)}
    if all(isinstance(part, int | Decimal) and not isinstance(part, bool) for part in value):
        return {"NS": [number_text(part, where) for part in sorted(value)]}
    raise StoreRefused(f"{where} mixes types in a set. Use only texts, only numbers or only bytes.")


def _text(value: str, where: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            raise malformed_text(where) from problem
    return str.__str__(value)


def _may_be_large(encoded: WireItem) -> bool:
    """Whether the record has to be counted; quick for one of a few short texts."""
    characters = _characters(encoded)
    return characters is None or characters > _CERTAINLY_SMALL


def _characters(encoded: WireItem) -> int | None:
    """At most how many characters names and values have; None where that takes longer than a look at each."""
    size = 0
    for name, value in encoded.items():
        ((kind, content),) = value.items()
        if kind not in {"S", "B", "N", "BOOL", "NULL"}:
            return None
        size += len(name) + (len(content) if kind in {"S", "B"} else 22)
    return size
