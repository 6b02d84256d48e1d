"""Plain models: classes of records that pydantic would not change. Codecs alone can make their records."""

from collections.abc import Iterable
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from graphql_api.model.access_declarations import PropertyRules
from graphql_api.model.entity import Entity
from graphql_api.model.markers import Role, Stored, StoredAs
from graphql_api.model.property_specs import parse_annotation

_MARKERS = (Role, Stored, StoredAs, PropertyRules)


@cache
def is_plain_model(model: type[Entity]) -> bool:
    """Return whether codecs alone determine the records of a class: it validates only the types of its scalars."""
    decorators = model.__pydantic_decorators__
    adds_code = (
        decorators.validators
        or decorators.field_validators
        or decorators.root_validators
        or _validators(model) != _validators(Entity)
        or model.__pydantic_post_init__ is not None
        or model.__pydantic_custom_init__
        or model.compute_derived is not Entity.compute_derived
    )
    return not adds_code and model.model_config == Entity.model_config and _has_plain_schema(model)


def _validators(model: type[Entity]) -> dict[str, Any]:
    found = model.__pydantic_decorators__.model_validators
    return {name: getattr(validator.func, "__func__", validator.func) for name, validator in found.items()}


def _has_plain_schema(model: type[Entity]) -> bool:
    own: Any = model.__get_pydantic_core_schema__
    inherited: Any = BaseModel.__get_pydantic_core_schema__
    return own.__func__ is inherited.__func__ and all(map(_is_plain_field, model.model_fields.values()))


def _is_plain_field(field: FieldInfo) -> bool:
    """Return whether a property is no scalar, or one that pydantic accepts whatever its codec loads."""
    if parse_annotation(field.annotation, field.metadata).codec is None:
        return True
    return _has_only_markers(field.metadata) and _is_plain_type(field.annotation)


def _has_only_markers(metadata: Iterable[Any]) -> bool:
    return all(isinstance(one, _MARKERS) for one in metadata)


def _is_plain_type(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _has_only_markers(annotation.__metadata__) and _is_plain_type(annotation.__origin__)
    if origin is Union or origin is UnionType:
        return all(map(_is_plain_type, get_args(annotation)))
    return isinstance(annotation, type)
