"""The fields of mutations that a catalog gives: records one by one, and in batches with an answer for each row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from strawberry.types.field import StrawberryField

from graphql_api.codecs import RecordKey
from graphql_api.errors import ConflictingArguments, InvalidLimit, MissingArgument, ShardQLError, about
from graphql_api.model import EntitySpec, check_names
from graphql_api.query import Dialect, primary_values
from graphql_api.schema.authorization import place_of
from graphql_api.schema.fields.mutation_payloads import DELETION, RESULTS, Batch, PayloadTypes, Written, own_name
from graphql_api.schema.fields.mutation_resolvers import Applied, apply, in_words_of_clients, row_error, told_to_clients
from graphql_api.schema.graphql_names import Names, Register, at, with_article
from graphql_api.schema.input_values import as_python, said
from graphql_api.schema.query_cost import WRITES
from graphql_api.schema.selection import is_selected, shown_properties
from graphql_api.schema.types.field_arguments import Argument, Given, Info, resolved_field
from graphql_api.schema.types.graphql_scalars import or_null
from graphql_api.schema.types.mutation_inputs import (
    EXPECTED,
    EXPECTED_VERSION,
    ID,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_WORDS,
    InputTypes,
    attribute_name,
    input_name,
    writable,
)
from graphql_api.schema.types.object_types import RecordTypes
from graphql_api.writes import MAX_CHARACTERS, Command, Create, Remove, Replace, Update, check_key

MAX_ROWS = 100
"""records that are written by one field"""

VERBS = ("create", "update", "put", "delete")


class Edits:
    """Makes the mutations of one entity after the other."""

    def __init__(self, names: Names, register: Register, records: RecordTypes) -> None:
        self._names = names
        self._register = register
        self._inputs = InputTypes(names, records, register)
        self._payloads = PayloadTypes(names, register)
        self._dialect = replace(names.dialect, property=input_name, kept=frozenset())

    def of(self, entity: EntitySpec, record: type) -> Iterator[StrawberryField]:
        """All mutations of an entity; none where nobody may write it."""
        if entity.writers == ():
            return
        result = self._payloads.result(entity, record) if entity.primary else None
        inputs = (self._inputs.create, self._inputs.update, self._inputs.put, self._inputs.delete)
        for verb, make in zip(VERBS, inputs, strict=True):
            made = make(entity)
            if verb == "update" and made is None:
                continue  # Nothing of it ever changes.
            yield self._one(entity, verb, made, record)
            if result is not None and made is not None:
                yield self._several(entity, verb, made, DELETION if verb == "delete" else result)

    def _one(self, entity: EntitySpec, verb: str, input_type: type | None, record: type) -> StrawberryField:
        """The mutation of one record."""
        name = self._name(entity, verb)
        rows = _Rows(entity, verb, self._dialect)
        takes_input = verb != "delete" and input_type is not None
        arguments = [Argument("input", input_type, _WHAT[verb], required=True)] if takes_input else []
        arguments += self._inputs.arguments(entity, verb)

        async def resolve(info: Info, given: Given) -> Written:
            rows.admit(info, () if verb != "delete" else None)
            left = dict(given)
            key = left.pop(IDEMPOTENCY_KEY, None)
            row = said(left.pop("input")) if takes_input else {}
            with in_words_of_clients(entity, self._dialect):
                command = rows.command(info, {**row, **rows.read(left, row)}, key)
                (answer,) = await apply(info, entity, [command])
                if isinstance(answer, ShardQLError):
                    raise answer
            return Written(answer)

        payload = self._payloads.of_one(entity, verb, record)
        words = _WORDS[verb].format(with_article(entity.type_name))
        return resolved_field(name, or_null(payload), words, arguments, resolve, [WRITES])

    def _several(self, entity: EntitySpec, verb: str, input_type: type, result: type) -> StrawberryField:
        """The mutation of many records, each by itself."""
        name = self._name(entity, verb, several=True)
        rows = _Rows(entity, verb, self._dialect)
        inputs: Any = list[input_type]  # type: ignore[valid-type]
        arguments = [
            Argument(
                "inputs", inputs, f"The rows, {MAX_ROWS} at most; those of one record in their order.", required=True
            ),
            Argument(IDEMPOTENCY_KEY, str, f"{IDEMPOTENCY_WORDS} Each row counts by its place."),
        ]

        async def resolve(info: Info, given: Given) -> Batch:
            inputs = given["inputs"]
            if len(inputs) > MAX_ROWS:
                raise InvalidLimit(
                    f"inputs are {len(inputs):,}, and at most {MAX_ROWS} are written at once: send them in parts.",
                    argument="inputs",
                )
            rows.admit(info, (RESULTS,) if verb != "delete" else None)
            with in_words_of_clients(entity, self._dialect):
                keys = _keys_of_rows(given.get(IDEMPOTENCY_KEY), len(inputs))
            return Batch(await rows.written(info, inputs, keys))

        payload = self._payloads.of_several(entity, verb, result)
        words = (
            f"Does what {self._names.edit(verb, entity)} does for up to {MAX_ROWS} rows, each by itself: "
            "one that is wrong takes no other with it."
        )
        return resolved_field(name, or_null(payload), words, arguments, resolve, [WRITES])

    def _name(self, entity: EntitySpec, verb: str, *, several: bool = False) -> str:
        name = self._names.edit(verb, entity, several=several)
        if verb == "create":  # What collides by one verb does by all of them.
            self._register.mutation(name, at(entity), f"{name} of {entity.type_name}")
        return name


def _keys_of_rows(key: str | None, count: int) -> list[str | None]:
    """What names each row of a request that has a name."""
    if key is None:
        return [None] * count
    check_key(key, MAX_CHARACTERS - len(f"/{MAX_ROWS}"))
    return [f"{key}/{number}" for number in range(count)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What clients say of records of one entity becomes commands."""

    entity: EntitySpec
    verb: str
    dialect: Dialect

    def admit(self, info: Info, above: tuple[str, ...] | None) -> None:
        """Refuses who may not write, or may not see what is selected below these fields; nothing is read for it."""
        shown = None
        if above is not None:
            way, raw = (*above, own_name(self.entity)), info._raw_info  # noqa: SLF001 - its only way
            if is_selected(raw, way):
                shown = shown_properties(self.entity, raw, of_page=False, way=way)
        info.context.gate.may_write(self.entity, shown, place_of(info))

    async def written(self, info: Info, inputs: list[Any], keys: list[str | None]) -> list[Written]:
        """What becomes of each row: one that is wrong takes no other with it."""
        answers: dict[int, Applied] = {}
        commands: dict[int, Command] = {}
        for number, (row, key) in enumerate(zip(inputs, keys, strict=True)):
            try:
                commands[number] = self.command(info, said(row), key)
            except ShardQLError as problem:
                answers[number] = problem
        answers |= zip(commands, await apply(info, self.entity, [*commands.values()]), strict=True)
        return [self._result(info, answers[number]) for number in range(len(inputs))]

    def _result(self, info: Info, answer: Applied) -> Written:
        if isinstance(answer, ShardQLError):
            return Written(error=row_error(info, told_to_clients(self.entity, self.dialect, answer)))
        return Written(answer)

    # --- one row -----------------------------------------------------------------------------------------------

    def read(self, arguments: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """What arguments say that stand beside an input, as if they stood in it."""
        version = arguments.get(EXPECTED_VERSION)
        if version is not None and row.get(EXPECTED) not in (None, version):
            raise ConflictingArguments(
                f"{EXPECTED_VERSION} is given twice, as two versions: leave one of them out.", argument=EXPECTED_VERSION
            )
        names = {input_name(part.name): attribute_name(part.name) for part in self.entity.sub_ids}
        names[EXPECTED_VERSION] = EXPECTED
        return {names.get(name, name): value for name, value in arguments.items()}

    def command(self, info: Info, row: Mapping[str, Any], key: str | None) -> Command:
        """The command that one row gives; `Forbidden` names a property that the caller may not write."""
        entity, left = self.entity, dict(row)
        version = left.pop(EXPECTED, None)
        primary = self._primary(info, left) if self.verb in ("update", "delete") else []
        values = self._values(left)
        gate, place = info.context.gate, place_of(info)
        match self.verb:
            case "create":
                return Create(entity, values, key, gate.guard(entity, values, place))
            case "update":
                return Update(entity, primary, values, version, key, gate.guard(entity, values, place))
            case "put":
                # What is left out goes, so that all of it is written.
                own = [part.name for part in entity.properties.values() if part.function is None]
                return Replace(entity, values, version, key, gate.guard(entity, own, place, whole=True))
        return Remove(entity, primary, version, key, gate.guard(entity, (), place))

    def _values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Properties by Python name. In a whole record null is left out where it is no value, and what is null is."""
        whole = self.verb in ("create", "put")
        values: dict[str, Any] = {}
        for part in writable(self.entity):
            name, at_place = part.name, attribute_name(part.name)
            field, given = self.entity.model.model_fields[name], row.get(at_place)
            if given is not None or (at_place in row and (part.nullable or not whole)):
                with about(input_name(name)):
                    values[name] = as_python(given, [field.annotation])
            elif whole and part.nullable and field.is_required() and part is not self.entity.created:
                values[name] = None
        return values

    def _primary(self, info: Info, row: dict[str, Any]) -> list[Any]:
        """The values of the primary key, taken out of a row; a new sub id beside a record's id is a new entry's."""
        entity, dialect = self.entity, self.dialect
        id = info.context.database.id_or_key(entity, row.pop(ID, None))
        subs = {part: row.pop(attribute_name(part.name), None) for part in entity.sub_ids}
        parts = {dialect.key_part(part.name): value for part, value in subs.items() if value is not None}
        if self.verb == "update" and isinstance(id, RecordKey) and parts:
            check_names(entity, id)
            for part, value in zip(entity.sub_ids, id.children, strict=True):
                parts.setdefault(dialect.key_part(part.name), value)
            parts |= {dialect.key_part(part.name): value for part, value in zip(entity.ids, id.ids, strict=True)}
            id = None
        values = primary_values(entity, id, parts, dialect)
        if len(values) < len(entity.primary):
            missing = input_name(entity.sub_ids[0].name)
            raise MissingArgument(
                f"{entity.type_name} has several records an id: give {missing} too, or the id of the record.",
                argument=missing,
            )
        return values


_WHAT = {
    "create": "The new record.",
    "update": "Which record it is, and what changes of it.",
    "put": "The whole record.",
}
_WORDS = {
    "create": "Creates {}. Where there is one with its id already it is `ALREADY_EXISTS`, and nothing is written.",
    "update": "Changes {} that is there: what is left out stays as it is, and null clears.",
    "put": "Writes the whole of {}, new or in place of the one with its id: what is left out gets its default.",
    "delete": "Removes {}. Where there is none that is no error.",
}
