"""Object types of a catalog: one for each entity, and one for each model nested in a record."""

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, get_args, get_origin

import strawberry
from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.errors import Violation
from graphql_api.model import EntitySpec, PropertySpec, camel_case, depends_on_record, parse_annotation, value_of
from graphql_api.schema import descriptions
from graphql_api.schema.authorization import field_location
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at, property_name
from graphql_api.schema.query_cost import STORED_LIST
from graphql_api.schema.types.graphql_scalars import (
    Bytes,
    Json,
    cached_annotation,
    graphql_scalar_name,
    make_nullable,
    strawberry_annotation,
)
from graphql_api.schema.types.node_interface import node_interface, record_type

ModelTypeFactory = Callable[[EntitySpec, str, type[BaseModel]], Any]
"""Creates the type of a nested model, for a property of an entity."""


def object_type(name: str, fields: Sequence[StrawberryField], description: str | None = None) -> type:
    """Create a GraphQL object type of fields that have their Python names."""
    python_class = types.new_class(name, (), {}, lambda namespace: namespace.update(_class_body(fields)))
    return strawberry.type(python_class, name=name, description=description)


def input_type(name: str, fields: Sequence[StrawberryField], description: str, *, one_of: bool = False) -> type:
    """Create a GraphQL input type."""
    python_class = types.new_class(name, (), {}, lambda namespace: namespace.update(_class_body(fields)))
    return strawberry.input(python_class, name=name, description=description, one_of=one_of)


def _class_body(fields: Sequence[StrawberryField]) -> dict[str, Any]:
    by_name = {field.python_name: field for field in fields}
    annotations = {name: field.type_annotation for name, field in by_name.items() if field.type_annotation}
    for name in annotations:
        by_name[name].type_annotation = None  # Otherwise Strawberry resolves the annotations of class and field.
    return {**by_name, "__annotations__": annotations}


def plain_field(
    python_name: str,
    annotation: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    deprecated: str | None = None,
    marks: Iterable[str] = (),
    default: Any = None,
    resolver: Any = None,
) -> StrawberryField:
    """Create a field that is read from the attribute of the same Python name, or by a resolver."""
    options = {name: value for name, value in (("default", default), ("resolver", resolver)) if value is not None}
    field: StrawberryField = strawberry.field(
        name=name or camel_case(python_name),
        description=description,
        deprecation_reason=deprecated,
        metadata=dict.fromkeys(marks, True),
        **options,
    )
    field.python_name = python_name
    field.type_annotation = cached_annotation(annotation)
    return field


def resolve_attribute(record: Any, name: str) -> Any:
    """Return the value of a plain field; sets are sorted, so that every server returns the same order."""
    value = value_of(record, name) if isinstance(record, BaseModel) else getattr(record, name)
    if not isinstance(value, AbstractSet):
        return value
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


