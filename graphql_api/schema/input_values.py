"""Conversion of inputs to the Python values that models accept, and of names in errors and of values back."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from enum import Enum
from typing import Any, get_args, get_origin

import graphql
import strawberry
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from strawberry.types.base import get_object_definition

from graphql_api.codecs import RecordKey
from graphql_api.errors import FieldPath, InvalidValue, NameResolver, ShardQLError
from graphql_api.model import MAX_NESTING, NAME_PATTERN, EntitySpec, camel_case, parse_annotation, plain_types, value_of
from graphql_api.query import NamingScheme
from graphql_api.schema.types.object_types import has_graphql_type
from graphql_api.writes import NOT_NULL_SUFFIX


def provided_fields(input_object: Any) -> dict[str, Any]:
    """Return the fields of an input object that the client provided, by attribute name."""
    return {
        field.python_name: value
        for field in get_object_definition(input_object, strict=True).fields
        if (value := getattr(input_object, field.python_name)) is not strawberry.UNSET
    }


OpenKey = Callable[..., RecordKey]
"""opens the global id of a record"""


def to_python(value: Any, annotations: Iterable[Any], open_key: OpenKey, depth: int = 0) -> Any:
    """Convert a value so that pydantic can validate it as one of these annotations.

    JSON holds bytes as base64, and record keys as global ids.
    """
    if depth > MAX_NESTING:
        raise InvalidValue(f"Lists and maps are nested more than {MAX_NESTING} levels deep: flatten them.")
    kinds = [kind for annotation in annotations for kind in plain_types(annotation)]
    if isinstance(value, list):
        item_types = [item_type for kind in kinds for item_type in _item_types(kind)]
        return [to_python(item, item_types, open_key, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return _from_map(value, kinds, open_key, depth)
    if get_object_definition(value) is not None:
        return _model_values(provided_fields(value), _model_fields(kinds), open_key, depth)
    if isinstance(value, str) and RecordKey in kinds and str not in kinds:
        return open_key(value)
    if isinstance(value, str) and bytes in kinds and str not in kinds:
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise InvalidValue("Bytes must be a base64 string.") from None
    return value


def _model_values(
    values: Mapping[str, Any], fields: Mapping[str, FieldInfo], open_key: OpenKey, depth: int
) -> dict[str, Any]:
    """Convert the values of a model: null counts as omitted if not nullable, and an omitted one may be null."""
    converted = {}
    for name, field in fields.items():
        value = values.get(name)
        nullable = parse_annotation(field.annotation, field.metadata).nullable
        if value is not None or (nullable and (name in values or field.is_required())):
            converted[name] = to_python(value, [field.annotation], open_key, depth + 1)
    return converted


def _from_map(values: Mapping[str, Any], kinds: Sequence[Any], open_key: OpenKey, depth: int) -> dict[str, Any]:
    """Convert a JSON object, which may be any of the models and maps that the annotations allow."""
    fields = _model_fields(kinds)
    field_names = {_json_key(fields, name): name for name in fields}
    value_types = [value_type for kind in kinds if _is_map(kind) for value_type in _item_types(kind)]
    converted = {}
    for key, item in values.items():
        name = field_names.get(key, key)
        annotations = [fields[name].annotation] if name in fields else value_types
        converted[name] = to_python(item, annotations, open_key, depth + 1)
    return converted


def _item_types(kind: Any) -> Sequence[Any]:
    """Return the types of the items of a list or set, or of the values of a map."""
    return [item_type for item_type in get_args(kind)[_is_map(kind) :] if item_type is not Ellipsis]


def _is_map(kind: Any) -> bool:
    container: Any = get_origin(kind) or kind
    return isinstance(container, type) and issubclass(container, Mapping)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _json_key(fields: Mapping[str, FieldInfo], name: str) -> str:
    return fields[name].serialization_alias or fields[name].alias or name


def _model_fields(kinds: Iterable[Any]) -> dict[str, FieldInfo]:
    """Return the fields of all models among these types."""
    return {name: field for kind in kinds if _is_model(kind) for name, field in kind.model_fields.items()}


# --- errors ----------------------------------------------------------------------------------------------------

_ENUM_MESSAGE = "Input should be "
"""begins pydantic's message about a value that is no member of an enum; a list of the values follows"""


