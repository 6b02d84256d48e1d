"""The object types of a catalog: one for each entity, one for each model inside of one."""

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
from graphql_api.model import EntitySpec, PropertySpec, camel_case, depends_on_record, read_annotation, value_of
from graphql_api.schema.authorization import place_of
from graphql_api.schema.graphql_names import Names, Register, at, property_name
from graphql_api.schema.query_cost import STORED
from graphql_api.schema.types.graphql_scalars import Bytes, Json, annotation_of, or_null, read_once
from graphql_api.schema.types.node_interface import node_interface, record_type

ModelType = Callable[[EntitySpec, str, type[BaseModel]], Any]
"""makes the type of a model inside of a record, at a property of an entity"""


def object_type(name: str, fields: Sequence[StrawberryField], description: str | None = None) -> type:
    """A GraphQL type of fields that know their Python names."""
    made = types.new_class(name, (), {}, lambda space: space.update(_body(fields)))
    return strawberry.type(made, name=name, description=description)


def input_type(name: str, fields: Sequence[StrawberryField], description: str, *, one_of: bool = False) -> type:
    """A GraphQL input type."""
    made = types.new_class(name, (), {}, lambda space: space.update(_body(fields)))
    return strawberry.input(made, name=name, description=description, one_of=one_of)


def _body(fields: Sequence[StrawberryField]) -> dict[str, Any]:
    named = {field.python_name: field for field in fields}
    annotations = {name: field.type_annotation for name, field in named.items() if field.type_annotation}
    for name in annotations:
        named[name].type_annotation = None  # Strawberry would read those of class and field, and both several times.
    return {**named, "__annotations__": annotations}


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
    """A field that is read from the attribute of the same Python name, or by a resolver."""
    given = {name: value for name, value in (("default", default), ("resolver", resolver)) if value is not None}
    made: StrawberryField = strawberry.field(
        name=name or camel_case(python_name),
        description=description,
        deprecation_reason=deprecated,
        metadata=dict.fromkeys(marks, True),
        **given,
    )
    made.python_name = python_name
    made.type_annotation = read_once(annotation)
    return made


def attribute_of(record: Any, name: str) -> Any:
    """What a plain field answers: sets have no order of their own, and come in the same one from every server."""
    value = value_of(record, name) if isinstance(record, BaseModel) else getattr(record, name)
    if not isinstance(value, AbstractSet):
        return value
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


