"""Record bodies: JSON, with a type tag for each value that JSON cannot represent (docs/explanation/engines.md)."""

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from types import NoneType
from typing import Any

import orjson

from graphql_api.errors import StoreRefused
from graphql_api.storage.item_rules import (
    MAX_RECORD_BYTES,
    check_depth,
    check_number,
    check_record_size,
    set_type,
    unsupported_type_error,
)
from graphql_api.storage.values import BodyFormat, ColumnReader, Item

_INT64 = range(-(2**63), 2**63)
_PLAIN_TYPES = frozenset({str, bool, int, NoneType, Decimal, list})
"""types of the values of nearly all items, which need no walk; lists only of text"""
_SHORT_NUMBER = re.compile(r"-?[0-9.]{1,30}")
"""texts of numbers that are certainly within all limits"""
_SAFE_BODY_BYTES = MAX_RECORD_BYTES // 2
"""A body is never shorter than two thirds of the counted size, so a body below this needs no count."""


def encode_body(item: Item) -> bytes:
    """Encode a record for storage. Refuse a record that exceeds the limits of an engine."""
    return dump_body(tagged_values(item), item)


def tagged_values(item: Item) -> Mapping[str, Any]:
    """Return the attributes as JSON holds them, with tags. Decimals may remain, which `tag_number` converts."""
    values = item.values()
    if type(item) is dict and _PLAIN_TYPES.issuperset(map(type, values)):
        integers = [value for value in values if type(value) is int]
        parts = [part for value in values if type(value) is list for part in value]
        is_plain = not integers or (min(integers) >= _INT64.start and max(integers) < _INT64.stop)
        if is_plain and (not parts or {*map(type, parts)} == {str}):
            return item
    return _walk(item)


def dump_body(parts: Mapping[str, Any], item: Item) -> bytes:
    """Return the JSON of a record from its tagged values."""
    if "" in parts:
        raise StoreRefused("A record has an attribute with an empty name. Name every attribute.")
    try:
        body = orjson.dumps(parts, default=tag_number)
    except orjson.JSONEncodeError as problem:
        _walk(item)  # It refuses an invalid number with the name of its attribute.
        raise StoreRefused(
            f"A record cannot be stored: {problem}. Use well-formed text for names and values."
        ) from problem
    if len(body) > _SAFE_BODY_BYTES:
        check_record_size(item)
    return body


def _walk(item: Item) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for name, value in item.items():
        kind = type(value)
        plain = kind is str or kind is bool or value is None or (kind is int and value in _INT64)
        parts[name] = value if plain else _encode_value(value, name, 1)
    return parts


def tag_number(value: Any) -> dict[str, str]:
    """Return the tagged form of a Decimal. JSON encoders call it for values that JSON cannot represent."""
    if type(value) is not Decimal:
        raise TypeError
    return {"N": _encode_number(value, "A number")}


def decode_body(body: bytes) -> dict[str, Any]:
    """Decode a stored record."""
    parts: dict[str, Any] = orjson.loads(body)
    if body.rfind(b"{") == 0 and b"[" not in body:
        return parts  # No value has a tag.
    for name, value in parts.items():
        if type(value) is dict or type(value) is list:
            parts[name] = _decode_value(value)
    return parts


def attributes_format(names: Collection[str]) -> BodyFormat:
    """Return the format of bodies of which only these attributes are decoded."""

    def decode(body: bytes) -> dict[str, Any]:
        parts = orjson.loads(body)
        return {name: _decode_value(parts[name]) for name in names if name in parts}

    def columns(bodies: Sequence[bytes]) -> ColumnReader:
        read = _columns(bodies)
        return lambda name: read(name) if name in names else [None] * len(bodies)

    return BodyFormat(decode, columns)


_TAGGED = frozenset({dict, list})


def _columns(bodies: Sequence[bytes]) -> ColumnReader:
    records: list[dict[str, Any]] = [*map(orjson.loads, bodies)]

    def read(name: str) -> list[Any]:
        values = [parts.get(name) for parts in records]
        return values if _TAGGED.isdisjoint(map(type, values)) else _decode_values(values)

    return read


def _decode_values(values: Sequence[Any]) -> list[Any]:
    try:
        return [Decimal(text) if "." in (text := value["N"]) else _decode_number(text) for value in values]
    except (KeyError, TypeError):  # Some are no numbers.
        return [*map(_decode_value, values)]


BODY_FORMAT = BodyFormat(decode_body, _columns)
"""The format of complete bodies"""


# --- tags ------------------------------------------------------------------------------------------------------


def _encode_value(value: Any, where: str, depth: int) -> Any:
    check_depth(depth, where)
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int() | Decimal():
            return value if type(value) is int and value in _INT64 else {"N": _encode_number(value, where)}
        case bytes():
            return {"B": b64encode(value).decode()}
        case list():
            return [_encode_value(part, where, depth + 1) for part in value]
        case Mapping():
            return {"M": {name: _encode_value(part, f"{where}.{name}", depth + 1) for name, part in value.items()}}
        case frozenset():
            return _encode_set(value, where)
    raise unsupported_type_error(value, where)


def _encode_set(value: frozenset[Any], where: str) -> dict[str, list[str]]:
    tag, parts = set_type(value, where), sorted(value)
    if tag == "NS":
        return {tag: [_encode_number(part, where) for part in parts]}
    return {tag: parts if tag == "SS" else [b64encode(part).decode() for part in parts]}


def _encode_number(value: int | Decimal, where: str) -> str:
    if isinstance(value, int):  # Python does not print an int of more than 4,300 digits.
        check_number(value, where)
        return str(value)
    text = str(value) if value else "0"
    if not _SHORT_NUMBER.fullmatch(text):
        check_number(value, where)
    return text


def _decode_value(value: Any) -> Any:
    if type(value) is list:
        return [_decode_value(part) for part in value]
    if type(value) is not dict:
        return value
    ((tag, content),) = value.items()
    match tag:
        case "N":
            return _decode_number(content)
        case "B":
            return b64decode(content)
        case "M":
            return {name: _decode_value(part) for name, part in content.items()}
        case "SS":
            return frozenset(content)
        case "NS":
            return frozenset(map(_decode_number, content))
        case _:
            return frozenset(map(b64decode, content))


def _decode_number(text: str) -> int | Decimal:
    return int(text) if text.removeprefix("-").isdigit() else Decimal(text)
