"""The wire format of DynamoDB: every value is tagged with its type."""

import json
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from graphql_api.errors import StoreRefused
from graphql_api.storage import (
    MAX_DIGITS,
    MAX_RECORD_BYTES,
    BodyFormat,
    ColumnReader,
    Item,
    Key,
    TableDefinition,
    check_depth,
    check_number,
    check_record_size,
    malformed_text_error,
    set_type,
    unsupported_type_error,
)

Wire = dict[str, Any]
"""A value tagged with its type: `{"S": "text"}`"""

WireItem = dict[str, Wire]

_SAFE_CHARACTERS = MAX_RECORD_BYTES // 8
"""number of characters below which the size of a record needs no exact count"""

_MAX_ESCAPE_LENGTH = 12
"""bytes of a character that is escaped in JSON: `\\ud83d\\ude00`"""

_NONZERO = frozenset("123456789")
_EXPONENT = frozenset("Ee")
_SHORT_LIMIT = 10**MAX_DIGITS


def encode_item(item: Item) -> WireItem:
    """Encode a record, identically for equal records. Refuse a record that exceeds the limits of an engine."""
    if "" in item:
        raise StoreRefused("A record has an attribute with an empty name. Name every attribute.")
    encoded = _encode_map(item, "the record", 0)
    if _max_characters(encoded) > _SAFE_CHARACTERS:
        check_record_size(item)
    return encoded


def max_wire_size(item: WireItem) -> int:
    """Return an upper bound of the bytes sent for a record. aioboto3 escapes all characters that are not ASCII."""
    characters = _max_characters(item)
    if characters > _SAFE_CHARACTERS:
        # Bytes are sent as base64, which has this length.
        return len(json.dumps(item, default=lambda content: "=" * (-(-len(content) // 3) * 4)))
    return _MAX_ESCAPE_LENGTH * (characters + 2 * len(item))


def encode_key(table: TableDefinition, key: Key) -> WireItem:
    """Encode the key of a record."""
    return {table.hash_attribute: {"S": key.hash}, table.range_attribute: {"S": key.range}}


def decode_key(table: TableDefinition, item: WireItem) -> Key:
    """Decode the key of a record."""
    return Key(item[table.hash_attribute]["S"], item[table.range_attribute]["S"])


def encode_value(value: Any, where: str, depth: int = 1) -> Wire:
    """Encode a value with its type tag."""
    check_depth(depth, where)
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
            tag = set_type(value, where)
            return {tag: [encode_value(part, where)[tag[0]] for part in sorted(value)]}
    raise unsupported_type_error(value, where)


def decode_item(item: WireItem) -> dict[str, Any]:
    """Decode a record. Most values are text or numbers."""
    return {
        name: value["S"]
        if "S" in value
        else (int(text) if (text := value["N"]).isdigit() else decode_number(text))
        if "N" in value
        else decode_value(value)
        for name, value in item.items()
    }


def _columns(items: Sequence[WireItem]) -> ColumnReader:
    def read(name: str) -> list[Any]:
        try:
            values = [item[name] for item in items]
        except KeyError:
            return [None if value is None else decode_value(value) for value in (item.get(name) for item in items)]
        kind = next(iter(values[0]), "") if values else ""
        try:
            if kind in ("S", "BOOL"):
                return [value[kind] for value in values]
            if kind == "N":
                return [int(text) if (text := value["N"]).isdigit() else decode_number(text) for value in values]
        except KeyError:  # They are of several types.
            pass
        return [*map(decode_value, values)]

    return read


WIRE_FORMAT = BodyFormat(decode_item, _columns)
"""The format of the items in responses"""


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
            return decode_binary(content)
        case "L":
            return [decode_value(part) for part in content]
        case "M":
            return decode_item(content)
        case "SS":
            return frozenset(content)
        case "NS":
            return frozenset(map(decode_number, content))
        case "BS":
            return frozenset(map(decode_binary, content))
    raise ValueError(f"an attribute with the unknown type {kind!r}")


def decode_binary(content: str | bytes) -> bytes:
    """Decode a binary value: base64, unless the client of aioboto3 has decoded it."""
    return b64decode(content) if isinstance(content, str) else bytes(content)


def decode_number(text: str) -> int | Decimal:
    """Decode a number. Whole numbers are returned as int."""
    if text.isdigit():
        return int(text)
    number = Decimal(text)
    if "." in text and text[-1] in _NONZERO and text.isascii() and not _EXPONENT.intersection(text):
        return number  # It ends in a digit of its fraction.
    return int(number) if number == number.to_integral_value() else number


def encode_number(value: int | Decimal, where: str) -> str:
    """Encode a number with minimal digits."""
    if isinstance(value, int) and -_SHORT_LIMIT < value < _SHORT_LIMIT:
        return str(value)
    check_number(value, where)
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


def _encode_text(value: str, where: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            raise malformed_text_error(where) from problem
    return str.__str__(value)


def _max_characters(encoded: WireItem) -> int:
    """Return an upper bound of the characters of names and values. Fast: it is far too high for nested values."""
    size = 0
    for name, value in encoded.items():
        ((kind, content),) = value.items()
        if kind not in {"S", "B", "N", "BOOL", "NULL"}:
            return sys.maxsize
        size += len(name) + (len(content) if kind in {"S", "B"} else 22)
    return size
