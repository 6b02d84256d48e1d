"""Records as JSON lines, which `load` reads back to exactly the same stored attributes.

Lines have stored names, without derived properties. JSON lacks bytes and sets. In properties that are no scalars, they
are marked if the plain form would be read back as another value: `{"$bytes": "aGk="}`, `{"$set": ["a", "b"]}`. A map
that looks like a mark is marked as `{"$map": …}` itself.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any

import orjson
from pydantic import ValidationError

from graphql_api.codecs import RecordKey
from graphql_api.errors import InvalidRecord, InvalidValue, ShardQLError
from graphql_api.model import (
    EntitySpec,
    PropertySpec,
    from_attribute_value,
    property_adapter,
    to_attribute_value,
)
from graphql_api.storage import AttributeValue, Item

BYTES, SET, MAP = "$bytes", "$set", "$map"
_MARKS = frozenset({BYTES, SET, MAP})
_PLAIN_TYPES = frozenset({str, bool, float})
_INT64 = range(-(2**63), 2**63)
_ALL_DIGITS = Context(prec=40)


def record_line(spec: EntitySpec, attributes: Item) -> bytes:
    """Return the line of a record, from its stored attributes."""
    return json_text(record_values(spec, attributes)) + b"\n"


def json_text(value: Any) -> bytes:
    """Return a value of a line, or a whole line, as JSON."""
    return orjson.dumps(value, default=_write_number)


def record_values(spec: EntitySpec, attributes: Item) -> dict[str, Any]:
    """Return the values of a line by stored name. A property that is not stored, or null by default, is left out."""
    values: dict[str, Any] = {}
    for part in spec.properties.values():
        stored = attributes.get(part.stored)
        if part.function is not None or (stored is None and not (part.null_is_stored and part.stored in attributes)):
            continue
        values[part.stored] = None if stored is None else _value(spec, part, stored)
    return values


def restored(value: Any) -> Any:
    """Return a value of a line, which is no scalar, with its marks replaced by the values that they stand for."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (mark := next(iter(value))) in _MARKS:
        return _marked_value(mark, value[mark])
    return {key: restored(item) for key, item in value.items()}


def _marked_value(mark: str, content: Any) -> Any:
    if mark == BYTES and isinstance(content, str):
        try:
            return b64decode(content, validate=True)
        except ValueError:
            raise InvalidValue(f"{BYTES} is not base64.") from None
    if mark == SET and isinstance(content, list):
        with suppress(TypeError):  # An item is a list or a map.
            return {restored(item) for item in content}
    if mark == MAP and isinstance(content, dict):
        return {key: restored(item) for key, item in content.items()}
    raise InvalidValue(
        f"{mark} marks a value of another type: write text for {BYTES}, a list for {SET}, a map for {MAP}."
    )


# --- values ----------------------------------------------------------------------------------------------------


def _value(spec: EntitySpec, part: PropertySpec, stored: AttributeValue) -> Any:
    if part.codec is not None:
        value = part.codec.load(stored)
        if type(value) in _PLAIN_TYPES:
            return value
        return (
            _number(value)
            if type(value) is int
            else property_adapter(spec.model, part.name).dump_python(value, mode="json")
        )
    plain = from_attribute_value(stored, [spec.model.model_fields[part.name].annotation], exact=True)
    for has_marks in (False, True):
        try:
            value = _json_value(plain, has_marks=has_marks)
            if _stored_again(spec, part, value) == stored:
                return value
        except (ShardQLError, ValidationError, UnicodeDecodeError):
            continue
    raise InvalidRecord(f"{part.stored} holds a value that JSON lines cannot hold exactly.", argument=part.name)


def _stored_again(spec: EntitySpec, part: PropertySpec, value: Any) -> AttributeValue:
    """Return what a load would store for a value of a line."""
    parsed = restored(_parsed(value))
    validated = property_adapter(spec.model, part.name).validate_python(parsed, by_name=True, by_alias=True)
    return to_attribute_value(validated)


def _parsed(value: Any) -> Any:
    """Return a value as a load parses it: whole numbers are ints."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    if isinstance(value, list):
        return [*map(_parsed, value)]
    return {key: _parsed(item) for key, item in value.items()} if isinstance(value, dict) else value


def _json_value(value: Any, *, has_marks: bool) -> Any:
    if value is None or type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, Mapping):
        content = {_key(key): _json_value(item, has_marks=has_marks) for key, item in value.items()}
        return {MAP: content} if len(content) == 1 and next(iter(content)) in _MARKS else content
    if isinstance(value, AbstractSet):
        items = [_json_value(item, has_marks=has_marks) for item in _sorted(value)]
        return {SET: items} if has_marks else items
    if isinstance(value, list | tuple):
        return [_json_value(item, has_marks=has_marks) for item in value]
    if isinstance(value, bytes):
        return {BYTES: b64encode(value).decode()} if has_marks else value.decode()
    return value.to_text() if isinstance(value, RecordKey) else _number(value)


def _number(value: int | Decimal) -> int | Decimal:
    """Return a number in its shortest form that keeps all digits: JSON encoders take ints of 64 bits."""
    whole = int(value) if value == int(value) else None
    return whole if whole is not None and whole in _INT64 else Decimal(value).normalize(_ALL_DIGITS)


def _write_number(value: Any) -> orjson.Fragment:
    if not isinstance(value, Decimal):
        raise TypeError
    return orjson.Fragment(str(value))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else next(iter(to_attribute_value({key: None})))


def _sorted(items: Iterable[Any]) -> list[Any]:
    """Return the items of a set in an order that depends on their values only."""
    return sorted(items, key=lambda item: (str(type(item)), item))
