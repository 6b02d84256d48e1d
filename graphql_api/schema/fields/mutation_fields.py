"""Generated mutations: one record at a time, or a batch with a result for each row."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from strawberry.types.arguments import StrawberryArgument
from strawberry.types.field import StrawberryField

from graphql_api.errors import (
    ShardQLError,
)
from graphql_api.model import VERBS, EntitySpec, SchemaOptions, Verb
from graphql_api.schema.fields.mutation_rows import MutationRows, apply_commands
from graphql_api.schema.fields.write_field import OperationInput
from graphql_api.schema.graphql_names import GraphQLNames, with_article
from graphql_api.schema.input_values import (
    localized_errors,
    provided_fields,
)
from graphql_api.schema.types.generated_fields import (
    ArgumentValues,
    Info,
    ListLimit,
    Mark,
    argument,
    generated_field,
)
from graphql_api.schema.types.graphql_scalars import make_nullable
from graphql_api.schema.types.mutation_types import (
    DELETE_BATCH_PAYLOAD,
    DELETE_INPUT,
    DELETE_PAYLOAD,
    IDEMPOTENCY_KEY,
    RESULTS,
    BatchResult,
    InputTypes,
    PayloadTypes,
    WriteResult,
    input_field_name,
)
from graphql_api.schema.types.object_types import RecordTypes
from graphql_api.writes import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    check_idempotency_key,
)

MAX_ROWS = 100
"""Rows of one batch mutation."""
_ROWS_LIMIT = ListLimit(MAX_ROWS, "rows")

_DESCRIPTIONS: Mapping[Verb, str] = {
    "create": "Creates {a_record}. Fails with `ALREADY_EXISTS` if a record with its id exists.",
    "update": "Updates {a_record}.",
    "put": "Creates the {record}, or replaces it entirely.",
    "delete": "Deletes {a_record}.",
}
"""Descriptions of the mutations of one record, by verb."""

MUTATION_DESCRIPTION = f"""All writes. They have some of these arguments:
- `input`: the record to create or put, or the changes of an update.
- `inputs`: at most {MAX_ROWS} of them. Rows of one record are written in order. An error in a row affects no other row.
- `expectedVersion`: the write fails with `VERSION_CONFLICT` unless the record has this version.
- `idempotencyKey`: a unique text for this request, such as a UUID. A repeated request with the same key within 24 hours
  returns the first results without writing again."""


class MutationFields:
    """Factory of the mutations of entities."""

    def __init__(self, names: GraphQLNames, records: RecordTypes, options: SchemaOptions) -> None:
        self._names = names
        self._inputs = InputTypes(names, records)
        self._verbs = [verb for verb in VERBS if verb in options.mutations]
        self._batches = options.batches
        self.operations: list[OperationInput] = []
        """What `write` can do: all mutations with an input, so not the deletion of a singleton."""
        self._naming = replace(names.naming, property_name=input_field_name, reserved=frozenset())

    def fields_of_entity(self, entity: EntitySpec, record: type) -> Iterator[StrawberryField]:
        """Yield all mutations of an entity; none if no caller may write it."""
        if entity.write_rules == ():
            return
        verbs = self._verbs
        complete = self._inputs.record_input(entity) if {"create", "put"} & {*verbs} else None
        inputs = {"create": complete, "put": complete, "delete": DELETE_INPUT if entity.primary_key else None}
        if "update" in verbs:
            inputs["update"] = self._inputs.patch(entity)
        payloads = PayloadTypes(self._names, entity, record)
        for verb in verbs:
            input_type, rows = inputs[verb], MutationRows(entity, verb, self._naming)
            if verb == "update" and input_type is None:
                continue  # The entity has no property that can change.
            deletes = verb == "delete"
            yield self._single_mutation(rows, input_type, DELETE_PAYLOAD if deletes else payloads.single)
            if input_type is not None:
                name = self._names.unprefixed_mutation(verb, entity)
                self.operations.append(OperationInput(name, rows, input_type))
            if self._batches and entity.primary_key and input_type is not None:
                payload = DELETE_BATCH_PAYLOAD if deletes else payloads.batch
                yield self._batch_mutation(rows, input_type, payload)

    def _single_mutation(self, rows: MutationRows, input_type: type | None, payload: type) -> StrawberryField:
        entity, verb = rows.entity, rows.verb
        takes_input = verb != "delete" and input_type is not None
        arguments = [argument("input", input_type, required=True)] if takes_input else []
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
        return self._field(rows, payload, description, arguments, resolve)

    def _batch_mutation(self, rows: MutationRows, input_type: type, payload: type) -> StrawberryField:
        """Create the mutation of many records, which are written independently."""
        inputs: Any = list[input_type]  # type: ignore[valid-type]
        arguments = [
            argument("inputs", inputs, required=True, limit=_ROWS_LIMIT),
            argument(IDEMPOTENCY_KEY, str),
        ]

        async def resolve(_: Any, info: Info, values: ArgumentValues) -> BatchResult:
            inputs, key = values["inputs"], values.get(IDEMPOTENCY_KEY)
            _ROWS_LIMIT.check(len(inputs), "inputs")
            rows.authorize(info, (RESULTS,))
            if key is not None:
                with localized_errors(rows.error_names):
                    check_idempotency_key(key, MAX_IDEMPOTENCY_KEY_LENGTH - len(f"/{MAX_ROWS}"))
            keys = [None if key is None else f"{key}/{number}" for number in range(len(inputs))]
            return BatchResult(await rows.write(info, inputs, keys))

        text = f"Applies {self._names.mutation_field(rows.verb, rows.entity)} to each row."
        return self._field(rows, payload, text, arguments, resolve, several=True)

    def _field(
        self,
        rows: MutationRows,
        payload: type,
        description: str,
        arguments: Sequence[StrawberryArgument],
        resolve: Callable[[Any, Info, ArgumentValues], Awaitable[Any]],
        *,
        several: bool = False,
    ) -> StrawberryField:
        entity, verb = rows.entity, rows.verb
        name = self._names.mutation_field(verb, entity, several=several)
        if verb == self._verbs[0]:  # The names of the other verbs conflict in the same cases.
            self._names.claim("mutation", name, f"{name} of {entity.type_name}", entity)
        return generated_field(name, make_nullable(payload), description, arguments, resolve, [Mark.WRITES])
