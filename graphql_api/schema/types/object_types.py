"""Object types of a catalog: one for each entity, and one for each model nested in a record."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, get_args, get_origin

import strawberry
from graphql import GraphQLAbstractType, GraphQLObjectType, GraphQLResolveInfo
from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo
from strawberry.federation.schema_directives import Key
from strawberry.federation.types import FieldSet
from strawberry.types.base import get_object_definition
from strawberry.types.field import StrawberryField

from graphql_api.codecs import Codec, RecordKey
from graphql_api.model import (
    Entity,
    EntitySpec,
    JoinSpec,
    PropertySpec,
    camel_case,
    depends_on_record,
    parse_annotation,
    value_of,
)
from graphql_api.schema.authorization import field_location
from graphql_api.schema.graphql_names import GraphQLNames, property_name
from graphql_api.schema.types.generated_fields import (
    Mark,
    input_field,
    input_type,
    object_type,
    plain_field,
    python_class,
)
from graphql_api.schema.types.graphql_scalars import (
    Bytes,
    Json,
    graphql_scalar_name,
    make_nullable,
    strawberry_annotation,
)

_NODE = "Node"
"""The name that Relay requires, without a namespace."""


_RECORD_MODEL = "__record_model__"
"""Attribute of the class of a record type: the entity class."""


def record_model(kind: GraphQLObjectType) -> type[Entity] | None:
    """Return the entity class of the records of a type; None if it is no type of records."""
    definition = kind.extensions.get("strawberry-definition")
    model: type[Entity] | None = getattr(getattr(definition, "origin", None), _RECORD_MODEL, None)
    return model


def resolve_attribute(record: Any, name: str) -> Any:
    """Return the value of a plain field."""
    return in_fixed_order(value_of(record, name) if isinstance(record, BaseModel) else getattr(record, name))


def in_fixed_order(value: Any) -> Any:
    """Return a value for a response; sets are sorted, so that every server returns the same order."""
    if not isinstance(value, AbstractSet):
        return value
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


def _sealed_keys(value: Any, seal: Callable[[RecordKey], str]) -> Any:
    """Return a value with global ids in place of record keys."""
    if isinstance(value, RecordKey):
        return seal(value)
    return [_sealed_keys(item, seal) for item in value] if isinstance(value, list | tuple) else value


def _holds_keys(annotation: Any) -> bool:
    """Return whether a value of this type is a record key, or contains some, except in nested models."""
    return any(
        kind is RecordKey or any(_holds_keys(part) for part in get_args(kind))
        for kind in parse_annotation(annotation).types
    )


class RecordTypes:
    """Factory of the types of records and nested models."""

    def __init__(self, names: GraphQLNames, *, federation: bool = False) -> None:
        self._names = names
        self._federation = federation
        """Records are entities of Apollo Federation, with directives that declare their keys."""
        self.node = _node_interface(names)
        """Interface of all records: their global `id`."""
        self._models: dict[tuple[type[BaseModel], bool], Any] = {}
        """Types of nested models; input types have the key True."""

    def entity_type(self, entity: EntitySpec) -> type:
        name = self._names.claim("type", self._names.type_name(entity.type_name), entity.model, entity)
        parts: list[PropertySpec | JoinSpec] = [*entity.shown_properties.values(), *entity.joins.values()]
        owners: dict[str, PropertySpec | JoinSpec] = {}
        for part in parts:
            field_name = camel_case(part.name) if isinstance(part, JoinSpec) else property_name(part.name)
            first = owners.setdefault(field_name, part)
            if first is not part:
                problem = f"becomes the field {field_name!r}, which is taken by {first.name!r}."
                self._names.report(entity, part.name, problem)
        fields = _without_duplicates(self._property_field(entity, part) for part in entity.shown_properties.values())

        def is_type_of(record: Any, _: GraphQLResolveInfo[Any]) -> bool:
            # A field of the developer may return an object that is not an entity.
            return isinstance(record, entity.model) or not isinstance(record, Entity)

        members = {"is_type_of": staticmethod(is_type_of), _RECORD_MODEL: entity.model}
        record_class = python_class(name, [_id_field(None), *fields], (self.node,), **members)
        keys = [*_federation_keys(entity)] if self._federation else ()
        return strawberry.type(record_class, name=name, description=entity.description, directives=keys)

    def enum_name(self, enum_class: type) -> str:
        return self._names.type_name(enum_class.__name__)

    def scalar_name(self, part: PropertySpec) -> str:
        """Return the name of the GraphQL scalar or enum of a property that can be part of a key."""
        return graphql_scalar_name(part.column.codec, self.enum_name)

    def scalar_annotation(self, entity: EntitySpec, part: PropertySpec) -> Any:
        """Return the annotation of a property that can be part of a key."""
        return self._codec_annotation(entity, part.name, part.column.codec)

    def _codec_annotation(self, entity: EntitySpec, attribute: str, codec: Codec[Any]) -> Any:
        enum_class = getattr(codec, "enum_class", None)
        if enum_class is not None:
            self._claim_enum(entity, attribute, enum_class)
        return strawberry_annotation(codec, self.enum_name)

    # --- properties --------------------------------------------------------------------------------------------

    def _property_field(self, entity: EntitySpec, part: PropertySpec) -> StrawberryField:
        def resolve(root: Any, info: strawberry.Info[Any, Any]) -> Any:
            return _sealed_keys(resolve_attribute(root, part.name), info.context.database.seal_key)

        async def authorized(root: Any, info: strawberry.Info[Any, Any]) -> Any:
            await info.context.authorization.check_readable(entity, [part], root, field_location(info))
            return resolve(root, info)

        resolver = resolve if _holds_keys(entity.model.model_fields[part.name].annotation) else None
        annotation = self.property_annotation(entity, part)
        return plain_field(
            part.name,
            make_nullable(annotation) if part.nullable or depends_on_record(part.allow) else annotation,
            part.description,
            name=property_name(part.name),
            deprecated=deprecation_reason(entity.model.model_fields[part.name]),
            marks=[Mark.PROPERTY] if part.codec is not None else [Mark.PROPERTY, Mark.STORED_LIST],
            resolver=authorized if part.allow is not None else resolver,
        )

    def property_annotation(self, entity: EntitySpec, part: PropertySpec, *, as_input: bool = False) -> Any:
        if part.codec is not None:
            return self.scalar_annotation(entity, part)
        field = entity.model.model_fields[part.name]
        return self._value_annotation(entity, part.name, field.annotation, field.metadata, as_input=as_input)

    def _value_annotation(
        self, entity: EntitySpec, attribute: str, annotation: Any, marks: Iterable[Any] = (), *, as_input: bool = False
    ) -> Any:
        """Return the annotation of any value; JSON if GraphQL has no type for it."""
        parsed = parse_annotation(annotation, marks)
        if parsed.codec is not None:
            return self._codec_annotation(entity, attribute, parsed.codec)
        if len(parsed.types) != 1:
            return self._json(entity, attribute, annotation)
        kind = parsed.types[0]
        if kind is RecordKey:
            return strawberry.ID
        if kind is bytes:
            return Bytes
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, BaseModel) and not issubclass(origin, RootModel):
            return self._model_annotation(entity, attribute, kind, as_input=as_input)
        item_types = {part for part in get_args(kind) if part is not Ellipsis}
        if not (isinstance(origin, type) and issubclass(origin, list | tuple | AbstractSet)) or len(item_types) != 1:
            return self._json(entity, attribute, annotation)
        (item,) = item_types
        value = self._value_annotation(entity, attribute, item, as_input=as_input)
        several: Any = list
        return Json if value is Json else several[make_nullable(value) if parse_annotation(item).nullable else value]

    def _json(self, entity: EntitySpec, attribute: str, annotation: Any) -> Any:
        """Return JSON, in which record keys could not be signed."""
        if _holds_keys(annotation):
            problem = "holds record keys in a value that is JSON in GraphQL."
            self._names.report(entity, attribute, problem, "Declare RecordKey, or list[RecordKey].")
        return Json

    def _model_annotation(self, entity: EntitySpec, attribute: str, model: type[BaseModel], *, as_input: bool) -> Any:
        """Return the type of a nested model; one that contains itself or accepts extra fields is JSON."""
        key, description = (model, as_input), model.__doc__ and inspect.cleandoc(model.__doc__)
        if key in self._models:
            return self._models[key]
        if not has_graphql_type(model):
            return Json
        name = self._names.type_name(f"{model.__name__}Input" if as_input else model.__name__)
        owner = f"the input of {model.__name__}" if as_input else model
        self._names.claim("type", name, owner, entity, attribute)
        if not as_input:
            self._check_names(entity, attribute, model)
        self._models[key] = Json  # Until the type exists, for the fields of the model that contain the model.
        fields = [
            self._model_field(entity, attribute, python_name, field, as_input=as_input)
            for python_name, field in model.model_fields.items()
        ]
        if as_input:
            self._models[key] = input_type(name, fields, f"{model.__name__} as input.")
        else:
            self._models[key] = object_type(name, _without_duplicates(fields), description)
        return self._models[key]

    def _model_field(
        self, entity: EntitySpec, attribute: str, python_name: str, field: FieldInfo, *, as_input: bool
    ) -> StrawberryField:
        annotation = self._value_annotation(entity, attribute, field.annotation, field.metadata, as_input=as_input)
        nullable = parse_annotation(field.annotation, field.metadata).nullable
        name, deprecated = camel_case(python_name), deprecation_reason(field)
        if as_input:
            required = field.is_required() and not nullable
            return input_field(python_name, name, annotation, None, required=required, deprecated=deprecated)
        annotation = make_nullable(annotation) if nullable else annotation

        def resolve(root: Any, info: strawberry.Info[Any, Any]) -> Any:
            return _sealed_keys(resolve_attribute(root, python_name), info.context.database.seal_key)

        return plain_field(
            python_name,
            annotation,
            field.description,
            deprecated=deprecated,
            marks=[Mark.STORED_LIST],
            resolver=resolve if _holds_keys(field.annotation) else None,
        )

    def _check_names(self, entity: EntitySpec, attribute: str, model: type[BaseModel]) -> None:
        """Report names of a model that are invalid in GraphQL, and fields that would share a name."""

        def report(problem: str, remedy: str) -> None:
            self._names.report(entity, attribute, f"is of {model.__name__}, {problem}", remedy)

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
        self._names.claim("type", self.enum_name(enum_class), enum_class, entity, attribute)
        names = [member.name for member in enum_class]
        invalid = [name for name in names if name in ("true", "false", "null")]
        invalid += [name for name in names if not _is_graphql_name(name)]
        if invalid:
            problem = f"is of {enum_class.__name__}, whose member {invalid[0]!r} is invalid in GraphQL."
            self._names.report(entity, attribute, problem, "Use ASCII letters, digits and underscores.")


def _federation_keys(entity: EntitySpec) -> Iterator[Key]:
    """Yield the keys of an entity: its global id, and the properties of its primary key."""
    yield Key(fields=FieldSet("id"))
    if entity.primary_key:
        yield Key(fields=FieldSet(" ".join(property_name(part.name) for part in entity.primary_key)))


def id_format(entity: EntitySpec) -> str:
    """Describe the content of an `id` argument: the properties that it contains."""
    names = [part.stored for part in entity.ids]
    if len(names) == 1:
        return names[0]
    return f"{' and '.join(names)}, separated by {entity.separator!r} as in {entity.separator.join(names)!r}"


def has_graphql_type(model: type[BaseModel]) -> bool:
    """Whether a model has a GraphQL type of its own: it declares fields and accepts no others."""
    return model.model_config.get("extra") != "allow" and bool(model.model_fields)


def _node_interface(names: GraphQLNames) -> type:
    """Create the interface of all records; it resolves the type of a record by its class."""

    def resolve_type(record: Any, info: GraphQLResolveInfo[Any], node: GraphQLAbstractType) -> str | None:
        candidates = [names.type_name(kind.__name__) for kind in type(record).__mro__ if issubclass(kind, Entity)]
        possible = {kind.name for kind in info.schema.get_possible_types(node)}
        return next((name for name in candidates if name in possible), None)

    text = "Globally unique id of the record, which never changes. `node` returns the record with this id."
    interface = python_class(_NODE, [_id_field(text)], resolve_type=staticmethod(resolve_type))
    description = "A record of any type, identified by its global `id`."
    return strawberry.interface(interface, name=_NODE, description=description)


def _id_field(description: str | None) -> StrawberryField:
    """Create the field of the sealed record key. Its Python name is one that no property can have."""
    return plain_field(
        "_record_key",
        strawberry.ID,
        description,
        name="id",
        marks=[Mark.RECORD_KEY],
        resolver=lambda root, info: info.context.database.seal_key(root),
    )


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
        return "This field is deprecated." if field.deprecated else None
    return getattr(field.deprecated, "message", None) or (
        field.deprecated if isinstance(field.deprecated, str) else None
    )


def strawberry_fields(decorated: type) -> list[StrawberryField]:
    """Return the fields of a class that is decorated with `strawberry.type`."""
    definition = get_object_definition(decorated)
    if definition is None:
        raise TypeError(f"{decorated!r} is not a Strawberry type: decorate it with @strawberry.type.")
    return definition.fields


def object_description(decorated: type) -> str | None:
    """Return the description of a class that is decorated with `strawberry.type`."""
    definition = get_object_definition(decorated)
    return None if definition is None else definition.description
