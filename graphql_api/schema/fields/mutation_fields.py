"""Generated mutations: one record at a time, or a batch with a result for each row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from strawberry.types.field import StrawberryField

from graphql_api.codecs import RecordKey
from graphql_api.errors import ConflictingArguments, InvalidLimit, MissingArgument, ShardQLError, about
from graphql_api.model import EntitySpec, check_key_entity
from graphql_api.query import NamingScheme, parse_primary_key
from graphql_api.schema import descriptions
from graphql_api.schema.authorization import field_location
from graphql_api.schema.fields.mutation_error_names import MutationErrorNames, localized_errors
from graphql_api.schema.fields.mutation_execution import CommandResult, apply_commands, row_error
from graphql_api.schema.fields.mutation_payloads import (
    DELETE_RESULT,
    RESULTS,
    BatchResult,
    PayloadTypes,
    WriteResult,
    record_field_name,
)
from graphql_api.schema.graphql_names import GraphQLNames, NameRegistry, declared_at
from graphql_api.schema.input_values import provided_fields, to_python
from graphql_api.schema.query_cost import WRITES
from graphql_api.schema.selection import is_selected, shown_properties
from graphql_api.schema.types.generated_fields import Argument, ArgumentValues, Info, root_field
from graphql_api.schema.types.graphql_scalars import make_nullable
from graphql_api.schema.types.mutation_inputs import (
    EXPECTED_VERSION,
    EXPECTED_VERSION_ATTRIBUTE,
    ID,
    IDEMPOTENCY_KEY,
    InputTypes,
    input_attribute_name,
    input_field_name,
    writable_properties,
)
from graphql_api.schema.types.object_types import RecordTypes
from graphql_api.writes import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    Command,
    Create,
    Remove,
    Replace,
    Update,
    check_idempotency_key,
)

MAX_ROWS = 100
"""Rows of one batch mutation."""

VERBS = ("create", "update", "put", "delete")


class MutationFields:
    """Factory of the mutations of entities."""

    def __init__(self, names: GraphQLNames, registry: NameRegistry, records: RecordTypes) -> None:
        self._names = names
        self._registry = registry
        self._inputs = InputTypes(names, records, registry)
        self._payloads = PayloadTypes(names, registry)
        self._naming = replace(names.naming, property_name=input_field_name, reserved=frozenset())

    def fields_of_entity(self, entity: EntitySpec, record: type) -> Iterator[StrawberryField]:
        """Yield all mutations of an entity; none if no caller may write it."""
        if entity.write_rules == ():
            return
        row_result = self._payloads.row_result_type(entity, record) if entity.primary_key else None
        create_inputs = (
            self._inputs.create_input,
            self._inputs.update_input,
            self._inputs.put_input,
            self._inputs.delete_input,
        )
        for verb, create_input in zip(VERBS, create_inputs, strict=True):
            input_type = create_input(entity)
            if verb == "update" and input_type is None:
                continue  # The entity has no property that can change.
            yield self._single_mutation(entity, verb, input_type, record)
            if row_result is not None and input_type is not None:
                result_type = DELETE_RESULT if verb == "delete" else row_result
                yield self._batch_mutation(entity, verb, input_type, result_type)

    def _single_mutation(self, entity: EntitySpec, verb: str, input_type: type | None, record: type) -> StrawberryField:
        """Create the mutation of one record."""
        name = self._claim_name(entity, verb)
        rows = _Rows(entity, verb, self._naming)
        takes_input = verb != "delete" and input_type is not None
        arguments = (
            [Argument("input", input_type, descriptions.INPUT_ARGUMENTS[verb], required=True)] if takes_input else []
        )
        arguments += self._inputs.arguments(entity, verb)

        async def resolve(info: Info, values: ArgumentValues) -> WriteResult:
            rows.authorize(info, () if verb != "delete" else None)
            remaining = dict(values)
            key = remaining.pop(IDEMPOTENCY_KEY, None)
            row = provided_fields(remaining.pop("input")) if takes_input else {}
            with localized_errors(rows.error_names):
                command = rows.command(info, {**row, **rows.argument_fields(remaining, row)}, key)
                (result,) = await apply_commands(info, entity, [command])
                if isinstance(result, ShardQLError):
                    raise result
            return WriteResult(result)

        payload = self._payloads.payload_type(entity, verb, record)
        description = descriptions.mutation(verb, entity)
        return root_field(name, make_nullable(payload), description, arguments, resolve, [WRITES])

    def _batch_mutation(self, entity: EntitySpec, verb: str, input_type: type, result_type: type) -> StrawberryField:
        """Create the mutation of many records, which are written independently."""
        name = self._claim_name(entity, verb, several=True)
        rows = _Rows(entity, verb, self._naming)
        inputs: Any = list[input_type]  # type: ignore[valid-type]
        arguments = [
            Argument("inputs", inputs, descriptions.batch_inputs(MAX_ROWS), required=True),
            Argument(IDEMPOTENCY_KEY, str, descriptions.BATCH_IDEMPOTENCY_KEY),
        ]

        async def resolve(info: Info, values: ArgumentValues) -> BatchResult:
            inputs = values["inputs"]
            if len(inputs) > MAX_ROWS:
                raise InvalidLimit(
                    f"inputs has {len(inputs):,} rows, and the limit is {MAX_ROWS}: split them into several requests.",
                    argument="inputs",
                )
            rows.authorize(info, (RESULTS,) if verb != "delete" else None)
            with localized_errors(rows.error_names):
                keys = _row_keys(values.get(IDEMPOTENCY_KEY), len(inputs))
            return BatchResult(await rows.write(info, inputs, keys))

        payload = self._payloads.batch_payload_type(entity, verb, result_type)
        description = descriptions.batch_mutation(self._names.mutation_field(verb, entity), MAX_ROWS)
        return root_field(name, make_nullable(payload), description, arguments, resolve, [WRITES])

    def _claim_name(self, entity: EntitySpec, verb: str, *, several: bool = False) -> str:
        name = self._names.mutation_field(verb, entity, several=several)
        if verb == "create":  # The names of the other verbs conflict in the same cases.
            self._registry.claim_mutation(name, declared_at(entity), f"{name} of {entity.type_name}")
        return name


def _row_keys(key: str | None, count: int) -> list[str | None]:
    """Return the idempotency key of each row of a request."""
    if key is None:
        return [None] * count
    check_idempotency_key(key, MAX_IDEMPOTENCY_KEY_LENGTH - len(f"/{MAX_ROWS}"))
    return [f"{key}/{number}" for number in range(count)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Conversion of the inputs for one entity and verb to commands."""

    entity: EntitySpec
    verb: str
    naming: NamingScheme

    @property
    def error_names(self) -> MutationErrorNames:
        """The names that errors of these rows use for clients."""
        return MutationErrorNames(self.entity, self.naming)

    def authorize(self, info: Info, path: tuple[str, ...] | None) -> None:
        """Check before any read that the caller may write, and may see the properties selected below a path.

        `path`: the fields from the payload to the object that holds the record; None: the payload has no record.
        """
        shown = None
        if path is not None:
            record_path, raw_info = (*path, record_field_name(self.entity)), info._raw_info  # noqa: SLF001 - no public access
            if is_selected(raw_info, record_path):
                shown = shown_properties(self.entity, raw_info, of_page=False, path=record_path)
        info.context.authorization.check_write(self.entity, shown, field_location(info))

    async def write(self, info: Info, inputs: list[Any], keys: list[str | None]) -> list[WriteResult]:
        """Write each row independently: an error in one row does not affect the others."""
        results: dict[int, CommandResult] = {}
        commands: dict[int, Command] = {}
        for number, (row, key) in enumerate(zip(inputs, keys, strict=True)):
            try:
                commands[number] = self.command(info, provided_fields(row), key)
            except ShardQLError as problem:
                results[number] = problem
        results |= zip(commands, await apply_commands(info, self.entity, [*commands.values()]), strict=True)
        return [self._row_result(info, results[number]) for number in range(len(inputs))]

    def _row_result(self, info: Info, result: CommandResult) -> WriteResult:
        if isinstance(result, ShardQLError):
            return WriteResult(error=row_error(info, result.localized(self.error_names)))
        return WriteResult(result)

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
        values = self._values(remaining)
        policy, location = info.context.authorization, field_location(info)
        match self.verb:
            case "create":
                return Create(entity, values, key, policy.write_guard(entity, values, location))
            case "update":
                return Update(entity, primary, values, version, key, policy.write_guard(entity, values, location))
            case "put":
                # A replacement removes omitted properties, so it writes all of them.
                stored = [part.name for part in entity.properties.values() if part.function is None]
                return Replace(entity, values, version, key, policy.write_guard(entity, stored, location, whole=True))
        return Remove(entity, primary, version, key, policy.write_guard(entity, (), location))

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
