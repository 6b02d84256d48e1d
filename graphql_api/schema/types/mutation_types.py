"""Types of mutations: inputs, and payloads with the record or, for a batch, a result for each row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, cast

import strawberry
from strawberry.types.arguments import StrawberryArgument
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidValue, ShardQLError
from graphql_api.model import Entity, EntitySpec, PropertySpec, entity_name, value_of
from graphql_api.schema.authorization import field_location
from graphql_api.schema.error_formatting import REJECTED_FIELDS
from graphql_api.schema.graphql_names import GraphQLNames, property_name
from graphql_api.schema.selection import shown_properties
from graphql_api.schema.types.generated_fields import Mark, argument, input_field, input_type, object_type, plain_field
from graphql_api.schema.types.graphql_scalars import BigInt, make_nullable
from graphql_api.schema.types.object_types import RecordTypes, deprecation_reason, id_format, property_description

ID = "id"
EXPECTED_VERSION = "expectedVersion"
IDEMPOTENCY_KEY = "idempotencyKey"
EXPECTED_VERSION_ATTRIBUTE = "expected_version"
"""The attribute of input objects, as hooks see them, that holds the expected version."""

_RESERVED_NAMES = frozenset({EXPECTED_VERSION, IDEMPOTENCY_KEY})
"""Fields and arguments that are not properties: a property of this name gets a trailing underscore."""

_OMITTED = "Omitted fields keep their values, null clears a field."
_DESCRIPTIONS = {
    "create": "A new {}. Fields that the server sets are not included.",
    "update": f"The {{}} to update, and the fields to change. {_OMITTED}",
    "put": "A complete {} to create or replace.",
    "delete": "The {} to delete.",
}


_Control = tuple[str, str, Any, str, bool]
"""A field or argument that identifies the record to write, or its version: the parameters of `input_field`."""


class InputTypes:
    """Factory of the input types of entities."""

    def __init__(self, names: GraphQLNames, records: RecordTypes) -> None:
        self._names = names
        self._records = records

    def input_type(self, entity: EntitySpec, verb: str) -> type | None:
        """Create the input type of a verb; None if there is nothing that a client can set."""
        fields = [*self._fields(entity, verb)]
        if not fields:
            return None
        name = self._names.type_name(f"{self._names.unprefixed_mutation(verb.capitalize(), entity)}Input")
        self._names.claim("type", name, f"the input of {self._names.unprefixed_mutation(verb, entity)}", entity)
        created = input_type(name, fields, _DESCRIPTIONS[verb].format(entity.type_name))
        setattr(created, REJECTED_FIELDS, _rejected_fields(entity, verb))
        return created

    def arguments(self, entity: EntitySpec, verb: str) -> Iterator[StrawberryArgument]:
        """Yield the arguments of a single mutation in addition to `input`."""
        controls = [*(self._keys(entity) if verb == "delete" else ()), *self._version(entity, verb)]
        for _, name, annotation, description, required in controls:
            yield argument(name, annotation, description, required=required)
        yield argument(
            IDEMPOTENCY_KEY,
            str,
            "A unique key for this request, such as a UUID. A repeated request with the same key within 24 hours "
            "returns the first result without writing again.",
        )

    # --- fields ------------------------------------------------------------------------------------------------

    def _fields(self, entity: EntitySpec, verb: str) -> Iterator[StrawberryField]:
        properties = [*self._property_fields(entity, verb)]
        if verb in ("update", "delete"):
            # Without properties that can change, an update can still add an entry to a history.
            if not (properties or (entity.sub_ids if verb == "update" else entity.primary_key)):
                return
            yield from starmap(input_field, self._keys(entity))
        yield from properties
        yield from starmap(input_field, self._version(entity, verb))

    def _property_fields(self, entity: EntitySpec, verb: str) -> Iterator[StrawberryField]:
        """Yield the fields of properties. In a whole record, one that has another source of its value is optional."""
        if verb == "delete":
            return
        for part in updatable_properties(entity) if verb == "update" else writable_properties(entity):
            is_key = verb == "put" and part in entity.primary_key
            optional = verb == "update" or (not is_key and is_optional_input(entity, part))
            default = _default(entity, part) if optional and verb != "update" else ""
            yield input_field(
                input_attribute_name(part.name),
                input_field_name(part.name),
                self._records.property_annotation(entity, part, as_input=True),
                " ".join(filter(None, [property_description(part), default])),
                not optional and not part.nullable,
                deprecation_reason(entity.model.model_fields[part.name]),
            )

    def _keys(self, entity: EntitySpec) -> Iterator[_Control]:
        if entity.ids:
            text = f"The {id_format(entity)}, or the global id of the record."
            yield ID, ID, strawberry.ID, text, True
        for part in entity.sub_ids:
            scalar, text = self._records.scalar_annotation(entity, part), property_description(part)
            if entity.ids:
                text += " Not required if `id` is the global id of an entry."
            yield input_attribute_name(part.name), input_field_name(part.name), scalar, text, not entity.ids

    def _version(self, entity: EntitySpec, verb: str) -> Iterator[_Control]:
        if entity.version is not None and verb != "create":
            scalar = self._records.scalar_annotation(entity, entity.version)
            text = f"Fails with `VERSION_CONFLICT` unless the {entity.version.stored} of the record has this value."
            yield EXPECTED_VERSION_ATTRIBUTE, EXPECTED_VERSION, scalar, text, False


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


def _default(entity: EntitySpec, part: PropertySpec) -> str:
    """Describe the value of a property that a whole record omits; empty if it is null."""
    field = entity.model.model_fields[part.name]
    if part is entity.created:
        return "Defaults to the time of creation."
    if field.default_factory is not None:
        return "Generated by the server if omitted." if part in entity.primary_key else ""
    if field.is_required() or field.default is None or part.codec is None:
        return ""
    try:
        return f"Defaults to `{part.codec.literal(field.default)}`."
    except InvalidValue:  # pydantic does not check the type of a default, and neither does the record.
        return ""


def _rejected_fields(entity: EntitySpec, verb: str) -> dict[str, str]:
    """Return why the input of a verb rejects fields, and what to do instead: controls, and fields of the record."""
    reasons = {IDEMPOTENCY_KEY: "pass it as an argument of the mutation, not in the input"}
    if verb == "create":
        reasons[EXPECTED_VERSION] = "a new record has no version yet; omit it"
    elif entity.version is None:
        reasons[EXPECTED_VERSION] = f"{entity.type_name} has no version property; omit it"
    for name in {property_name(part.name) for part in writable_properties(entity)} & reasons.keys():
        reasons[name] = f"the input field of the property {name} is {name}_; use that"
    reasons |= {
        property_name(part.name): reason
        for part in entity.properties.values()
        for reason in _reasons(entity, part, exists=verb in ("update", "delete"))
    }
    if verb in ("create", "put") and len(entity.ids) == 1 and ID not in reasons:
        reasons[ID] = f"the server derives it from {property_name(entity.ids[0].name)}; set that instead"
    return reasons


def _reasons(entity: EntitySpec, part: PropertySpec, *, exists: bool) -> Iterator[str]:
    if part.function is not None:
        yield f"the server derives it from {' and '.join(map(property_name, part.sources))}; set that instead"
    elif part.counter_group is not None:
        yield "the server counts it; omit it"
    elif part == entity.version:
        yield "the server increments it with every write; omit it, or pass the version you read as expectedVersion"
    elif part == entity.updated:
        yield "the server sets it with every write; omit it"
    elif exists and part in entity.ids:
        yield "it is part of the id, which never changes; pass the id of the record as id"
    elif exists and (part == entity.created or part.immutable):
        yield "it never changes after the record is created; omit it"


def input_field_name(python_name: str) -> str:
    """Return the name of a property in inputs."""
    name = property_name(python_name)
    return f"{name}_" if name in _RESERVED_NAMES else name


def input_attribute_name(python_name: str) -> str:
    """Return the attribute of a property in input objects, as hooks see them; two names are reserved."""
    reserved = {ID: f"row_{ID}", EXPECTED_VERSION_ATTRIBUTE: f"{EXPECTED_VERSION_ATTRIBUTE}_"}
    return reserved.get(python_name, python_name)


# --- payloads ---------------------------------------------------------------------------------------------------

SHARED_TYPES = ("WriteError", "FieldProblem", "DeleteResult")
"""Names of types that the mutations of all schemas share."""

RESULTS = "results"


@strawberry.type(description="An invalid property of a record.")
class FieldProblem:
    """An invalid property of a record."""

    field: str = strawberry.field(description="Path of the property, with dots between nested names.")
    message: str = strawberry.field(description="What is wrong, and how to fix it.")


@strawberry.type(description="Why a row of a batch was not written.")
class WriteError:
    """The error of one row, with the properties of an error of a single mutation."""

    code: str = strawberry.field(description="The error code, such as `NOT_UNIQUE`.")
    message: str = strawberry.field(description="What is wrong, and how to fix it.")
    argument: str | None = strawberry.field(description="The property or argument that caused the error.")
    retryable: bool = strawberry.field(
        description="Whether the same row can be sent again unchanged, and may succeed later."
    )
    version: BigInt | None = strawberry.field(
        description="For `VERSION_CONFLICT`: the version of the stored record, or null if it does not exist."
    )
    fields: list[FieldProblem] = strawberry.field(
        description="For `INVALID_RECORD`: every invalid property.", metadata={Mark.STORED_LIST: True}
    )


def write_error(error: ShardQLError) -> WriteError:
    """Return the error of a row, from an error that clients may see."""
    return WriteError(
        code=error.code,
        message=error.message,
        argument=error.argument,
        retryable=error.retryable,
        version=getattr(error, "version", None),
        fields=[FieldProblem(field=path, message=message) for path, message in getattr(error, "fields", ())],
    )


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of one record: the record, or for a row of a batch its error."""

    record: Entity | None = None
    """The record after the write, or before a delete."""
    error: WriteError | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The results of all rows, in the order of the inputs."""

    results: Sequence[WriteResult]


def payload_type(names: GraphQLNames, entity: EntitySpec, verb: str, result: type, *, several: bool) -> type:
    """Create the payload type of a mutation; `result`: the type of the record, or with `several` of a row's result."""
    results: Any = list[result]  # type: ignore[valid-type]
    if several:
        description = "The result of each row, in the order of the inputs."
        field = plain_field(RESULTS, results, description, marks=[Mark.PER_RECORD])
    else:
        field = _deleted_id() if verb == "delete" else _record(entity, result)
    type_name = names.type_name(f"{names.unprefixed_mutation(verb.capitalize(), entity, several=several)}Payload")
    names.claim("type", type_name, f"the payload of {names.unprefixed_mutation(verb, entity, several=several)}", entity)
    mutation = names.mutation_field(verb, entity, several=several)
    return object_type(type_name, [field], f"The result of {mutation}.")


