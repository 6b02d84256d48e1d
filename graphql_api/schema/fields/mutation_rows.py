"""Conversion of mutation inputs to commands, and their execution with explain output."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from graphql_api.codecs import RecordKey
from graphql_api.database import Database
from graphql_api.errors import (
    ConflictingArguments,
    MissingArgument,
    OutcomeUnknown,
    RecordNotFound,
    ShardQLError,
    UnknownArgument,
    about,
)
from graphql_api.model import Entity, EntitySpec, Verb, check_key_entity
from graphql_api.query import NamingScheme, parse_primary_key
from graphql_api.query.execution import ReadCost
from graphql_api.runtime import meter_part
from graphql_api.schema.authorization import AuthorizationPolicy, field_location
from graphql_api.schema.input_values import (
    MutationErrorNames,
    OpenKey,
    provided_fields,
    to_python,
)
from graphql_api.schema.selection import selected_fields, shown_properties
from graphql_api.schema.types.generated_fields import (
    Info,
)
from graphql_api.schema.types.mutation_types import (
    EXPECTED_VERSION,
    EXPECTED_VERSION_ATTRIBUTE,
    ID,
    WriteError,
    WriteResult,
    input_attribute_name,
    input_field_name,
    record_field_name,
    writable_properties,
    write_error,
)
from graphql_api.storage import MeteredStore, StoreCall, UnitEstimate
from graphql_api.writes import (
    Command,
    CommandResult,
    Create,
    Remove,
    Replace,
    Update,
    explain_writes,
    is_idempotent,
)


@dataclass(frozen=True, slots=True)
class MutationRows:
    """Conversion of the inputs for one entity and verb to commands."""

    entity: EntitySpec
    verb: Verb
    naming: NamingScheme

    @property
    def error_names(self) -> MutationErrorNames:
        return MutationErrorNames(self.entity, self.naming)

    def authorize(
        self, info: Info, path: tuple[str, ...], field: str | None = None, type_name: str | None = None
    ) -> None:
        """Check before any read that the caller may write, and may see the properties that are selected.

        `path`: the fields from the payload to the object that holds the record; a deletion returns none. `field`: the
        field of that object, with records of this type.
        """
        name, shown = field or record_field_name(self.entity), None
        if self.verb != "delete" and name in selected_fields(info, [path]):
            shown = shown_properties(self.entity, info, [(*path, name)], type_name)
        info.context.authorization.check_write(self.entity, shown, field_location(info))

    async def write(self, info: Info, inputs: Sequence[Any], keys: Sequence[str | None]) -> list[WriteResult]:
        """Write each row independently: an error in one row does not affect the others."""
        results: dict[int, CommandResult] = {}
        commands: dict[int, Command] = {}
        for number, (row, key) in enumerate(zip(inputs, keys, strict=True)):
            try:
                commands[number] = self.command(info, provided_fields(row), key, is_row=True)
            except ShardQLError as problem:
                results[number] = problem
        results |= zip(commands, await apply_commands(info, self.entity, [*commands.values()]), strict=True)
        return [
            WriteResult(error=self._row_error(info, result))
            if isinstance(result, ShardQLError)
            else WriteResult(result)
            for _, result in sorted(results.items())
        ]

    def _row_error(self, info: Info, problem: ShardQLError) -> WriteError:
        error = info.context.errors.mask(problem.localized(self.error_names))
        info.context.row_errors.append(error)
        return write_error(error)

    # --- one row -----------------------------------------------------------------------------------------------

    def argument_fields(self, arguments: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a single mutation as fields of its row."""
        version = arguments.get(EXPECTED_VERSION)
        if version is not None and row.get(EXPECTED_VERSION_ATTRIBUTE) not in (None, version):
            raise ConflictingArguments(
                f"{EXPECTED_VERSION} is provided twice, with different values: omit one of them.",
                argument=EXPECTED_VERSION,
            )
        names = {input_field_name(part.name): input_attribute_name(part.name) for part in self.entity.sub_ids}
        names[EXPECTED_VERSION] = EXPECTED_VERSION_ATTRIBUTE
        return {names.get(name, name): value for name, value in arguments.items()}

    def command(
        self,
        info: Info,
        row: Mapping[str, Any],
        key: str | None,
        *,
        is_row: bool = False,
        policy: AuthorizationPolicy | None = None,
    ) -> Command:
        """Convert one row to a command; `Forbidden` names a property that the caller may not write.

        `is_row`: it is one of several. `policy`: the access rules, by default those of the request.
        """
        policy = policy or info.context.authorization
        entity, remaining = self.entity, dict(row)
        version = remaining.pop(EXPECTED_VERSION_ATTRIBUTE, None)
        if version is not None and (self.verb == "create" or entity.version is None):
            reason = (
                f"{entity.type_name} has no version property" if entity.version is None else "it has no version yet"
            )
            raise UnknownArgument(
                f"{EXPECTED_VERSION} is not possible here, because {reason}: omit it.", argument=EXPECTED_VERSION
            )
        primary = self._primary_key(info, remaining, is_row=is_row) if self.verb in ("update", "delete") else []
        open_key = info.context.database.open_key
        values: Mapping[str, Any] = {} if self.verb == "delete" else self._values(remaining, open_key)
        # A replacement removes omitted properties, so it writes all of them.
        whole = self.verb == "put"
        written = [part.name for part in entity.shown_properties.values() if part.function is None] if whole else values
        guard = policy.write_guard(entity, written, field_location(info), whole=whole)
        references = policy.reference_guard(entity, field_location(info))
        match self.verb:
            case "create":
                return Create(entity, values, key, guard, references)
            case "update":
                return Update(entity, primary, values, version, key, guard, references)
            case "put":
                return Replace(entity, values, version, key, guard, references)
        readable_children = policy.readable_children(entity)
        return Remove(entity, primary, version, key, guard, readable_children=readable_children)

    def _values(self, row: Mapping[str, Any], open_key: OpenKey) -> dict[str, Any]:
        """Return the provided properties by Python name.

        In a whole record, null counts as omitted if not nullable, and an omitted required property may be null.
        """
        whole = self.verb in ("create", "put")
        values: dict[str, Any] = {}
        for part in writable_properties(self.entity):
            name, attribute = part.name, input_attribute_name(part.name)
            field, value = self.entity.model.model_fields[name], row.get(attribute)
            if value is not None or (attribute in row and (part.nullable or not whole)):
                with about(input_field_name(name)):
                    open_this = partial(open_key, argument=input_field_name(name))
                    values[name] = to_python(value, [field.annotation], open_this)
            elif self.verb == "put" and part in self.entity.primary_key:
                name = input_field_name(name)
                raise MissingArgument(f"{name} is required: it identifies the record to put.", argument=name)
            elif whole and part.nullable and field.is_required() and part is not self.entity.created:
                values[name] = None
        return values

    def _primary_key(self, info: Info, row: dict[str, Any], *, is_row: bool) -> list[Any]:
        """Remove the primary key from a row and return its values.

        In an update, a sub id takes precedence over the one in a global id, and so adds an entry to a history.
        """
        entity, naming = self.entity, self.naming
        id = info.context.database.id_or_key(entity, row.pop(ID, None))
        sub_ids = {part: row.pop(input_attribute_name(part.name), None) for part in entity.sub_ids}
        parts = {naming.key_argument(part.name): value for part, value in sub_ids.items() if value is not None}
        if self.verb == "update" and isinstance(id, RecordKey) and parts:
            check_key_entity(entity, id)
            for part, value in zip(entity.sub_ids, id.children, strict=True):
                parts.setdefault(naming.key_argument(part.name), value)
            parts |= {naming.key_argument(part.name): value for part, value in zip(entity.ids, id.ids, strict=True)}
            id = None
        values = parse_primary_key(entity, id, parts, naming)
        if len(values) < len(entity.primary_key):
            missing = ID if self.verb == "delete" and is_row else input_field_name(entity.sub_ids[0].name)
            remedy = "provide" if missing == ID else f"provide {missing} as well, or"
            raise MissingArgument(
                f"{entity.type_name} can have several records per id: {remedy} the global id of the record.",
                argument=missing,
            )
        return values


