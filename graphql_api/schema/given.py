"""What clients give in input objects and in JSON, as the models of a catalog take it from Python."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

import strawberry
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from strawberry.types.base import get_object_definition

from graphql_api.catalog.annotations import read_annotation
from graphql_api.catalog.plain import DEEPEST, kinds_of
from graphql_api.errors import InvalidValue


def said(given: Any) -> dict[str, Any]:
    """The fields of an input object that were given, by its attributes."""
    return {
        field.python_name: value
        for field in get_object_definition(given, strict=True).fields
        if (value := getattr(given, field.python_name)) is not strawberry.UNSET
    }


def as_python(value: Any, annotations: Iterable[Any], depth: int = 0) -> Any:
    """What pydantic can validate as one of these annotations; bytes are a text in base64 wherever JSON holds them."""
    if depth > DEEPEST:
        raise InvalidValue(f"Lists and maps lie more than {DEEPEST} levels inside one another: flatten them.")
    kinds = [kind for annotation in annotations for kind in kinds_of(annotation)]
    if isinstance(value, list):
        inside = [inner for kind in kinds for inner in get_args(kind) if inner is not Ellipsis]
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


def _from_map(given: Mapping[str, Any], kinds: Iterable[Any], depth: int) -> dict[str, Any]:
    """A map of JSON may be any of the models and maps that the annotations allow."""
    fields = _fields(kinds)
    names = {field.serialization_alias or field.alias or name: name for name, field in fields.items()}
    others = [args[1] for kind in kinds if len(args := get_args(kind)) == 2 and issubclass(get_origin(kind), Mapping)]
    found = {}
    for key, item in given.items():
        name = names.get(key, key)
        inside = [fields[name].annotation] if name in fields else others
        found[name] = as_python(item, inside, depth + 1)
    return found


def inside_of(annotations: Iterable[Any], place: str) -> tuple[bool, list[Any]]:
    """What lies at a place within a value, and whether a model gives that place its name."""
    kinds = [kind for annotation in annotations for kind in kinds_of(annotation)]
    fields = _fields(kinds)
    if place in fields:
        return True, [fields[place].annotation]
    return False, [inner for kind in kinds for inner in get_args(kind)[-1:] if inner is not Ellipsis]


def _fields(kinds: Iterable[Any]) -> dict[str, FieldInfo]:
    """The fields of all models among these types."""
    return {
        name: field
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for name, field in kind.model_fields.items()
    }


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidValue("Bytes are a text in base64.") from None
