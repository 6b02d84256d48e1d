"""What mutations answer with: the record under its entity's own name, or for each row of a batch that or its error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.model import Entity, EntitySpec, entity_name, value_of
from graphql_api.schema.authorization import place_of
from graphql_api.schema.fields.record_resolvers import shown_by
from graphql_api.schema.graphql_names import Names, Register, at
from graphql_api.schema.query_cost import EACH, STORED
from graphql_api.schema.types.field_arguments import PARENT
from graphql_api.schema.types.graphql_scalars import BigInt, or_null
from graphql_api.schema.types.object_types import object_type, plain_field

SHARED_TYPES = ("WriteError", "FieldProblem", "DeleteResult")
"""types that the mutations of all catalogs have in common"""

RESULTS = "results"


@strawberry.type(description="What is wrong with one property of a record.")
class FieldProblem:
    """One of several, as they are found together."""

    field: str = strawberry.field(description="Its name, and behind a dot where in it.")
    message: str = strawberry.field(description="What is wrong, and what to do.")


@strawberry.type(description="Why one row of a batch was not written.")
class WriteError:
    """The same as an error of a mutation of one record."""

    code: str = strawberry.field(description="What kind of error it is, as `NOT_UNIQUE`: one of a fixed list.")
    message: str = strawberry.field(description="What is wrong, and what to do.")
    argument: str | None = strawberry.field(default=None, description="The property or argument that it is about.")
    retryable: bool = strawberry.field(
        default=False, description="Whether the same row may be sent again as it is, and can be right a little later."
    )
    version: BigInt | None = strawberry.field(
        default=None, description="Of a VERSION_CONFLICT: the version that the record has; null where there is none."
    )
    fields: list[FieldProblem] = strawberry.field(
        default_factory=list,
        description="Of a record that does not fit: everything that is wrong, property by property.",
        metadata={STORED: True},
    )


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one record."""

    record: Entity | None = None
    """as it was written, or as it was removed"""
    error: WriteError | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of each row."""

    results: Sequence[Written]


class PayloadTypes:
    """Makes the types of answers, each once."""

    def __init__(self, names: Names, register: Register) -> None:
        self._names = names
        self._register = register

    def of_one(self, entity: EntitySpec, verb: str, record: type) -> type:
        """The answer of a mutation that writes one record."""
        field = _deleted_id() if verb == "delete" else _record(entity, own_name(entity), record)
        return object_type(self._name(entity, verb), [field], f"What {self._names.edit(verb, entity)} answers.")

    def of_several(self, entity: EntitySpec, verb: str, result: type) -> type:
        """The answer of a batch, whose rows have this type."""
        rows: Any = list[result]  # type: ignore[valid-type]
        words = "What became of each row, in the order of the inputs."
        fields = [plain_field(RESULTS, rows, description=words, marks=[EACH])]
        name = self._name(entity, verb, several=True)
        return object_type(name, fields, f"What {self._names.edit(verb, entity, several=True)} answers.")

    def result(self, entity: EntitySpec, record: type) -> type:
        """The answer to one row: the record, or why it was not written."""
        name = self._names.type(f"{entity.type_name}Result")
        self._register.type(name, at(entity), f"what became of one row of {entity.type_name}")
        fields = [_record(entity, own_name(entity), record), _error()]
        return object_type(name, fields, f"The {entity.type_name} of one row, or why it was not written.")

    def _name(self, entity: EntitySpec, verb: str, *, several: bool = False) -> str:
        name = self._names.type(f"{self._names.edited(verb.capitalize(), entity, several=several)}Payload")
        self._register.type(name, at(entity), f"the answer of {self._names.edited(verb, entity, several=several)}")
        return name


def own_name(entity: EntitySpec) -> str:
    """Under which name an entity's record stands in answers."""
    name = entity_name(entity.type_name)
    return f"{name}_" if name == "error" else name


def _record(entity: EntitySpec, name: str, record: type) -> StrawberryField:
    async def shown(root: Any, info: strawberry.Info[Any, Any]) -> Entity | None:
        written: Entity | None = root.record
        if written is None:
            return None

        async def read() -> Entity | None:
            return written

        known = {part.name: value_of(written, part.name) for part in entity.properties.values()}
        seen: Entity | None = await info.context.gate.read(entity, known, read, shown_by(info, entity), place_of(info))
        return seen

    shown.__annotations__ = {"root": PARENT[Any], "info": strawberry.Info}
    return plain_field(
        "record", or_null(record), name=name, description=f"The {entity.type_name} as it was written.", resolver=shown
    )


def _deleted_id() -> StrawberryField:
    def sealed(root: Any, info: strawberry.Info[Any, Any]) -> str | None:
        return None if root.record is None else info.context.database.seal_key(root.record)

    sealed.__annotations__ = {"root": PARENT[Any], "info": strawberry.Info}
    words = "The `id` that the record had; null where there was none."
    return plain_field("deleted_id", or_null(strawberry.ID), description=words, resolver=sealed)


def _error() -> StrawberryField:
    return plain_field("error", or_null(WriteError), description="Why it was not written; null where it was.")


DELETION = object_type("DeleteResult", [_deleted_id(), _error()], "The id of what is gone, or why it is not.")
"""the answer to one row of a removal; what is gone has no type"""
