"""Generated mutations: one record at a time, or a batch with a result for each row."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strawberry.types.arguments import StrawberryArgument
from strawberry.types.field import StrawberryField

from graphql_api.codecs import RecordKey
from graphql_api.errors import (
    ConflictingArguments,
    InvalidLimit,
    MissingArgument,
    OutcomeUnknown,
    RecordNotFound,
    ShardQLError,
    about,
)
from graphql_api.model import Entity, EntitySpec, check_key_entity
from graphql_api.query import NamingScheme, parse_primary_key
from graphql_api.query.execution import ReadCost
from graphql_api.runtime import meter_part
from graphql_api.schema.authorization import field_location
from graphql_api.schema.graphql_names import GraphQLNames, with_article
from graphql_api.schema.input_values import MutationErrorNames, localized_errors, provided_fields, to_python
from graphql_api.schema.selection import selected_fields, shown_properties
from graphql_api.schema.types.generated_fields import ArgumentValues, Info, Mark, argument, generated_field
from graphql_api.schema.types.graphql_scalars import make_nullable
from graphql_api.schema.types.mutation_types import (
    DELETE_RESULT,
    EXPECTED_VERSION,
    EXPECTED_VERSION_ATTRIBUTE,
    ID,
    IDEMPOTENCY_KEY,
    RESULTS,
    BatchResult,
    InputTypes,
    WriteResult,
    input_attribute_name,
    input_field_name,
    payload_type,
    record_field_name,
    row_result_type,
    writable_properties,
    write_error,
)
from graphql_api.schema.types.object_types import RecordTypes
from graphql_api.storage import MeteredStore, StoreCall
from graphql_api.writes import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    Command,
    CommandResult,
    Create,
    Remove,
    Replace,
    Update,
    check_idempotency_key,
    is_idempotent,
)

MAX_ROWS = 100
"""Rows of one batch mutation."""

_DESCRIPTIONS = {
    "create": "Creates {a_record}. Fails with `ALREADY_EXISTS` if a record with its id exists.",
    "update": "Updates {a_record}. Omitted fields keep their values, null clears a field.",
    "put": "Creates the {record}, or replaces it entirely. Omitted fields are set to their defaults.",
    "delete": "Deletes {a_record}. Succeeds if it does not exist.",
}
"""Descriptions of the mutations of one record, by verb."""

_INPUTS = {
    "create": "The new record.",
    "update": "The record to update, and the fields to change.",
    "put": "The complete record.",
}
"""Descriptions of the argument `input`, by verb."""


class MutationFields:
    """Factory of the mutations of entities."""

    def __init__(self, names: GraphQLNames, records: RecordTypes) -> None:
        self._names = names
        self._inputs = InputTypes(names, records)
        self._naming = replace(names.naming, property_name=input_field_name, reserved=frozenset())

    def fields_of_entity(self, entity: EntitySpec, record: type) -> Iterator[StrawberryField]:
        """Yield all mutations of an entity; none if no caller may write it."""
        if entity.write_rules == ():
            return
        row_result = row_result_type(self._names, entity, record) if entity.primary_key else None
        for verb in _DESCRIPTIONS:
            input_type, rows = self._inputs.input_type(entity, verb), _Rows(entity, verb, self._naming)
            if verb == "update" and input_type is None:
                continue  # The entity has no property that can change.
            yield self._single_mutation(rows, input_type, record)
            if row_result is not None and input_type is not None:
                yield self._batch_mutation(rows, input_type, DELETE_RESULT if verb == "delete" else row_result)

    def _single_mutation(self, rows: "_Rows", input_type: type | None, record: type) -> StrawberryField:
        entity, verb = rows.entity, rows.verb
        takes_input = verb in _INPUTS and input_type is not None
        arguments = [argument("input", input_type, _INPUTS[verb], required=True)] if takes_input else []
        arguments += self._inputs.arguments(entity, verb)

        async def resolve(_: Any, info: Info, values: ArgumentValues) -> WriteResult:
            rows.authorize(info, ())
            remaining = dict(values)
            key = remaining.pop(IDEMPOTENCY_KEY, None)
            row = provided_fields(remaining.pop("input")) if takes_input else {}
            with localized_errors(rows.error_names):
                command = rows.command(info, {**row, **rows.argument_fields(remaining, row)}, key)
                (result,) = await apply_commands(info, entity, [command])
                if isinstance(result, ShardQLError):
                    raise result
            return WriteResult(result)

        description = _DESCRIPTIONS[verb].format(record=entity.type_name, a_record=with_article(entity.type_name))
        return self._field(rows, record, description, arguments, resolve)

    def _batch_mutation(self, rows: "_Rows", input_type: type, result_type: type) -> StrawberryField:
        """Create the mutation of many records, which are written independently."""
        inputs: Any = list[input_type]  # type: ignore[valid-type]
        rows_text = f"The rows, at most {MAX_ROWS}. Rows of the same record are written in order."
        key_text = (
            "A unique key for this request, such as a UUID. A repeated request with the same key within 24 hours "
            "returns the first results, matched by the position of each row."
        )
        arguments = [argument("inputs", inputs, rows_text, required=True), argument(IDEMPOTENCY_KEY, str, key_text)]

        async def resolve(_: Any, info: Info, values: ArgumentValues) -> BatchResult:
            inputs, key = values["inputs"], values.get(IDEMPOTENCY_KEY)
            if len(inputs) > MAX_ROWS:
                raise InvalidLimit(
                    f"inputs has {len(inputs):,} rows, and the limit is {MAX_ROWS}: split them into several requests.",
                    argument="inputs",
                )
            rows.authorize(info, (RESULTS,))
            if key is not None:
                with localized_errors(rows.error_names):
                    check_idempotency_key(key, MAX_IDEMPOTENCY_KEY_LENGTH - len(f"/{MAX_ROWS}"))
            keys = [None if key is None else f"{key}/{number}" for number in range(len(inputs))]
            return BatchResult(await rows.write(info, inputs, keys))

        single = self._names.mutation_field(rows.verb, rows.entity)
        text = f"Applies {single} to up to {MAX_ROWS} rows. An error in one row does not undo the others."
        return self._field(rows, result_type, text, arguments, resolve, several=True)

    def _field(
        self,
        rows: "_Rows",
        result_type: type,
        description: str,
        arguments: Sequence[StrawberryArgument],
        resolve: Callable[[Any, Info, ArgumentValues], Awaitable[Any]],
        *,
        several: bool = False,
    ) -> StrawberryField:
        entity, verb = rows.entity, rows.verb
        name = self._names.mutation_field(verb, entity, several=several)
        if verb == "create":  # The names of the other verbs conflict in the same cases.
            self._names.claim("mutation", name, f"{name} of {entity.type_name}", entity)
        payload = payload_type(self._names, entity, verb, result_type, several=several)
        return generated_field(name, make_nullable(payload), description, arguments, resolve, [Mark.WRITES])


@dataclass(frozen=True, slots=True)
class _Rows:
    """Conversion of the inputs for one entity and verb to commands."""

    entity: EntitySpec
    verb: str
    naming: NamingScheme

    @property
    def error_names(self) -> MutationErrorNames:
        return MutationErrorNames(self.entity, self.naming)

    def authorize(self, info: Info, path: tuple[str, ...]) -> None:
        """Check before any read that the caller may write, and may see the properties that are selected.

        `path`: the fields from the payload to the object that holds the record; a deletion returns none.
        """
        name, shown = record_field_name(self.entity), None
        if self.verb != "delete" and name in selected_fields(info, [path]):
            shown = shown_properties(self.entity, info, [(*path, name)])
        info.context.authorization.check_write(self.entity, shown, field_location(info))

    async def write(self, info: Info, inputs: Sequence[Any], keys: Sequence[str | None]) -> list[WriteResult]:
        """Write each row independently: an error in one row does not affect the others."""
        results: dict[int, CommandResult] = {}
        commands: dict[int, Command] = {}
        for number, (row, key) in enumerate(zip(inputs, keys, strict=True)):
            try:
                commands[number] = self.command(info, provided_fields(row), key)
            except ShardQLError as problem:
                results[number] = problem
        results |= zip(commands, await apply_commands(info, self.entity, [*commands.values()]), strict=True)
        return [
            WriteResult(error=write_error(info.context.errors.mask(result.localized(self.error_names))))
            if isinstance(result, ShardQLError)
            else WriteResult(result)
            for _, result in sorted(results.items())
        ]

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

    def command(self, info: Info, row: Mapping[str, Any], key: str | None) -> Command:
        """Convert one row to a command; `Forbidden` names a property that the caller may not write."""
        entity, remaining = self.entity, dict(row)
        version = remaining.pop(EXPECTED_VERSION_ATTRIBUTE, None)
        primary = self._primary_key(info, remaining) if self.verb in ("update", "delete") else []
        values: Mapping[str, Any] = {} if self.verb == "delete" else self._values(remaining)
        # A replacement removes omitted properties, so it writes all of them.
        whole = self.verb == "put"
        written = [part.name for part in entity.properties.values() if part.function is None] if whole else values
        guard = info.context.authorization.write_guard(entity, written, field_location(info), whole=whole)
        match self.verb:
            case "create":
                return Create(entity, values, key, guard)
            case "update":
                return Update(entity, primary, values, version, key, guard)
            case "put":
                return Replace(entity, values, version, key, guard)
        return Remove(entity, primary, version, key, guard)

    def _values(self, row: Mapping[str, Any]) -> dict[str, Any]:
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
                    values[name] = to_python(value, [field.annotation])
            elif whole and part.nullable and field.is_required() and part is not self.entity.created:
                values[name] = None
        return values

    def _primary_key(self, info: Info, row: dict[str, Any]) -> list[Any]:
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
            missing = input_field_name(entity.sub_ids[0].name)
            raise MissingArgument(
                f"{entity.type_name} can have several records per id: provide {missing} as well, or the global id of "
                "the record.",
                argument=missing,
            )
        return values


# --- execution -------------------------------------------------------------------------------------------------


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
    for command, result in zip(commands, results, strict=True):
        is_rejected = isinstance(result, ShardQLError) and not isinstance(result, OutcomeUnknown)
        if not is_rejected and not is_idempotent(command):
            context.non_idempotent_completed.append(location.name)
    if context.collects_explain:
        cost = ReadCost(
            rounds=sum(call.name in ("read_ranges", "get_many") for call in calls),
            reads=sum(call.parts for call in calls if call.name == "read_ranges"),
            records_read=sum(call.records_read for call in calls),
            fetched=sum(call.parts for call in calls if call.name == "get_many"),
        )
        cost.record(database.clock() - started, meter)
        writes = [call for call in calls if call.name in ("write", "write_together")]
        plan = {
            "why": f"{location.name} writes {entity.type_name} records by their keys.",
            "entity": entity.type_name,
            "records": len(commands),
            "write": {"rounds": len(writes), "writes": sum(call.parts for call in writes)},
        }
        returned = sum(isinstance(result, Entity) for result in results)
        context.add_explain(location.path, cost.explain(plan, returned=returned))
    # If only its owner may write a record, others must not learn that it is missing.
    return [
        context.authorization.forbidden(location.name, entity.write_rules)
        if command.allow is not None
        and (isinstance(result, RecordNotFound) or (result is None and isinstance(command, Remove)))
        else result
        for command, result in zip(commands, results, strict=True)
    ]
