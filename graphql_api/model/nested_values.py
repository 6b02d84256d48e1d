"""Values that are no scalars, as records keep them: models and maps as maps, sequences as lists, sets as sets.

What is written here pydantic can read back, once maps have the names of their models' fields again and numbers are what
the annotation says. A set that no engine can hold (empty, or of several kinds) is kept as a list.
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
from graphql_api.model.annotations import CODECS, read_annotation
from graphql_api.model.markers import Stored, value_of
from graphql_api.model.naming import camel_case
from graphql_api.storage import AttributeValue

MAX_NESTING = 29
"""levels of lists and maps inside one another; engines end at 32, and a kept answer has one more than its record"""


# --- writing ---------------------------------------------------------------------------------------------------


def to_plain(value: Any, depth: int = 0) -> AttributeValue:
    """A value as a record keeps it."""
    if depth > MAX_NESTING:
        raise InvalidValue(f"Lists and maps lie more than {MAX_NESTING} levels inside one another: flatten them.")
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, RootModel):
        return to_plain(value.root, depth)
    if isinstance(value, BaseModel):
        names = {stored: value_of(value, name) for stored, name in _names(type(value)).items()}
        return {key: to_plain(item, depth + 1) for key, item in {**(value.model_extra or {}), **names}.items()}
    if isinstance(value, Mapping):
        return {_key_text(key): to_plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return _set_of([to_plain(item, depth + 1) for item in value])
    if isinstance(value, list | tuple):
        return [to_plain(item, depth + 1) for item in value]
    return _scalar(value, depth)


def _scalar(value: Any, depth: int) -> AttributeValue:
    if isinstance(value, Enum):
        return to_plain(value.value, depth)
    if isinstance(value, timedelta):
        return CODECS[timedelta].format(value)  # a bare number would be read as seconds
    for kind in type(value).__mro__:
        if kind in CODECS:
            return CODECS[kind].store(value)
    try:
        plain = to_jsonable_python(value)  # an address, a URL, a time of day: pydantic reads them from JSON again
    except PydanticSerializationError:
        raise InvalidValue(f"A {type(value).__name__} cannot be stored: turn it into texts, numbers or maps.") from None
    return to_plain(plain, depth + 1)


def _set_of(items: list[AttributeValue]) -> AttributeValue:
    kinds = {Decimal if type(item) is int else type(item) for item in items}
    return frozenset(items) if len(kinds) == 1 and kinds <= {str, bytes, Decimal} else items


def _key_text(key: Any) -> str:
    plain = key.value if isinstance(key, Enum) else key
    codec = CODECS.get(type(plain))
    if codec is None:
        raise InvalidValue(f"A map has a key of type {type(key).__name__}: use texts, numbers, dates or the like.")
    return codec.format(plain)


def _names(model: type[BaseModel]) -> dict[str, str]:
    """Stored names of a model's fields, each with the Python name."""
    found = {}
    for name, field in model.model_fields.items():
        marks = read_annotation(field.annotation, field.metadata).marks
        found[next((mark.name for mark in marks if isinstance(mark, Stored)), camel_case(name))] = name
    return found


# --- reading ---------------------------------------------------------------------------------------------------


def from_plain(stored: AttributeValue, annotations: Iterable[Any]) -> Any:
    """What pydantic can validate as one of these annotations."""
    kinds = [kind for annotation in annotations for kind in kinds_of(annotation)]
    if isinstance(stored, Mapping):
        return _from_map(stored, kinds)
    if isinstance(stored, list | tuple | AbstractSet):
        inside = [inner for kind in kinds for inner in _arguments(kind)]
        items = [from_plain(item, inside) for item in stored]
        return set(items) if isinstance(stored, AbstractSet) else items
    if isinstance(stored, Decimal) and Any in kinds:
        return int(stored) if stored == stored.to_integral_value() else float(stored)
    return stored


def kinds_of(annotation: Any) -> list[Any]:
    """The plain types that an annotation allows, those behind root models included."""
    found: list[Any] = []
    for kind in read_annotation(annotation).types:
        if isinstance(kind, type) and issubclass(kind, RootModel):
            found += kinds_of(kind.model_fields["root"].annotation)
        else:
            found.append(kind)
    return found


def _arguments(kind: Any) -> tuple[Any, ...]:
    """What a list, set or map is made of; anything, where it does not say."""
    return tuple(part for part in get_args(kind) if part is not Ellipsis) or (Any,)


def _from_map(stored: Mapping[str, AttributeValue], kinds: list[Any]) -> dict[Any, Any]:
    """The map may be any of the models and maps that the annotation allows: pydantic decides which."""
    names: dict[str, str] = {}
    inside: dict[str, list[Any]] = {}
    others: list[Any] = []
    key_codecs = set()
    for kind in kinds:
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, BaseModel):
            for key, name in _names(origin).items():
                names.setdefault(key, name)
                inside.setdefault(key, []).append(origin.model_fields[name].annotation)
        elif isinstance(origin, type) and issubclass(origin, Mapping) and len(get_args(kind)) == 2:
            key, value = get_args(kind)
            key_codecs.add(read_annotation(key).codec)
            others.append(value)
        elif kind is Any or (isinstance(origin, type) and issubclass(origin, Mapping)):
            others.append(Any)
    codec = key_codecs.pop() if len(key_codecs) == 1 else None
    found: dict[Any, Any] = {}
    for key, item in stored.items():
        if key in names:
            found[names[key]] = from_plain(item, inside[key])
        else:
            found[codec.parse(key) if codec else key] = from_plain(item, others)
    return found