def row_result_type(names: GraphQLNames, entity: EntitySpec, record: type) -> type:
    """Create the type of the result of one row: the record, or an error."""
    name = names.type_name(f"{entity.type_name}Result")
    names.claim("type", name, f"the result of one row of {entity.type_name}", entity)
    description = f"The result of one row: the {entity.type_name}, or an error."
    return object_type(name, [_record(entity, record), _error()], description)


def record_field_name(entity: EntitySpec) -> str:
    """Return the name of the field that holds the record in payloads and row results."""
    name = entity_name(entity.type_name)
    return f"{name}_" if name == "error" else name


def _record(entity: EntitySpec, record: type) -> StrawberryField:
    async def resolve_record(root: Any, info: strawberry.Info[Any, Any]) -> Entity | None:
        written: Entity | None = root.record
        if written is None:
            return None

        async def read() -> Entity | None:
            return written

        values = {name: value_of(written, name) for name in entity.properties}
        shown, policy = shown_properties(entity, info), info.context.authorization
        return cast(Entity | None, await policy.read_if_allowed(entity, values, read, shown, field_location(info)))

    name, description = record_field_name(entity), f"The {entity.type_name} after the write."
    return plain_field("record", make_nullable(record), description, name=name, resolver=resolve_record)


def _deleted_id() -> StrawberryField:
    return plain_field(
        "deleted_id",
        make_nullable(strawberry.ID),
        "The `id` of the deleted record. Null if it did not exist.",
        resolver=lambda root, info: None if root.record is None else info.context.database.seal_key(root.record),
    )


def _error() -> StrawberryField:
    return plain_field("error", make_nullable(WriteError), "Why the row failed, or null if it succeeded.")


DELETE_RESULT = object_type(
    "DeleteResult", [_deleted_id(), _error()], "The result of one row: the id of the deleted record, or an error."
)
"""The result of one row of a delete, which is the same type for all entities."""