# --- execution -------------------------------------------------------------------------------------------------


def database_of_writes(info: Info, calls: list[StoreCall]) -> Database:
    """Return the database that executes a mutation. It notes its calls of the store if explain output is needed."""
    database = info.context.database
    if not info.context.collects_explain:
        return database
    return replace(database, store=MeteredStore(database.store, calls.append, counts_calls=False))


async def apply_commands(info: Info, entity: EntitySpec, commands: Sequence[Command]) -> Sequence[CommandResult]:
    """Execute commands independently. Return the result or error of each."""
    calls: list[StoreCall] = []
    database = database_of_writes(info, calls)
    may_repeat = [*map(is_idempotent, commands)]
    writing = database.apply_each(commands) if commands else _nothing()
    results = await execute_writes(
        info, [entity], may_repeat, writing, calls, lambda: database.estimate_writes(commands)
    )
    return [conceal(info, command, result) for command, result in zip(commands, results, strict=True)]


async def _nothing() -> list[CommandResult]:
    return []


async def execute_writes(
    info: Info,
    entities: Iterable[EntitySpec],
    may_repeat: Sequence[bool],
    writing: Awaitable[Sequence[CommandResult]],
    calls: Sequence[StoreCall],
    estimate: Callable[[], UnitEstimate],
) -> Sequence[CommandResult]:
    """Execute writes. Note those that must not be repeated, and add an explain entry if requested.

    `may_repeat`: whether executing a write twice has the same result, by position. `calls`: those of the writes.
    `estimate` returns that of their write units.
    """
    context, location = info.context, field_location(info)
    started = context.database.clock()
    if not all(may_repeat):
        context.non_idempotent_started.append(location.name)
    with meter_part() as meter:
        results = await writing
    for repeatable, result in zip(may_repeat, results, strict=True):
        is_rejected = isinstance(result, ShardQLError) and not isinstance(result, OutcomeUnknown)
        if not is_rejected and not repeatable:
            context.non_idempotent_completed.append(location.name)
    if context.collects_explain:
        cost = ReadCost(
            rounds=sum(call.name in ("read_ranges", "get_many") for call in calls),
            reads=sum(call.parts for call in calls if call.name == "read_ranges"),
            records_read=sum(call.records_read for call in calls),
            fetched=sum(call.parts for call in calls if call.name == "get_many"),
        )
        cost.record(context.database.clock() - started, meter)
        writes = [call for call in calls if call.name in ("write", "write_together")]
        plan = explain_writes(entities, len(results), estimate())
        plan = {"why": f"{location.name} writes {plan['entity']} records by their keys.", **plan}
        plan["write"] |= {"rounds": len(writes), "writes": sum(call.parts for call in writes)}
        if meter is not None and meter.write_units is not None:
            plan["write"] |= {"capacityUnits": meter.write_units, "estimated": meter.estimated}
        returned = sum(isinstance(result, Entity) for result in results)
        context.add_explain(location.path, cost.explain(plan, returned=returned))
    return results


def conceal(info: Info, command: Command, result: CommandResult) -> CommandResult:
    """Return a result. If only the owner may write a record, others must not learn that it does not exist."""
    is_missing = isinstance(result, RecordNotFound) or (result is None and isinstance(command, Remove))
    if command.allow is None or not is_missing:
        return result
    return info.context.authorization.forbidden(field_location(info).name, command.entity.write_rules)
