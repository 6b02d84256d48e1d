"""Payload types of mutations: the record under the name of its entity, or for a batch a result for each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.model import Entity, EntitySpec, entity_name, value_of
from graphql_api.schema import descriptions
from graphql_api.schema.authorization import field_location
from graphql_api.schema.fields.record_resolvers import shown_for_authorization
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at
from graphql_api.schema.query_cost import PER_RECORD, STORED_LIST
from graphql_api.schema.types.generated_fields import PARENT
from graphql_api.schema.types.graphql_scalars import BigInt, make_nullable
from graphql_api.schema.types.object_types import object_type, plain_field

SHARED_TYPES = ("WriteError", "FieldProblem", "DeleteResult")
"""Names of types that the mutations of all schemas share."""

RESULTS = "results"


@strawberry.type(description=descriptions.FIELD_PROBLEM)
class FieldProblem:
    """An invalid property of a record."""

    field: str = strawberry.field(description=descriptions.FIELD_PROBLEM_FIELD)
    message: str = strawberry.field(description=descriptions.FIELD_PROBLEM_MESSAGE)


@strawberry.type(description=descriptions.WRITE_ERROR)
class WriteError:
    """The error of one row, with the properties of an error of a single mutation."""

    code: str = strawberry.field(description=descriptions.WRITE_ERROR_CODE)
    message: str = strawberry.field(description=descriptions.WRITE_ERROR_MESSAGE)
    argument: str | None = strawberry.field(default=None, description=descriptions.WRITE_ERROR_ARGUMENT)
    retryable: bool = strawberry.field(default=False, description=descriptions.WRITE_ERROR_RETRYABLE)
    version: BigInt | None = strawberry.field(default=None, description=descriptions.WRITE_ERROR_VERSION)
    fields: list[FieldProblem] = strawberry.field(
        default_factory=list, description=descriptions.WRITE_ERROR_FIELDS, metadata={STORED_LIST: True}
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
    """Factory of the payload types of mutations."""

    def __init__(self, names: GraphQLNames, registry: NameRegistry) -> None:
        self._names = names
        self._registry = registry

    def payload_type(self, entity: EntitySpec, verb: str, record: type) -> type:
        """Create the payload type of a mutation of one record."""
        field = _deleted_id() if verb == "delete" else _record(entity, record_field_name(entity), record)
        description = descriptions.payload(self._names.mutation_field(verb, entity))
        return object_type(self._claim_name(entity, verb), [field], description)

    def batch_payload_type(self, entity: EntitySpec, verb: str, result: type) -> type:
        """Create the payload type of a batch mutation; `result`: the type of the result of each row."""
        results: Any = list[result]  # type: ignore[valid-type]
        fields = [plain_field(RESULTS, results, description=descriptions.RESULTS, marks=[PER_RECORD])]
        name = self._claim_name(entity, verb, several=True)
        return object_type(name, fields, descriptions.payload(self._names.mutation_field(verb, entity, several=True)))

    def row_result_type(self, entity: EntitySpec, record: type) -> type:
        """Create the type of the result of one row: the record, or an error."""
        name = self._names.type_name(f"{entity.type_name}Result")
        self._registry.claim_type(name, declared_at(entity), f"the result of one row of {entity.type_name}")
        fields = [_record(entity, record_field_name(entity), record), _error()]
        return object_type(name, fields, descriptions.row_result(entity))

    def _claim_name(self, entity: EntitySpec, verb: str, *, several: bool = False) -> str:
        type_name = self._names.unprefixed_mutation(verb.capitalize(), entity, several=several)
        name = self._names.type_name(f"{type_name}Payload")
        mutation = self._names.unprefixed_mutation(verb, entity, several=several)
        self._registry.claim_type(name, declared_at(entity), f"the payload of {mutation}")
        return name


def record_field_name(entity: EntitySpec) -> str:
    """Return the name of the field that holds the record in payloads and row results."""
    name = entity_name(entity.type_name)
    return f"{name}_" if name == "error" else name


def _record(entity: EntitySpec, name: str, record: type) -> StrawberryField:
    async def resolve_record(root: Any, info: strawberry.Info[Any, Any]) -> Entity | None:
        written: Entity | None = root.record
        if written is None:
            return None

        async def read() -> Entity | None:
            return written

        values = {part.name: value_of(written, part.name) for part in entity.properties.values()}
        seen: Entity | None = await info.context.authorization.read_if_allowed(
            entity, values, read, shown_for_authorization(info, entity), field_location(info)
        )
        return seen

    resolve_record.__annotations__ = {"root": PARENT[Any], "info": strawberry.Info}
    return plain_field(
        "record",
        make_nullable(record),
        name=name,
        description=descriptions.written_record(entity),
        resolver=resolve_record,
    )


def _deleted_id() -> StrawberryField:
    def resolve_id(root: Any, info: strawberry.Info[Any, Any]) -> str | None:
        return None if root.record is None else info.context.database.seal_key(root.record)

    resolve_id.__annotations__ = {"root": PARENT[Any], "info": strawberry.Info}
    return plain_field(
        "deleted_id", make_nullable(strawberry.ID), description=descriptions.DELETED_ID, resolver=resolve_id
    )


def _error() -> StrawberryField:
    return plain_field("error", make_nullable(WriteError), description=descriptions.ROW_ERROR)


DELETE_RESULT = object_type("DeleteResult", [_deleted_id(), _error()], descriptions.DELETE_RESULT)
"""The result of one row of a delete, which is the same type for all entities."""