class MutationErrorNames(NameResolver):
    """The names in errors of an entity's writes: those of its input types and searches."""

    def __init__(self, entity: EntitySpec, naming: NamingScheme) -> None:
        self._entity = entity
        self._naming = naming

    def property_name(self, name: str) -> str:
        return self._naming.property_name(name)

    def argument_name(self, name: str) -> str:
        return self._naming.common_argument(name)

    def search_name(self, entity: str, index: str) -> str:
        """Return the field of the query that searches an index of the entity."""
        indexes = self._entity.indexes.values() if entity == self._entity.type_name else ()
        searched = next((spec for spec in indexes if spec.attribute == index), None)
        return f"{entity}.{index}" if searched is None else self._naming.search_name(self._entity, searched)

    def field_path(self, path: FieldPath) -> str:
        """Return the path in the input, or in the JSON inside it."""
        names, _ = self._resolve(path)
        return ".".join(names) or "record"

    def field_message(self, path: FieldPath, message: str) -> str:
        """Return a message of pydantic, which lists the names of enum members in place of their values."""
        _, types = self._resolve(path)
        (type_,) = types if len(types) == 1 else (None,)
        if not (isinstance(type_, type) and issubclass(type_, Enum) and message.startswith(_ENUM_MESSAGE)):
            return message
        *members, last = (member.name for member in type_)
        suffix = NOT_NULL_SUFFIX if message.endswith(NOT_NULL_SUFFIX) else ""
        return f"{_ENUM_MESSAGE}{' or '.join(filter(None, [', '.join(members), last]))}{suffix}"

    def _resolve(self, path: FieldPath) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the names along a path in the client's notation, and the types at its end; no types within JSON.

        Fields of a GraphQL type are in camelCase; within JSON, a model has the keys of its serialization.
        """
        location = path.location
        if path.entity != self._entity.type_name or not location or location[0] not in self._entity.properties:
            return location, ()
        first, *others = location
        names, annotations = [self._naming.property_name(first)], [self._entity.model.model_fields[first].annotation]
        is_json, models = False, set[type[BaseModel]]()
        for step in others:
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


@contextmanager
def localized_errors(names: NameResolver) -> Iterator[None]:
    """Raise errors from the block with the names of another audience."""
    try:
        yield
    except ShardQLError as problem:
        raise problem.localized(names) from problem


# --- literals of documents --------------------------------------------------------------------------------------


class NotRepresentable(ValueError):
    """A value has no GraphQL literal, because a key of a JSON object is not a GraphQL name."""


def input_literal(kind: graphql.GraphQLInputType, value: Any) -> str:
    """Format a Python value as a literal of an input type; models use the names of their GraphQL fields.

    Raise `NotRepresentable` if only a variable can hold the value.
    """
    if isinstance(kind, graphql.GraphQLNonNull):
        return input_literal(kind.of_type, value)
    if value is None:
        return "null"
    if isinstance(value, RecordKey):
        raise NotRepresentable("a record key, which only a server can sign")
    if isinstance(kind, graphql.GraphQLList):
        items = sorted(value, key=repr) if isinstance(value, AbstractSet) else value
        return f"[{', '.join(input_literal(kind.of_type, item) for item in items)}]"
    if isinstance(kind, graphql.GraphQLInputObjectType):
        values = {camel_case(name): value_of(value, name) for name in type(value).model_fields}
        present = {name: values[name] for name in kind.fields if values[name] is not None}
        return _object_literal((name, input_literal(kind.fields[name].type, item)) for name, item in present.items())
    assert isinstance(kind, graphql.GraphQLEnumType | graphql.GraphQLScalarType), "there is no other input type"
    serialized = kind.serialize(value)
    return str(serialized) if isinstance(kind, graphql.GraphQLEnumType) else _json_literal(serialized)


def _json_literal(value: Any) -> str:
    """Format JSON as a GraphQL literal, whose keys have no quotes."""
    if isinstance(value, dict):
        invalid_keys = [key for key in value if not NAME_PATTERN.fullmatch(key)]
        if invalid_keys:
            raise NotRepresentable(invalid_keys[0])
        return _object_literal((key, _json_literal(item)) for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_json_literal, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _object_literal(fields: Iterable[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{name}: {text}' for name, text in fields)}}}"
