"""Conversion of input objects and JSON to the Python values that models accept."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, get_args, get_origin

import strawberry
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from strawberry.types.base import get_object_definition

from graphql_api.errors import InvalidValue
from graphql_api.model import MAX_NESTING, camel_case, parse_annotation, plain_types
from graphql_api.schema.types.object_types import has_graphql_type


def provided_fields(input_object: Any) -> dict[str, Any]:
    """Return the fields of an input object that the client provided, by attribute name."""
    return {
        field.python_name: value
        for field in get_object_definition(input_object, strict=True).fields
        if (value := getattr(input_object, field.python_name)) is not strawberry.UNSET
    }


def to_python(value: Any, annotations: Iterable[Any], depth: int = 0) -> Any:
    """Convert a value so that pydantic can validate it as one of these annotations; JSON holds bytes as base64."""
    if depth > MAX_NESTING:
        raise InvalidValue(f"Lists and maps are nested more than {MAX_NESTING} levels deep: flatten them.")
    kinds = [kind for annotation in annotations for kind in plain_types(annotation)]
    if isinstance(value, list):
        item_types = [item_type for kind in kinds for item_type in _item_types(kind)]
        return [to_python(item, item_types, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _from_map(value, kinds, depth)
    if get_object_definition(value) is not None:
        return _model_values(provided_fields(value), _model_fields(kinds), depth)
    if isinstance(value, str) and bytes in kinds and str not in kinds:
        return _decode_base64(value)
    return value


def _model_values(values: Mapping[str, Any], fields: Mapping[str, FieldInfo], depth: int) -> dict[str, Any]:
    """Convert the values of a model: null counts as omitted if not nullable, and an omitted one may be null."""
    converted = {}
    for name, field in fields.items():
        value = values.get(name)
        nullable = parse_annotation(field.annotation, field.metadata).nullable
        if value is not None or (nullable and (name in values or field.is_required())):
            converted[name] = to_python(value, [field.annotation], depth + 1)
    return converted


def _from_map(values: Mapping[str, Any], kinds: Sequence[Any], depth: int) -> dict[str, Any]:
    """Convert a JSON object, which may be any of the models and maps that the annotations allow."""
    fields = _model_fields(kinds)
    field_names = {_json_key(fields, name): name for name in fields}
    value_types = [value_type for kind in kinds if _is_map(kind) for value_type in _item_types(kind)]
    converted = {}
    for key, item in values.items():
        name = field_names.get(key, key)
        annotations = [fields[name].annotation] if name in fields else value_types
        converted[name] = to_python(item, annotations, depth + 1)
    return converted


def resolve_client_path(annotation: Any, path: Sequence[str]) -> tuple[list[str], list[Any]]:
    """Return the names of a path in the client's notation, and the types at its end; no types within JSON.

    Fields of a GraphQL type are in camelCase; within JSON, a model has the keys of its serialization.
    """
    names, annotations, is_json, models = list[str](), [annotation], False, set[type[BaseModel]]()
    for step in path:
        kinds = [kind for one in annotations for kind in plain_types(one)]
        is_json = is_json or _is_json(annotations, kinds, models)
        fields = _model_fields(kinds)
        models |= set(filter(_is_model, kinds))
        if step in fields:
            names.append(_json_key(fields, step) if is_json else camel_case(step))
            annotations = [fields[step].annotation]
        else:
            names.append(step)
            annotations = [item_type for kind in kinds for item_type in _item_types(kind)]
    kinds = [kind for one in annotations for kind in plain_types(one)]
    return names, [] if is_json or _is_json(annotations, kinds, models) else kinds


def _is_json(annotations: Sequence[Any], kinds: Sequence[Any], ancestors: AbstractSet[type[BaseModel]]) -> bool:
    """Whether a value of any of these types is JSON in GraphQL; `ancestors`: the models that contain it."""
    if [kind for one in annotations for kind in parse_annotation(one).types] != kinds or len(kinds) != 1:
        return True
    (kind,) = kinds
    if _is_model(kind):
        return kind in ancestors or not has_graphql_type(kind)
    return _is_map(kind) or len(set(_item_types(kind))) > 1


def _item_types(kind: Any) -> Sequence[Any]:
    """Return the types of the items of a list or set, or of the values of a map."""
    return [item_type for item_type in get_args(kind)[_is_map(kind) :] if item_type is not Ellipsis]


def _is_map(kind: Any) -> bool:
    container: Any = get_origin(kind) or kind
    return isinstance(container, type) and issubclass(container, Mapping)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _json_key(fields: Mapping[str, FieldInfo], name: str) -> str:
    """Return the key of a model's field in JSON."""
    return fields[name].serialization_alias or fields[name].alias or name


def _model_fields(kinds: Iterable[Any]) -> dict[str, FieldInfo]:
    """Return the fields of all models among these types."""
    return {name: field for kind in kinds if _is_model(kind) for name, field in kind.model_fields.items()}


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidValue("Bytes must be a base64 string.") from None
