"""Input types of mutations: one for each entity and verb, and one for each nested model."""

import inspect
from collections.abc import Iterator
from typing import Any

import strawberry
from pydantic import BaseModel
from strawberry.types.field import StrawberryField

from graphql_api.model import EntitySpec, PropertySpec, camel_case, parse_annotation
from graphql_api.schema import descriptions
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at, property_name
from graphql_api.schema.types.generated_fields import Argument
from graphql_api.schema.types.graphql_scalars import Json, make_nullable
from graphql_api.schema.types.object_types import (
    RecordTypes,
    deprecation_reason,
    has_graphql_type,
    input_type,
    plain_field,
)
from graphql_api.schema.validation_messages import REJECTED_FIELDS, rejected_fields

ID = "id"
EXPECTED_VERSION = "expectedVersion"
IDEMPOTENCY_KEY = "idempotencyKey"
EXPECTED_VERSION_ATTRIBUTE = "expected_version"
"""The attribute of input objects, as hooks see them, that holds the expected version."""

_RESERVED_NAMES = frozenset({EXPECTED_VERSION, IDEMPOTENCY_KEY})
"""Fields and arguments that are not properties: a property of this name gets a trailing underscore."""


class InputTypes:
    """Factory of the input types of entities and nested models."""

    def __init__(self, names: GraphQLNames, records: RecordTypes, registry: NameRegistry) -> None:
        self._names = names
        self._records = records
        self._registry = registry
        self._models: dict[type[BaseModel], type] = {}
        self._in_progress: list[type[BaseModel]] = []

    def create_input(self, entity: EntitySpec) -> type | None:
        """Create the input type of a create; None if the server sets every property."""
        fields = [self._property_field(entity, part) for part in writable_properties(entity)]
        return self._input_type(entity, "create", fields, descriptions.create_input(entity))

    def put_input(self, entity: EntitySpec) -> type | None:
        """Create the input type of a put; None if it would have no fields."""
        fields = [
            self._property_field(entity, part, required=part in entity.primary_key)
            for part in writable_properties(entity)
        ]
        fields += self._version_field(entity)
        return self._input_type(entity, "put", fields, descriptions.put_input(entity))

    def update_input(self, entity: EntitySpec) -> type | None:
        """Create the input type of an update; None if no property can be changed."""
        fields = [self._field(entity, part, required=False) for part in updatable_properties(entity)]
        # Without updatable properties, an update can still add an entry to a history.
        if not fields and not entity.sub_ids:
            return None
        fields = [*self._key_fields(entity), *fields, *self._version_field(entity)]
        return self._input_type(entity, "update", fields, descriptions.update_input(entity))

    def delete_input(self, entity: EntitySpec) -> type | None:
        """Create the input type of a delete; None for a singleton."""
        if not entity.primary_key:
            return None
        fields = [*self._key_fields(entity), *self._version_field(entity)]
        return self._input_type(entity, "delete", fields, descriptions.delete_input(entity))

    def arguments(self, entity: EntitySpec, verb: str) -> Iterator[Argument]:
        """Yield the arguments of a single mutation in addition to `input`."""
        if verb == "delete":
            if entity.ids:
                yield Argument(ID, strawberry.ID, descriptions.raw_or_global_id(entity), required=True)
            for part in entity.sub_ids:
                scalar, description = self._records.scalar_annotation(entity, part), descriptions.sub_id(entity, part)
                yield Argument(input_field_name(part.name), scalar, description, required=not entity.ids)
        if verb != "create" and entity.version is not None:
            scalar = self._records.scalar_annotation(entity, entity.version)
            yield Argument(EXPECTED_VERSION, scalar, descriptions.expected_version(entity.version))
        yield Argument(IDEMPOTENCY_KEY, str, descriptions.IDEMPOTENCY_KEY)

    def _input_type(
        self, entity: EntitySpec, verb: str, fields: list[StrawberryField], description: str
    ) -> type | None:
        if not fields:
            return None
        name = self._names.type_name(f"{self._names.unprefixed_mutation(verb.capitalize(), entity)}Input")
        self._registry.claim_type(
            name, declared_at(entity), f"the input of {self._names.unprefixed_mutation(verb, entity)}"
        )
        created = input_type(name, fields, description)
        setattr(created, REJECTED_FIELDS, {**_rejected_controls(entity, verb), **rejected_fields(entity, verb)})
        return created

    # --- fields ------------------------------------------------------------------------------------------------

    def _property_field(self, entity: EntitySpec, part: PropertySpec, *, required: bool = False) -> StrawberryField:
        """Create the field of a property in a whole record; it is optional if the property has another source."""
        optional = not required and is_optional_input(entity, part)
        default = descriptions.default_value(entity, part) if optional else ""
        return self._field(entity, part, required=not optional and not part.nullable, default=default)

    def _field(self, entity: EntitySpec, part: PropertySpec, *, required: bool, default: str = "") -> StrawberryField:
        field = entity.model.model_fields[part.name]
        if part.codec is not None:
            annotation = self._records.scalar_annotation(entity, part)
        else:
            annotation = self._records.value_annotation(
                entity, part.name, field.annotation, field.metadata, model=self._model_annotation
            )
        return _input_field(
            input_attribute_name(part.name),
            input_field_name(part.name),
            annotation,
            " ".join(filter(None, [descriptions.property_description(part), default])),
            required=required,
            deprecated=deprecation_reason(field),
        )

    def _key_fields(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        """Yield the fields that identify a stored record."""
        if entity.ids:
            yield _input_field(ID, ID, strawberry.ID, descriptions.raw_or_global_id(entity), required=True)
        for part in entity.sub_ids:
            yield _input_field(
                input_attribute_name(part.name),
                input_field_name(part.name),
                self._records.scalar_annotation(entity, part),
                descriptions.sub_id(entity, part),
                required=not entity.ids,
            )

    def _version_field(self, entity: EntitySpec) -> Iterator[StrawberryField]:
        if entity.version is not None:
            scalar = self._records.scalar_annotation(entity, entity.version)
            description = descriptions.expected_version(entity.version)
            yield _input_field(EXPECTED_VERSION_ATTRIBUTE, EXPECTED_VERSION, scalar, description, required=False)

    # --- models ------------------------------------------------------------------------------------------------

    def _model_annotation(self, entity: EntitySpec, attribute: str, model: type[BaseModel]) -> Any:
        """Return the input type of a nested model that has a GraphQL type of its own; JSON for others."""
        if model in self._models:
            return self._models[model]
        if model in self._in_progress or not has_graphql_type(model):
            return Json
        name = self._names.type_name(f"{model.__name__}Input")
        self._registry.claim_type(name, declared_at(entity, attribute), f"the input of {model.__name__}")
        self._in_progress.append(model)
        fields = []
        for python_name, field in model.model_fields.items():
            annotation = self._records.value_annotation(
                entity, attribute, field.annotation, field.metadata, model=self._model_annotation
            )
            nullable = parse_annotation(field.annotation, field.metadata).nullable
            fields.append(
                _input_field(
                    python_name,
                    camel_case(python_name),
                    annotation,
                    descriptions.model_field(python_name, field.description),
                    required=field.is_required() and not nullable,
                    deprecated=deprecation_reason(field),
                )
            )
        self._in_progress.remove(model)
        description = inspect.cleandoc(model.__doc__) if model.__doc__ else descriptions.model_input(model.__name__)
        self._models[model] = input_type(name, fields, description)
        return self._models[model]


# --- properties of inputs --------------------------------------------------------------------------------------


def writable_properties(entity: EntitySpec) -> list[PropertySpec]:
    """Return the properties that a client can set: neither derived ones, nor those that the server sets."""
    set_by_server = {part.name for part in (entity.updated, entity.version) if part is not None}
    return [
        part
        for part in entity.properties.values()
        if part.function is None and part.counter_group is None and part.name not in set_by_server
    ]


def updatable_properties(entity: EntitySpec) -> list[PropertySpec]:
    """Return the properties that a client can change in a stored record."""
    fixed = {part.name for part in (*entity.primary_key, entity.created) if part is not None}
    return [part for part in writable_properties(entity) if part.name not in fixed and not part.immutable]


def is_optional_input(entity: EntitySpec, part: PropertySpec) -> bool:
    """Whether an omitted property has a value from another source: null, its default or the server."""
    return part.nullable or part is entity.created or not entity.model.model_fields[part.name].is_required()


def _rejected_controls(entity: EntitySpec, verb: str) -> dict[str, str]:
    """Explain why an input rejects the idempotency key or the expected version, by field name."""
    reasons = {IDEMPOTENCY_KEY: "pass it as an argument of the mutation, not in the input"}
    if verb == "create":
        reasons[EXPECTED_VERSION] = "a new record has no version yet; omit it"
    elif entity.version is None:
        reasons[EXPECTED_VERSION] = f"{entity.type_name} has no version property; omit it"
    for name in {property_name(part.name) for part in writable_properties(entity)} & reasons.keys():
        reasons[name] = f"the input field of the property {name} is {name}_; use that"
    return reasons


def input_field_name(python_name: str) -> str:
    """Return the name of a property in inputs."""
    name = property_name(python_name)
    return f"{name}_" if name in _RESERVED_NAMES else name


def input_attribute_name(python_name: str) -> str:
    """Return the attribute of a property in input objects, as hooks see them; two names are reserved."""
    reserved = {ID: f"row_{ID}", EXPECTED_VERSION_ATTRIBUTE: f"{EXPECTED_VERSION_ATTRIBUTE}_"}
    return reserved.get(python_name, python_name)


def _input_field(
    python_name: str, name: str, annotation: Any, description: str, *, required: bool, deprecated: str | None = None
) -> StrawberryField:
    if required:
        return plain_field(python_name, annotation, name=name, description=description)
    return plain_field(
        python_name,
        make_nullable(annotation),
        name=name,
        description=description,
        deprecated=deprecated,
        default=strawberry.UNSET,
    )
