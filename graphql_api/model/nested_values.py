"""Convert values that are no scalars to their stored form: models and maps to maps, sequences to lists, sets to sets.

Pydantic can validate the stored form after `from_attribute_value` has restored field names and number types.
A set that engines cannot store, because it is empty or has several item types, is stored as a list.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, get_args, get_origin

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from graphql_api.errors import InvalidValue
from graphql_api.model.annotations import CODECS, parse_annotation
from graphql_api.model.markers import Stored, value_of
from graphql_api.model.naming import camel_case
from graphql_api.storage import AttributeValue

MAX_NESTING = 29
"""nesting levels of lists and maps: engines allow 32, and a stored response has one level more than its record"""


# --- writing ---------------------------------------------------------------------------------------------------


def to_attribute_value(value: Any, depth: int = 0) -> AttributeValue:
    """Convert a value to its stored form."""
    if depth > MAX_NESTING:
        raise InvalidValue(f"Lists and maps are nested more than {MAX_NESTING} levels deep: flatten them.")
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, RootModel):
        return to_attribute_value(value.root, depth)
    if isinstance(value, BaseModel):
        names = {stored: value_of(value, name) for stored, name in _field_names(type(value)).items()}
        return {
            key: to_attribute_value(item, depth + 1) for key, item in {**(value.model_extra or {}), **names}.items()
        }
    if isinstance(value, Mapping):
        return {_encode_key(key): to_attribute_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return _to_set([to_attribute_value(item, depth + 1) for item in value])
    if isinstance(value, list | tuple):
        return [to_attribute_value(item, depth + 1) for item in value]
    return _encode_scalar(value, depth)


def _encode_scalar(value: Any, depth: int) -> AttributeValue:
    if isinstance(value, Enum):
        return to_attribute_value(value.value, depth)
    if isinstance(value, timedelta):
        return CODECS[timedelta].format(value)  # Pydantic would read a number as seconds.
    for kind in type(value).__mro__:
        if kind in CODECS:
            return CODECS[kind].store(value)
    try:
        plain = to_jsonable_python(value)  # An IP address, a URL or a time: pydantic can validate its JSON form.
    except PydanticSerializationError:
        raise InvalidValue(f"A {type(value).__name__} cannot be stored: convert it to text, numbers or maps.") from None
    return to_attribute_value(plain, depth + 1)


def _to_set(items: list[AttributeValue]) -> AttributeValue:
    kinds = {Decimal if type(item) is int else type(item) for item in items}
    return frozenset(items) if len(kinds) == 1 and kinds <= {str, bytes, Decimal} else items


def _encode_key(key: Any) -> str:
    plain = key.value if isinstance(key, Enum) else key
    codec = CODECS.get(type(plain))
    if codec is None:
        raise InvalidValue(f"A map has a key of type {type(key).__name__}: use text, numbers, dates or other scalars.")
    return codec.format(plain)


def _field_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the Python names of a model's fields by their stored names."""
    names = {}
    for name, field in model.model_fields.items():
        markers = parse_annotation(field.annotation, field.metadata).markers
        names[next((marker.name for marker in markers if isinstance(marker, Stored)), camel_case(name))] = name
    return names


# --- reading ---------------------------------------------------------------------------------------------------


def from_attribute_value(stored: AttributeValue, annotations: Iterable[Any]) -> Any:
    """Convert a stored value to a form that pydantic can validate as one of these annotations."""
    kinds = [kind for annotation in annotations for kind in plain_types(annotation)]
    if isinstance(stored, Mapping):
        return _decode_map(stored, kinds)
    if isinstance(stored, list | tuple | AbstractSet):
        item_types = [item_type for kind in kinds for item_type in _item_types(kind)]
        items = [from_attribute_value(item, item_types) for item in stored]
        return set(items) if isinstance(stored, AbstractSet) else items
    if isinstance(stored, Decimal) and Any in kinds:
        return int(stored) if stored == stored.to_integral_value() else float(stored)
    return stored


def plain_types(annotation: Any) -> list[Any]:
    """Return the plain types that an annotation allows. A root model is replaced by the types of its root."""
    types: list[Any] = []
    for kind in parse_annotation(annotation).types:
        if isinstance(kind, type) and issubclass(kind, RootModel):
            types += plain_types(kind.model_fields["root"].annotation)
        else:
            types.append(kind)
    return types


def _item_types(kind: Any) -> tuple[Any, ...]:
    """Return the type arguments of a list, set or map, or `Any` if it has none."""
    return tuple(part for part in get_args(kind) if part is not Ellipsis) or (Any,)


def _decode_map(stored: Mapping[str, AttributeValue], kinds: list[Any]) -> dict[Any, Any]:
    """Decode a map that may be any of the allowed models and mappings. Pydantic decides later which one it is."""
    names: dict[str, str] = {}
    field_annotations: dict[str, list[Any]] = {}
    value_annotations: list[Any] = []
    key_codecs = set()
    for kind in kinds:
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, BaseModel):
            for key, name in _field_names(origin).items():
                names.setdefault(key, name)
                field_annotations.setdefault(key, []).append(origin.model_fields[name].annotation)
        elif isinstance(origin, type) and issubclass(origin, Mapping) and len(get_args(kind)) == 2:
            key, value = get_args(kind)
            key_codecs.add(parse_annotation(key).codec)
            value_annotations.append(value)
        elif kind is Any or (isinstance(origin, type) and issubclass(origin, Mapping)):
            value_annotations.append(Any)
    codec = key_codecs.pop() if len(key_codecs) == 1 else None
    decoded: dict[Any, Any] = {}
    for key, item in stored.items():
        if key in names:
            decoded[names[key]] = from_attribute_value(item, field_annotations[key])
        else:
            decoded[codec.parse(key) if codec else key] = from_attribute_value(item, value_annotations)
    return decoded
