"""Execution of the commands of a mutation, its explain entry, and the errors of rows."""

from collections.abc import Sequence
from dataclasses import replace

from graphql_api.errors import OutcomeUnknown, RecordNotFound, ShardQLError
from graphql_api.model import Entity, EntitySpec
from graphql_api.query.execution import ReadCost
from graphql_api.runtime import meter_part
from graphql_api.schema.authorization import field_location
from graphql_api.schema.fields.mutation_payloads import FieldProblem, WriteError
from graphql_api.schema.types.generated_fields import Info
from graphql_api.storage import MeteredStore, StoreCall
from graphql_api.writes import Command, Remove, is_idempotent

CommandResult = Entity | ShardQLError | None


async def apply_commands(info: Info, entity: EntitySpec, commands: Sequence[Command]) -> Sequence[CommandResult]:
    """Execute commands and return the result or error of each; add an explain entry if requested."""
    context, location = info.context, field_location(info)
    database, calls = context.database, list[StoreCall]()
    if context.collects_explain:
        database = replace(database, store=MeteredStore(database.store, calls.append, counts_calls=False))
    started = database.clock()
    if not all(map(is_idempotent, commands)):
        context.non_idempotent_started.append(location.name)
    with meter_part() as meter:
        results = await database.apply_each(commands) if commands else []
    if any(_completed_non_idempotent(*both) for both in zip(commands, results, strict=True)):
        context.non_idempotent_completed.append(location.name)
    if context.collects_explain:
        cost = ReadCost(
            rounds=sum(call.name in _READS for call in calls),
            reads=sum(call.parts for call in calls if call.name == "read_ranges"),
            records_read=sum(call.records_read for call in calls),
            fetched=sum(call.parts for call in calls if call.name == "get_many"),
        )
        cost.record(database.clock() - started, meter)
        writes = [call for call in calls if call.name in _WRITES]
        context.add_explain(
            location.path,
            {
                "why": f"{location.name} writes {entity.type_name} records by their keys.",
                "entity": entity.type_name,
                "records": len(commands),
                "write": {"rounds": len(writes), "writes": sum(call.parts for call in writes)},
                "read": {**cost.describe(), "returned": sum(isinstance(result, Entity) for result in results)},
            },
        )
    return [_hide_missing_record(info, entity, *both) for both in zip(commands, results, strict=True)]


def _completed_non_idempotent(command: Command, result: CommandResult) -> bool:
    """Whether a non-idempotent command was carried out, or its outcome is unknown."""
    is_rejected = isinstance(result, ShardQLError) and not isinstance(result, OutcomeUnknown)
    return not (is_rejected or is_idempotent(command))


_READS = frozenset({"read_ranges", "get_many"})
_WRITES = frozenset({"write", "write_together"})


def _hide_missing_record(info: Info, entity: EntitySpec, command: Command, result: CommandResult) -> CommandResult:
    """Replace the result for a missing record if only its owner may write it: others must not learn of it."""
    is_missing = isinstance(result, RecordNotFound) or (result is None and isinstance(command, Remove))
    if is_missing and command.allow is not None:
        return info.context.authorization.missing_record_error(entity, field_location(info))
    return result


# --- errors ----------------------------------------------------------------------------------------------------


def row_error(info: Info, problem: ShardQLError) -> WriteError:
    """Return the error of one row, formatted and masked as the error of a field."""
    error = info.context.format_error(problem)
    extensions = error["extensions"]
    return WriteError(
        code=extensions["code"],
        message=error["message"],
        argument=extensions.get("argument"),
        retryable=bool(extensions.get("retryable")),
        version=extensions.get("version"),
        fields=[FieldProblem(field=field["field"], message=field["message"]) for field in extensions.get("fields", ())],
    )
