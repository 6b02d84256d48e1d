"""What clients give in input objects and in JSON, as the models of a catalog take it from Python."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, get_args, get_origin

import strawberry
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from strawberry.types.base import get_object_definition

from graphql_api.errors import InvalidValue
from graphql_api.model import MAX_NESTING, camel_case, kinds_of, read_annotation
from graphql_api.schema.types.object_types import has_own_type


def said(given: Any) -> dict[str, Any]:
    """The fields of an input object that were given, by its attributes."""
    return {
        field.python_name: value
        for field in get_object_definition(given, strict=True).fields
        if (value := getattr(given, field.python_name)) is not strawberry.UNSET
    }


def as_python(value: Any, annotations: Iterable[Any], depth: int = 0) -> Any:
    """What pydantic can validate as one of these annotations; bytes are a text in base64 wherever JSON holds them."""
    if depth > MAX_NESTING:
        raise InvalidValue(f"Lists and maps lie more than {MAX_NESTING} levels inside one another: flatten them.")
    kinds = [kind for annotation in annotations for kind in kinds_of(annotation)]
    if isinstance(value, list):
        inside = [inner for kind in kinds for inner in _inside(kind)]
        return [as_python(item, inside, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _from_map(value, kinds, depth)
    if get_object_definition(value) is not None:
        return _of_model(said(value), _fields(kinds), depth)
    if isinstance(value, str) and bytes in kinds and str not in kinds:
        return _decoded(value)
    return value


def _of_model(given: Mapping[str, Any], fields: Mapping[str, FieldInfo], depth: int) -> dict[str, Any]:
    """What a model is made of: null counts as left out where a value is needed, and what is left out may be null."""
    found = {}
    for name, field in fields.items():
        value = given.get(name)
        nullable = read_annotation(field.annotation, field.metadata).nullable
        if value is not None or (nullable and (name in given or field.is_required())):
            found[name] = as_python(value, [field.annotation], depth + 1)
    return found


def _from_map(given: Mapping[str, Any], kinds: Sequence[Any], depth: int) -> dict[str, Any]:
    """A map of JSON may be any of the models and maps that the annotations allow."""
    fields = _fields(kinds)
    names = {_key(fields, name): name for name in fields}
    others = [inner for kind in kinds if _is_map(kind) for inner in _inside(kind)]
    found = {}
    for key, item in given.items():
        name = names.get(key, key)
        inside = [fields[name].annotation] if name in fields else others
        found[name] = as_python(item, inside, depth + 1)
    return found


def names_inside(annotation: Any, places: Sequence[str]) -> tuple[list[str], list[Any]]:
    """What clients call the places on a way into a value, and the types there; none where JSON begins.

    What has a type of its own has fields in camelCase; in JSON a model has the keys that stand there.
    """
    names, within, is_json, models = list[str](), [annotation], False, set[type[BaseModel]]()
    for place in places:
        kinds = [kind for one in within for kind in kinds_of(one)]
        is_json = is_json or _is_json(within, kinds, models)
        fields = _fields(kinds)
        models |= set(filter(_is_model, kinds))
        if place in fields:
            names.append(_key(fields, place) if is_json else camel_case(place))
            within = [fields[place].annotation]
        else:
            names.append(place)
            within = [inner for kind in kinds for inner in _inside(kind)]
    kinds = [kind for one in within for kind in kinds_of(one)]
    return names, [] if is_json or _is_json(within, kinds, models) else kinds


def _is_json(annotations: Sequence[Any], kinds: Sequence[Any], around: AbstractSet[type[BaseModel]]) -> bool:
    """Whether what may be any of these types has none of its own; `around`: models that it lies in."""
    if [kind for one in annotations for kind in read_annotation(one).types] != kinds or len(kinds) != 1:
        return True
    (kind,) = kinds
    if _is_model(kind):
        return kind in around or not has_own_type(kind)
    return _is_map(kind) or len(set(_inside(kind))) > 1


def _inside(kind: Any) -> Sequence[Any]:
    """What lists, sets and maps of this type hold."""
    return [inner for inner in get_args(kind)[_is_map(kind) :] if inner is not Ellipsis]


def _is_map(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    holder = origin or kind
    return isinstance(holder, type) and issubclass(holder, Mapping)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _key(fields: Mapping[str, FieldInfo], name: str) -> str:
    """What JSON calls the field of a model."""
    return fields[name].serialization_alias or fields[name].alias or name


def _fields(kinds: Iterable[Any]) -> dict[str, FieldInfo]:
    """The fields of all models among these types."""
    return {name: field for kind in kinds if _is_model(kind) for name, field in kind.model_fields.items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidValue("Bytes are a text in base64.") from None