class RecordTypes:
    """Factory of the types of records and nested models."""

    def __init__(self, names: GraphQLNames, registry: NameRegistry) -> None:
        self._names = names
        self._registry = registry
        self.node = node_interface(names)
        """Interface of all records."""
        self._models: dict[type[BaseModel], type] = {}
        self._in_progress: list[type[BaseModel]] = []

    def entity_type(self, entity: EntitySpec) -> type:
        """Create the type of an entity's records."""
        name = self._names.type_name(entity.type_name)
        self._registry.claim_type(name, declared_at(entity), entity.model)
        properties = [(property_name(part.name), part) for part in entity.properties.values()]
        joins = [(camel_case(join.name), join) for join in entity.joins.values()]
        self._registry.claim_record_fields(entity, [*properties, *joins])
        fields = [self._property_field(entity, field_name, part) for field_name, part in properties]
        return record_type(entity, self.node, name, _class_body(_without_duplicates(fields)), entity.description)

    def enum_name(self, enum_class: type) -> str:
        """Return the GraphQL name of an enum."""
        return self._names.type_name(enum_class.__name__)

    def scalar_name(self, part: PropertySpec) -> str:
        """Return the name of the GraphQL scalar or enum of a property that can be part of a key."""
        return graphql_scalar_name(part.column.codec, self.enum_name)

    def scalar_annotation(self, entity: EntitySpec, part: PropertySpec) -> Any:
        """Return the annotation of a property that can be part of a key."""
        codec = part.column.codec
        enum_class = getattr(codec, "enum_class", None)
        if enum_class is not None:
            self._claim_enum(entity, part.name, enum_class)
        return strawberry_annotation(codec, self.enum_name)

    # --- properties --------------------------------------------------------------------------------------------

    def _property_field(self, entity: EntitySpec, name: str, part: PropertySpec) -> StrawberryField:
        field = entity.model.model_fields[part.name]
        if part.codec is not None:
            annotation, marks = self.scalar_annotation(entity, part), []
        else:
            annotation = self.value_annotation(entity, part.name, field.annotation, field.metadata)
            marks = [STORED_LIST]
        return plain_field(
            part.name,
            make_nullable(annotation) if part.nullable or depends_on_record(part.allow) else annotation,
            name=name,
            description=part.description,
            deprecated=deprecation_reason(field),
            marks=marks,
            resolver=_authorized_resolver(entity, part) if part.allow is not None else None,
        )

    def value_annotation(
        self,
        entity: EntitySpec,
        attribute: str,
        annotation: Any,
        marks: Iterable[Any] = (),
        *,
        model: ModelTypeFactory | None = None,
    ) -> Any:
        """Return the annotation of any value; JSON if GraphQL has no type for it. `model`: creates types of models."""
        parsed = parse_annotation(annotation, marks)
        if parsed.codec is not None:
            enum_class = getattr(parsed.codec, "enum_class", None)
            if enum_class is not None:
                self._claim_enum(entity, attribute, enum_class)
            return strawberry_annotation(parsed.codec, self.enum_name)
        if len(parsed.types) != 1:
            return Json
        kind = parsed.types[0]
        if kind is bytes:
            return Bytes
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, list | tuple | AbstractSet):
            return self._list_annotation(entity, attribute, kind, model)
        if isinstance(origin, type) and issubclass(origin, BaseModel) and not issubclass(origin, RootModel):
            return (model or self._model_annotation)(entity, attribute, kind)
        return Json

    def _list_annotation(self, entity: EntitySpec, attribute: str, kind: Any, model: ModelTypeFactory | None) -> Any:
        item_types = {part for part in get_args(kind) if part is not Ellipsis}
        if len(item_types) != 1:
            return Json
        (item,) = item_types
        item_annotation = self.value_annotation(entity, attribute, item, model=model)
        if item_annotation is Json:
            return Json
        return list[make_nullable(item_annotation)] if parse_annotation(item).nullable else list[item_annotation]  # type: ignore[misc,valid-type]

    def _model_annotation(self, entity: EntitySpec, attribute: str, model: type[BaseModel]) -> Any:
        """Return the type of a nested model; one that contains itself or accepts extra fields is JSON."""
        if model in self._models:
            return self._models[model]
        if model in self._in_progress or not has_graphql_type(model):
            return Json
        name = self._names.type_name(model.__name__)
        self._registry.claim_type(name, declared_at(entity, attribute), model)
        self._check_names(entity, attribute, model)
        self._in_progress.append(model)
        fields = []
        for python_name, field in model.model_fields.items():
            annotation = self.value_annotation(entity, attribute, field.annotation, field.metadata)
            nullable = parse_annotation(field.annotation, field.metadata).nullable
            fields.append(
                plain_field(
                    python_name,
                    make_nullable(annotation) if nullable else annotation,
                    description=field.description,
                    deprecated=deprecation_reason(field),
                    marks=[STORED_LIST],
                )
            )
        self._in_progress.remove(model)
        self._models[model] = object_type(
            name, _without_duplicates(fields), model.__doc__ and inspect.cleandoc(model.__doc__)
        )
        return self._models[model]

    def _check_names(self, entity: EntitySpec, attribute: str, model: type[BaseModel]) -> None:
        """Report names of a model that are invalid in GraphQL, and fields that would share a name."""

        def report(problem: str, remedy: str) -> None:
            violation = Violation(entity.type_name, attribute, f"is of {model.__name__}, {problem}", remedy)
            self._registry.violations.append(violation)

        if not _is_graphql_name(model.__name__):
            report("whose name is invalid in GraphQL.", "Derive a class with a valid name, and use that class.")
        taken: dict[str, str] = {}
        for python_name in model.model_fields:
            name = camel_case(python_name)
            other = taken.setdefault(name, python_name)
            if not _is_graphql_name(name):
                report(f"whose {python_name!r} is invalid in GraphQL.", "Use ASCII letters, digits and underscores.")
            elif other != python_name:
                report(
                    f"whose {python_name!r} becomes the field {name!r}, as {other!r} does.", "Rename one of the two."
                )

    def _claim_enum(self, entity: EntitySpec, attribute: str, enum_class: type[Enum]) -> None:
        self._registry.claim_type(self.enum_name(enum_class), declared_at(entity, attribute), enum_class)
        invalid = next((member.name for member in enum_class if member.name in ("true", "false", "null")), None)
        invalid = invalid or next((member.name for member in enum_class if not _is_graphql_name(member.name)), None)
        if invalid is not None:
            self._registry.violations.append(
                Violation(
                    entity.type_name,
                    attribute,
                    f"is of {enum_class.__name__}, whose member {invalid!r} is invalid in GraphQL.",
                    "Use ASCII letters, digits and underscores.",
                )
            )


def has_graphql_type(model: type[BaseModel]) -> bool:
    """Whether a model has a GraphQL type of its own: it declares fields and accepts no others."""
    return model.model_config.get("extra") != "allow" and bool(model.model_fields)


def _authorized_resolver(entity: EntitySpec, part: PropertySpec) -> Any:
    """Create a resolver that reads a property if the caller is authorized."""

    async def resolve(root: Any, info: strawberry.Info[Any, Any]) -> Any:
        await info.context.authorization.check_readable(entity, [part], root, field_location(info))
        return resolve_attribute(root, part.name)

    parent: Any = strawberry.Parent
    resolve.__annotations__ = {"root": parent[Any], "info": strawberry.Info}
    return resolve


def _without_duplicates(fields: Iterable[StrawberryField]) -> list[StrawberryField]:
    """Drop duplicate fields, which are reported as violations, so that the remaining checks can run."""
    first: dict[str | None, StrawberryField] = {}
    for field in fields:
        first.setdefault(field.graphql_name, field)
    return [*first.values()]


def _is_graphql_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not name.startswith("__")


def deprecation_reason(field: FieldInfo) -> str | None:
    """Return why a property is deprecated, or None if it is not."""
    if isinstance(field.deprecated, bool):
        return descriptions.DEPRECATED if field.deprecated else None
    return getattr(field.deprecated, "message", None) or (
        field.deprecated if isinstance(field.deprecated, str) else None
    )


def strawberry_fields(decorated: type) -> list[StrawberryField]:
    """Return the fields of a class that is decorated with `strawberry.type`."""
    definition = get_object_definition(decorated)
    if definition is None:
        raise TypeError(f"{decorated!r} is not a Strawberry type: decorate it with @strawberry.type.")
    return definition.fields
