"""The mutation `write`: several operations on records of any types, all or none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import strawberry
from strawberry.types.field import StrawberryField

from graphql_api.errors import ShardQLError, for_operations
from graphql_api.model import Entity
from graphql_api.schema.authorization import AuthorizationPolicy
from graphql_api.schema.dataloaders import Dataloaders
from graphql_api.schema.fields.mutation_rows import MutationRows, conceal, database_of_writes, execute_writes
from graphql_api.schema.graphql_names import GraphQLNames
from graphql_api.schema.input_values import MutationErrorNames, localized_errors, provided_fields
from graphql_api.schema.selection import shown_properties
from graphql_api.schema.types.generated_fields import (
    ArgumentValues,
    Info,
    ListLimit,
    Mark,
    argument,
    generated_field,
    input_field,
    input_type,
    object_type,
    plain_field,
)
from graphql_api.schema.types.graphql_scalars import make_nullable
from graphql_api.schema.types.mutation_types import IDEMPOTENCY_KEY, RESULTS, deleted_id, visible_record
from graphql_api.storage import StoreCall, UnitEstimate
from graphql_api.writes import (
    MAX_OPERATIONS,
    Command,
    CommandResult,
    StagedStore,
    check_idempotency_key,
    check_operation_count,
    is_idempotent,
)

OPERATIONS = "operations"
_LIMIT = ListLimit(MAX_OPERATIONS, "operations")
_RECORD = "record"

_DESCRIPTION = f"""Executes up to {MAX_OPERATIONS} operations, all or none, in order. Each one sees those before it.
If one fails, nothing is written, and `extensions.operations` of the error names it."""


@dataclass(frozen=True, slots=True)
class OperationInput:
    """A field of the input type of operations: what it does, and its input."""

    name: str
    rows: MutationRows
    input: type


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of one operation."""

    operation: OperationInput
    written: Entity | None
    """The record after the operation; before a delete."""

    @property
    def record(self) -> Entity | None:
        """Return the record that a delete removed, or None."""
        return self.written if self.operation.rows.verb == "delete" else None


@dataclass(frozen=True, slots=True)
class _Results:
    """The results of all operations, in their order."""

    results: Sequence[_Result]


def write_fields(names: GraphQLNames, operations: Sequence[OperationInput], node: type) -> Iterator[StrawberryField]:
    """Create the mutation `write`, if there are operations. `node`: the interface of the records."""
    if not operations:
        return
    by_name = {operation.name: operation for operation in operations}
    fields = [input_field(name, name, operation.input, None, required=False) for name, operation in by_name.items()]
    text = "An operation of `write`: exactly one field, with the input of the mutation of that name."
    operation_type = input_type(names.type_name("WriteOperation"), fields, text, one_of=True)
    rows: Any = list[operation_type]  # type: ignore[valid-type]
    arguments = [argument(OPERATIONS, rows, required=True, limit=_LIMIT), argument(IDEMPOTENCY_KEY, str)]

    async def resolve(_: Any, info: Info, values: ArgumentValues) -> _Results:
        provided = [provided_fields(operation) for operation in values[OPERATIONS]]
        check_operation_count(len(provided))
        write = _Write(info, [(by_name[name], row) for one in provided for name, row in one.items()], names)
        return _Results(await write.execute(values.get(IDEMPOTENCY_KEY)))

    payload = _payload_type(names, node)
    name = names.claim("mutation", names.shared_mutation("write"), "the all-or-none write", None)
    yield generated_field(name, make_nullable(payload), _DESCRIPTION, arguments, resolve, [Mark.WRITES])


def _payload_type(names: GraphQLNames, node: type) -> type:
    async def resolve_record(root: Any, info: strawberry.Info[Any, Any]) -> Entity | None:
        result: _Result = root
        entity = result.operation.rows.entity
        if result.written is None or result.operation.rows.verb == "delete":
            return None
        shown = shown_properties(entity, info, type_name=names.type_name(entity.type_name))
        return await visible_record(result.written, entity, info, shown)

    text = "The record after the operation; null for a delete."
    record = plain_field("record", make_nullable(node), text, name=_RECORD, resolver=resolve_record)
    row = object_type("WriteResult", [record, deleted_id()], "The result of one operation.")
    rows: Any = list[row]  # type: ignore[valid-type]
    results = plain_field(RESULTS, rows, "The results, in the order of the operations.", marks=[Mark.PER_RECORD])
    return object_type("WritePayload", [results], "The results of all operations.")


@dataclass(frozen=True, slots=True)
class _Write:
    """One request to write."""

    info: Info
    operations: Sequence[tuple[OperationInput, Any]]
    names: GraphQLNames

    async def execute(self, key: str | None) -> Sequence[_Result]:
        """Execute the operations. Return their results, or raise one error that names those that failed."""
        info = self.info
        for operation, _ in self.operations:
            type_name = self.names.type_name(operation.rows.entity.type_name)
            operation.rows.authorize(info, (RESULTS,), _RECORD, type_name)
        if key is not None:
            with localized_errors(self._first_names):
                check_idempotency_key(key)
        calls: list[StoreCall] = []
        database = database_of_writes(info, calls)
        staged = StagedStore(database.store)
        # Access rules see what earlier operations have written.
        loaders = Dataloaders(replace(database, store=staged), cache=False)
        commands = self._commands(replace(info.context.authorization, dataloaders=loaders))

        def check_result(position: int, result: Entity | None) -> None:
            problem = conceal(info, commands[position], result)
            if isinstance(problem, ShardQLError):
                raise problem

        async def write() -> Sequence[CommandResult]:
            try:
                return await database.apply_together(commands, key, staged, check_result)
            except ShardQLError as problem:
                return [problem] * len(commands)

        may_repeat = key is not None or all(map(is_idempotent, commands))
        repeats = [may_repeat] * len(commands)
        entities = [operation.rows.entity for operation, _ in self.operations]

        def estimate() -> UnitEstimate:
            return database.estimate_writes(commands, has_key=key is not None)

        results = await execute_writes(info, entities, repeats, write(), calls, estimate)
        written: list[_Result] = []
        for (operation, _), result in zip(self.operations, results, strict=True):
            if isinstance(result, ShardQLError):
                raise self._located(commands, result)
            written.append(_Result(operation, result))
        return written

    def _commands(self, policy: AuthorizationPolicy) -> list[Command]:
        """Convert all operations. Raise one error for all that are invalid."""
        commands: list[Command] = []
        problems: dict[int, ShardQLError] = {}
        for position, (operation, row) in enumerate(self.operations):
            try:
                commands.append(
                    operation.rows.command(self.info, provided_fields(row), None, is_row=True, policy=policy)
                )
            except ShardQLError as problem:
                problems[position] = self._named(position, problem)
        if problems:
            raise for_operations(problems)
        return commands

    def _located(self, commands: Sequence[Command], error: ShardQLError) -> ShardQLError:
        """Return an error in the names of its operations, which hides what the caller must not know."""
        problems: dict[int, ShardQLError] = {}
        for position, problem in error.operations:
            concealed = conceal(self.info, commands[position], problem)
            problems[position] = self._named(position, concealed if isinstance(concealed, ShardQLError) else problem)
        return for_operations(problems) if problems else error.localized(self._first_names)

    @property
    def _first_names(self) -> MutationErrorNames:
        """The names in errors that concern no single operation: those of arguments, which all entities share."""
        return self.operations[0][0].rows.error_names

    def _named(self, position: int, problem: ShardQLError) -> ShardQLError:
        rows = self.operations[position][0].rows
        return self.info.context.errors.mask(problem.localized(rows.error_names))