class RecordTypes:
    """Makes the types of records, each once."""

    def __init__(self, names: Names, register: Register) -> None:
        self._names = names
        self._register = register
        self.node = node_interface(names)
        """the interface of all records"""
        self._models: dict[type[BaseModel], type] = {}
        self._open: list[type[BaseModel]] = []

    def entity(self, entity: EntitySpec) -> type:
        """The type of an entity's records."""
        name = self._names.type(entity.type_name)
        self._register.type(name, at(entity), entity.model)
        named = [(property_name(part.name), part) for part in entity.properties.values()]
        self._register.fields_of(entity, [*named, *((camel_case(join.name), join) for join in entity.joins.values())])
        fields = [self._property(entity, field_name, part) for field_name, part in named]
        return record_type(entity, self.node, name, _body(_first_of_each(fields)), entity.description)

    def enum_name(self, enum_class: type) -> str:
        """What an enum is called in GraphQL."""
        return self._names.type(enum_class.__name__)

    def scalar(self, entity: EntitySpec, part: PropertySpec) -> Any:
        """The annotation of a property that can be part of a key."""
        codec = part.column.codec
        enum_class = getattr(codec, "enum_class", None)
        if enum_class is not None:
            self._take_enum(entity, part.name, enum_class)
        return annotation_of(codec, self.enum_name)

    # --- properties --------------------------------------------------------------------------------------------

    def _property(self, entity: EntitySpec, name: str, part: PropertySpec) -> StrawberryField:
        field = entity.model.model_fields[part.name]
        if part.codec is not None:
            annotation, marks = self.scalar(entity, part), []
        else:
            annotation, marks = self.value(entity, part.name, field.annotation, field.metadata), [STORED]
        return plain_field(
            part.name,
            or_null(annotation) if part.nullable or depends_on_record(part.allow) else annotation,
            name=name,
            description=part.description,
            deprecated=deprecation(field),
            marks=marks,
            resolver=_guarded(entity, part) if part.allow is not None else None,
        )

    def value(
        self,
        entity: EntitySpec,
        place: str,
        annotation: Any,
        marks: Iterable[Any] = (),
        *,
        model: ModelType | None = None,
    ) -> Any:
        """The annotation of anything; what has no type of its own is JSON. `model`: makes the types of models."""
        read = read_annotation(annotation, marks)
        if read.codec is not None:
            enum_class = getattr(read.codec, "enum_class", None)
            if enum_class is not None:
                self._take_enum(entity, place, enum_class)
            return annotation_of(read.codec, self.enum_name)
        if len(read.types) != 1:
            return Json
        kind = read.types[0]
        if kind is bytes:
            return Bytes
        origin = get_origin(kind) or kind
        if isinstance(origin, type) and issubclass(origin, list | tuple | AbstractSet):
            return self._list(entity, place, kind, model)
        if isinstance(origin, type) and issubclass(origin, BaseModel) and not issubclass(origin, RootModel):
            return (model or self._model)(entity, place, kind)
        return Json

    def _list(self, entity: EntitySpec, place: str, kind: Any, model: ModelType | None) -> Any:
        inside = {part for part in get_args(kind) if part is not Ellipsis}
        if len(inside) != 1:
            return Json
        (item,) = inside
        of_item = self.value(entity, place, item, model=model)
        if of_item is Json:
            return Json
        return list[or_null(of_item)] if read_annotation(item).nullable else list[of_item]  # type: ignore[misc,valid-type]

    def _model(self, entity: EntitySpec, place: str, model: type[BaseModel]) -> Any:
        """The type of a model inside a record; one that holds itself, or keeps what it does not know, is JSON."""
        if model in self._models:
            return self._models[model]
        if model in self._open or not has_own_type(model):
            return Json
        name = self._names.type(model.__name__)
        self._register.type(name, at(entity, place), model)
        self._check_names(entity, place, model)
        self._open.append(model)
        fields = []
        for python_name, field in model.model_fields.items():
            annotation = self.value(entity, place, field.annotation, field.metadata)
            nullable = read_annotation(field.annotation, field.metadata).nullable
            fields.append(
                plain_field(
                    python_name,
                    or_null(annotation) if nullable else annotation,
                    description=field.description,
                    deprecated=deprecation(field),
                    marks=[STORED],
                )
            )
        self._open.remove(model)
        self._models[model] = object_type(
            name, _first_of_each(fields), model.__doc__ and inspect.cleandoc(model.__doc__)
        )
        return self._models[model]

    def _check_names(self, entity: EntitySpec, place: str, model: type[BaseModel]) -> None:
        """Reports what GraphQL cannot write in the names of a model, and fields that would have one name."""

        def report(problem: str, remedy: str) -> None:
            violation = Violation(entity.type_name, place, f"is of {model.__name__}, {problem}", remedy)
            self._register.violations.append(violation)

        if not _is_graphql_name(model.__name__):
            report("a name that GraphQL cannot write.", "Derive a class from it, and use that one.")
        taken: dict[str, str] = {}
        for python_name in model.model_fields:
            name = camel_case(python_name)
            other = taken.setdefault(name, python_name)
            if not _is_graphql_name(name):
                report(f"whose {python_name!r} GraphQL cannot write.", "Use ASCII letters, digits and underscores.")
            elif other != python_name:
                report(
                    f"whose {python_name!r} becomes the field {name!r}, as {other!r} does.", "Rename one of the two."
                )

    def _take_enum(self, entity: EntitySpec, place: str, enum_class: type[Enum]) -> None:
        self._register.type(self.enum_name(enum_class), at(entity, place), enum_class)
        wrong = next((member.name for member in enum_class if member.name in ("true", "false", "null")), None)
        wrong = wrong or next((member.name for member in enum_class if not _is_graphql_name(member.name)), None)
        if wrong is not None:
            self._register.violations.append(
                Violation(
                    entity.type_name,
                    place,
                    f"is of {enum_class.__name__}, whose member {wrong!r} GraphQL cannot write.",
                    "Name members with ASCII letters, digits and underscores.",
                )
            )


def has_own_type(model: type[BaseModel]) -> bool:
    """Whether GraphQL can name everything that a model holds."""
    return model.model_config.get("extra") != "allow" and bool(model.model_fields)


def _guarded(entity: EntitySpec, part: PropertySpec) -> Any:
    """Reads a property for those only who may."""

    async def resolve(root: Any, info: strawberry.Info[Any, Any]) -> Any:
        await info.context.gate.show(entity, [part], root, place_of(info))
        return attribute_of(root, part.name)

    parent: Any = strawberry.Parent
    resolve.__annotations__ = {"root": parent[Any], "info": strawberry.Info}
    return resolve


def _first_of_each(fields: Iterable[StrawberryField]) -> list[StrawberryField]:
    """Doubles are reported, and left out so that all else can be looked at too."""
    first: dict[str | None, StrawberryField] = {}
    for field in fields:
        first.setdefault(field.graphql_name, field)
    return [*first.values()]


def _is_graphql_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not name.startswith("__")


def deprecation(field: FieldInfo) -> str | None:
    """Why a property is not to be used any more, if that is said."""
    if isinstance(field.deprecated, bool):
        return "It is no longer to be used." if field.deprecated else None
    return getattr(field.deprecated, "message", None) or (
        field.deprecated if isinstance(field.deprecated, str) else None
    )


def fields_of(decorated: type) -> list[StrawberryField]:
    """The fields of a class that was decorated with `strawberry.type`."""
    definition = get_object_definition(decorated)
    if definition is None:
        raise TypeError(f"{decorated!r} is no Strawberry type: decorate it with @strawberry.type.")
    return definition.fields
