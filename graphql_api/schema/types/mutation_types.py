"""Types of mutations: inputs, and payloads with the record or, for a batch, a result for each row."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import Any, cast

import strawberry
from strawberry.types.arguments import StrawberryArgument
from strawberry.types.field import StrawberryField

from graphql_api.errors import InvalidValue, ShardQLError
from graphql_api.model import Entity, EntitySpec, PropertySpec, Verb, entity_name, value_of
from graphql_api.schema.authorization import field_location
from graphql_api.schema.error_formatting import REJECTED_FIELDS
from graphql_api.schema.graphql_names import GraphQLNames, property_name
from graphql_api.schema.selection import shown_properties
from graphql_api.schema.types.generated_fields import Mark, argument, input_field, input_type, object_type, plain_field
from graphql_api.schema.types.graphql_scalars import BigInt, make_nullable
from graphql_api.schema.types.object_types import RecordTypes, deprecation_reason

ID = "id"
EXPECTED_VERSION = "expectedVersion"
IDEMPOTENCY_KEY = "idempotencyKey"
EXPECTED_VERSION_ATTRIBUTE = "expected_version"
"""The attribute of input objects, as hooks see them, that holds the expected version."""

_RESERVED_NAMES = frozenset({EXPECTED_VERSION, IDEMPOTENCY_KEY})
"""Fields and arguments that are not properties: a property of this name gets a trailing underscore."""

_Control = tuple[str, str, Any, str | None, bool]
"""A field or argument that identifies the record to write, or its version: the parameters of `input_field`."""

DELETE_INPUT = input_type(
    "DeleteInput",
    [
        input_field(ID, ID, strawberry.ID, "The global id of the record, or the id of a record without sub ids.", True),
        input_field(EXPECTED_VERSION_ATTRIBUTE, EXPECTED_VERSION, BigInt, None, required=False),
    ],
    "A record to delete.",
)
"""One row of a batch of deletes, of any entity."""


class InputTypes:
    """Factory of the input types of entities."""

    def __init__(self, names: GraphQLNames, records: RecordTypes) -> None:
        self._names = names
        self._records = records

    def record_input(self, entity: EntitySpec) -> type | None:
        """Create the input type of a complete record; None if there is nothing that a client can set."""
        fields = [*self._property_fields(entity, writable_properties(entity), whole=True)]
        if not fields:
            return None
        fields += starmap(input_field, self._version(entity))
        text = f"A complete {entity.type_name}."
        return self._create(entity, "Input", fields, text, rejected_fields(entity, exists=False))

    def patch(self, entity: EntitySpec) -> type | None:
        """Create the input type of changes; None if nothing of a record can change."""
        properties = [*self._property_fields(entity, updatable_properties(entity), whole=False)]
        # Without properties that can change, an update can still add an entry to a history.
        if not properties and not entity.sub_ids:
            return None
        fields = [*starmap(input_field, self._keys(entity)), *properties, *starmap(input_field, self._version(entity))]
        text = f"Changes of a {entity.type_name}: omitted fields keep their values, null clears a field."
        return self._create(entity, "Patch", fields, text, rejected_fields(entity, exists=True))

    def arguments(self, entity: EntitySpec, verb: Verb) -> Iterator[StrawberryArgument]:
        """Yield the arguments of a single mutation in addition to `input`."""
        keys = self._keys(entity) if verb == "delete" else ()
        for _, name, annotation, _, required in (*keys, *(self._version(entity) if verb != "create" else ())):
            yield argument(name, annotation, required=required)
        yield argument(IDEMPOTENCY_KEY, str)

    def _create(
        self,
        entity: EntitySpec,
        suffix: str,
        fields: Sequence[StrawberryField],
        description: str,
        rejected: Mapping[str, str],
    ) -> type:
        name = self._names.type_name(f"{entity.type_name}{suffix}")
        self._names.claim("type", name, f"the {suffix.lower()} of {entity.type_name}", entity)
        created = input_type(name, fields, description)
        setattr(created, REJECTED_FIELDS, rejected)
        return created

    # --- fields ------------------------------------------------------------------------------------------------

    def _property_fields(
        self, entity: EntitySpec, properties: Iterable[PropertySpec], *, whole: bool
    ) -> Iterator[StrawberryField]:
        """Yield the fields of properties. In a whole record, one that has another source of its value is optional."""
        for part in properties:
            optional = not whole or is_optional_input(entity, part)
            yield input_field(
                input_attribute_name(part.name),
                input_field_name(part.name),
                self._records.property_annotation(entity, part, as_input=True),
                _default(entity, part) if whole and optional else None,
                not optional and not part.nullable,
                deprecation_reason(entity.model.model_fields[part.name]),
            )

    def _keys(self, entity: EntitySpec) -> Iterator[_Control]:
        if entity.ids:
            yield ID, ID, strawberry.ID, None, True
        for part in entity.sub_ids:
            scalar = self._records.scalar_annotation(entity, part)
            yield input_attribute_name(part.name), input_field_name(part.name), scalar, None, not entity.ids

    def _version(self, entity: EntitySpec) -> Iterator[_Control]:
        if entity.version is not None:
            scalar = self._records.scalar_annotation(entity, entity.version)
            yield EXPECTED_VERSION_ATTRIBUTE, EXPECTED_VERSION, scalar, None, False


# --- properties of inputs --------------------------------------------------------------------------------------


def writable_properties(entity: EntitySpec) -> list[PropertySpec]:
    """Return the properties that a client can set: neither derived ones, nor those that the server sets."""
    set_by_server = {part.name for part in (entity.updated, entity.version) if part is not None}
    return [
        part
        for part in entity.shown_properties.values()
        if part.function is None and part.counter_group is None and part.name not in set_by_server
    ]


def updatable_properties(entity: EntitySpec) -> list[PropertySpec]:
    """Return the properties that a client can change in a stored record."""
    fixed = {part.name for part in (*entity.primary_key, entity.created) if part is not None}
    return [part for part in writable_properties(entity) if part.name not in fixed and not part.immutable]


def is_optional_input(entity: EntitySpec, part: PropertySpec) -> bool:
    """Whether an omitted property has a value from another source: null, its default or the server."""
    return part.nullable or part is entity.created or not entity.model.model_fields[part.name].is_required()


def _default(entity: EntitySpec, part: PropertySpec) -> str | None:
    """Describe the value of a property that a whole record omits; None if it is null."""
    field = entity.model.model_fields[part.name]
    if part is entity.created:
        return "Defaults to the time of creation."
    if field.default_factory is not None:
        return "Generated by the server if omitted." if part in entity.primary_key else None
    if field.is_required() or field.default is None or part.codec is None:
        return None
    try:
        return f"Defaults to `{part.codec.literal(field.default)}`."
    except InvalidValue:  # pydantic does not check the type of a default, and neither does the record.
        return None


def rejected_fields(entity: EntitySpec, *, exists: bool) -> dict[str, str]:
    """Return why an input rejects fields, and what to do instead: controls, and fields of the record.

    `exists`: it changes a record that exists.
    """
    reasons = {IDEMPOTENCY_KEY: "pass it as an argument of the mutation, not in the input"}
    if entity.version is None:
        reasons[EXPECTED_VERSION] = f"{entity.type_name} has no version property; omit it"
    for name in {property_name(part.name) for part in writable_properties(entity)} & reasons.keys():
        reasons[name] = f"the input field of the property {name} is {name}_; use that"
    reasons |= {
        property_name(part.name): reason
        for part in entity.shown_properties.values()
        for reason in _reasons(entity, part, exists=exists)
    }
    if not exists and len(entity.ids) == 1 and ID not in reasons:
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

SHARED_TYPES = (
    *("WriteError", "FieldProblem"),
    *("DeleteInput", "DeletePayload", "DeleteBatchPayload", "DeleteResult", "WritePayload", "WriteResult"),
)
"""Names of types that the mutations of all schemas share."""

RESULTS = "results"


@strawberry.type(description="An invalid property of a record.")
class FieldProblem:
    """An invalid property of a record."""

    field: str = strawberry.field(description="Path of the property, with dots between nested names.")
    message: str = strawberry.field(description="The reason why it is invalid.")


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


class PayloadTypes:
    """The types that the mutations of one entity return."""

    def __init__(self, names: GraphQLNames, entity: EntitySpec, record: type) -> None:
        self._names = names
        self._entity = entity
        self._record = record

    @cached_property
    def single(self) -> type:
        """The payload with one record."""
        text = f"The {self._entity.type_name} that was written."
        return self._create("Payload", [_record(self._entity, self._record)], text)

    @cached_property
    def batch(self) -> type:
        """The payload with a result for each row, in the order of the inputs."""
        kind = self._entity.type_name
        text = f"A {kind} of a batch, or the error of its row."
        row = self._create("Result", [_record(self._entity, self._record), _error()], text)
        return self._create("BatchPayload", [_results(row)], f"The results of a batch of {kind} records, row by row.")

    def _create(self, suffix: str, fields: Sequence[StrawberryField], description: str) -> type:
        name = self._names.type_name(f"{self._entity.type_name}{suffix}")
        self._names.claim("type", name, f"the result of mutations of {self._entity.type_name}", self._entity)
        return object_type(name, fields, description)


def record_field_name(entity: EntitySpec) -> str:
    """Return the name of the field that holds the record in payloads and row results."""
    name = entity_name(entity.type_name)
    return f"{name}_" if name == "error" else name


async def visible_record(
    written: Entity, entity: EntitySpec, info: strawberry.Info[Any, Any], shown: Collection[str]
) -> Entity | None:
    """Return a record that was written, or raise `Forbidden` if the caller may not read it or what it shows."""

    async def read() -> Entity | None:
        return written

    values = {name: value_of(written, name) for name in entity.properties}
    policy, location = info.context.authorization, field_location(info)
    return cast(Entity | None, await policy.read_if_allowed(entity, values, read, shown, location))


def _record(entity: EntitySpec, record: type) -> StrawberryField:
    async def resolve_record(root: Any, info: strawberry.Info[Any, Any]) -> Entity | None:
        written: Entity | None = root.record
        return None if written is None else await visible_record(written, entity, info, shown_properties(entity, info))

    return plain_field("record", make_nullable(record), name=record_field_name(entity), resolver=resolve_record)


def _results(row: type) -> StrawberryField:
    rows: Any = list[row]  # type: ignore[valid-type]
    return plain_field(RESULTS, rows, marks=[Mark.PER_RECORD])


def deleted_id() -> StrawberryField:
    """Create the field with the global id of a deleted record: that of the attribute `record` of its parent."""
    return plain_field(
        "deleted_id",
        make_nullable(strawberry.ID),
        resolver=lambda root, info: None if root.record is None else info.context.database.seal_key(root.record),
    )


def _error() -> StrawberryField:
    return plain_field("error", make_nullable(WriteError))


DELETE_PAYLOAD = object_type(
    "DeletePayload", [deleted_id()], "The `id` of the deleted record, or null if it did not exist."
)
_DELETE_RESULT = object_type("DeleteResult", [deleted_id(), _error()], "One row of a batch of deletes, or its error.")
DELETE_BATCH_PAYLOAD = object_type(
    "DeleteBatchPayload", [_results(_DELETE_RESULT)], "The results of a batch of deletes, row by row."
)
"""The payloads of deletes, which are the same types for all entities."""
