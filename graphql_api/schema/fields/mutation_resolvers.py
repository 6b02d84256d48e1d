"""The way from a mutation to the store: what it costs is told, and what is wrong is told in a client's words."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any

from graphql_api.errors import FieldProblem as Problem
from graphql_api.errors import InvalidRecord, OutcomeUnknown, RecordNotFound, ShardQLError
from graphql_api.model import Entity, EntitySpec
from graphql_api.query import Dialect
from graphql_api.query.execution import Work
from graphql_api.runtime import itemised
from graphql_api.schema.authorization import place_of
from graphql_api.schema.fields.mutation_payloads import FieldProblem, WriteError
from graphql_api.schema.input_values import names_inside
from graphql_api.schema.types.field_arguments import Info
from graphql_api.schema.types.mutation_inputs import EXPECTED_VERSION, IDEMPOTENCY_KEY, input_name
from graphql_api.storage import MeteredStore, StoreCall
from graphql_api.writes import NOT_NULL, Command, Remove, all_wrong, may_repeat

Applied = Entity | ShardQLError | None

_ARGUMENTS = {"expected_version": EXPECTED_VERSION, "idempotency_key": IDEMPOTENCY_KEY}


async def apply(info: Info, entity: EntitySpec, commands: Sequence[Command]) -> Sequence[Applied]:
    """What becomes of each command, where the caller may give it."""
    context, at = info.context, place_of(info)
    database, calls = context.database, list[StoreCall]()
    if context.explains:
        database = replace(database, store=MeteredStore(database.store, calls.append, tallies=False))
    began = database.clock()
    if not all(map(may_repeat, commands)):
        context.begun_once.append(at.name)
    with itemised() as bill:
        answers = await database.apply_each(commands) if commands else []
    if any(_is_done_once(*both) for both in zip(commands, answers, strict=True)):
        context.done_once.append(at.name)
    if context.explains:
        work = Work(
            rounds=sum(call.name in _READS for call in calls),
            reads=sum(call.parts for call in calls if call.name == "read_ranges"),
            records_read=sum(call.records_read for call in calls),
            fetched=sum(call.parts for call in calls if call.name == "get_many"),
        )
        work.took(database.clock() - began, bill)
        written = [call for call in calls if call.name in _WRITES]
        context.explain(
            at.path,
            {
                "why": f"{at.name} writes {entity.type_name} records by their keys.",
                "entity": entity.type_name,
                "records": len(commands),
                "write": {"rounds": len(written), "writes": sum(call.parts for call in written)},
                "read": {**work.describe(), "returned": sum(isinstance(answer, Entity) for answer in answers)},
            },
        )
    return [_as_refused(info, entity, *both) for both in zip(commands, answers, strict=True)]


def _is_done_once(command: Command, answer: Applied) -> bool:
    """Whether something was written, as far as anybody knows, that must not be written twice."""
    is_refused = isinstance(answer, ShardQLError) and not isinstance(answer, OutcomeUnknown)
    return not (is_refused or may_repeat(command))


_READS = frozenset({"read_ranges", "get_many"})
_WRITES = frozenset({"write", "write_together"})


def _as_refused(info: Info, entity: EntitySpec, command: Command, answer: Applied) -> Applied:
    """The answer; where it takes a record to tell who may write, none is answered as one of somebody else."""
    is_missing = isinstance(answer, RecordNotFound) or (answer is None and isinstance(command, Remove))
    if is_missing and command.allow is not None:
        return info.context.gate.not_written(entity, place_of(info))
    return answer


# --- errors ----------------------------------------------------------------------------------------------------


def told_to_clients(entity: EntitySpec, dialect: Dialect, problem: ShardQLError) -> ShardQLError:
    """The same error in the words of the schema: in Python properties and searches have other names."""
    names = {name: input_name(name) for name in entity.properties} | _ARGUMENTS
    if problem.argument is not None:
        first, dot, rest = problem.argument.partition(".")
        problem.argument = f"{names[first]}{dot}{rest}" if first in names else problem.argument
    problem.message = _in_words(entity, dialect, problem.message)
    if isinstance(problem, InvalidRecord) and problem.fields:
        problem.fields = tuple(_field(entity, one) for one in problem.fields)
        problem.argument = problem.fields[0].field
        problem.message = all_wrong(entity, problem.fields, problem.left_out)
    problem.args = (problem.message,)
    return problem


def _in_words(entity: EntitySpec, dialect: Dialect, message: str) -> str:
    """A message with the schema's names; values, which stand between quotes or behind a type, stay as they are."""
    searches = {index.attribute: dialect.index(entity, index) for index in entity.indexes.values()}
    own = {name: input_name(name) for name in entity.properties if "_" in name} | _ARGUMENTS | searches
    of = {one.type_name: one.properties for one in (entity, *entity.children)}
    types = "|".join(map(re.escape, {*of, *(key.parent.type_name for key in entity.foreign_keys)}))
    said = re.compile(
        rf"""(?<!\w)'[^']*'|"[^"]*"|\b(?:{types}) \S+|\b(?P<type>{types})\.(?P<part>\w+)|\b(?P<own>{"|".join(own)})\b"""
    )

    def called(found: re.Match[str]) -> str:
        name, type_name = found["part"], found["type"]
        if found["own"] is not None:
            return own[found["own"]]
        if type_name == entity.type_name and name in searches:
            return searches[name]
        return f"{type_name}.{input_name(name)}" if name in of.get(type_name, ()) else found.group()

    return said.sub(called, message)


def _field(entity: EntitySpec, problem: Problem) -> Problem:
    """What is wrong at a place within a record, by the names that the schema has for what is in it."""
    first, *others = problem.field.split(".")
    if first not in entity.properties:
        return problem
    names, kinds = names_inside(entity.model.model_fields[first].annotation, others)
    return Problem(".".join([input_name(first), *names]), _said_of(kinds, problem.message))


def _said_of(kinds: Sequence[Any], message: str) -> str:
    """A message of pydantic's, where it lists the values of an enum with the names that the schema has instead."""
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if not (isinstance(kind, type) and issubclass(kind, Enum) and message.startswith(_SHOULD_BE)):
        return message
    *names, last = (member.name for member in kind)
    also = NOT_NULL if message.endswith(NOT_NULL) else ""
    return f"{_SHOULD_BE}{' or '.join(filter(None, [', '.join(names), last]))}{also}"


_SHOULD_BE = "Input should be "


def row_error(info: Info, problem: ShardQLError) -> WriteError:
    """The error of one row, with no more of it than an error of a field would tell."""
    told = info.context.tell(problem)
    extensions = told["extensions"]
    return WriteError(
        code=extensions["code"],
        message=told["message"],
        argument=extensions.get("argument"),
        retryable=bool(extensions.get("retryable")),
        version=extensions.get("version"),
        fields=[FieldProblem(field=one["field"], message=one["message"]) for one in extensions.get("fields", ())],
    )


@contextmanager
def in_words_of_clients(entity: EntitySpec, dialect: Dialect) -> Iterator[None]:
    """Puts errors from within into the words of the schema."""
    try:
        yield
    except ShardQLError as problem:
        told_to_clients(entity, dialect, problem)
        raise
