"""Runs operations: parses, validates, weighs, executes, and puts the answer into words that a client may see."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import strawberry
from graphql import (
    DocumentNode,
    ExecutionResult,
    FragmentDefinitionNode,
    GraphQLError,
    NoSchemaIntrospectionCustomRule,
    OperationDefinitionNode,
    OperationType,
    OverlappingFieldsCanBeMergedRule,
    execute,
    parse,
    specified_rules,
    validate,
)
from graphql.execution.values import get_variable_values
from strawberry.execution import optimized_is_awaitable

from graphql_api.database import Database
from graphql_api.errors import (
    BadUserInput,
    DocumentNotFound,
    DocumentRequired,
    InvalidRequest,
    MethodNotAllowed,
    OperationNotFound,
    ParseFailed,
    QueryTooCostly,
    QueryTooDeep,
    QueryTooLong,
    ShardQLError,
    ValidationFailed,
    nearest,
)
from graphql_api.runtime import billed
from graphql_api.schema.error_formatting import shortened, told, told_all, without_hints
from graphql_api.schema.execution.document_limits import FieldsThatMerge, Limits, check_shape
from graphql_api.schema.execution.retry_safety import may_come_again, too_late
from graphql_api.schema.query_cost import cost_of
from graphql_api.schema.request_context import Caller, Context
from graphql_api.schema.validation_messages import told_of_mistake

KEPT_CHARACTERS = 500_000
"""of documents that stay parsed, all together: in memory each of them is about a hundred times its text"""

MAX_TEXT_LENGTH = 100_000
"""characters of a document"""

MAX_TOLD = 10
"""mistakes in variables: for each of them GraphQL writes out what was sent"""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client asks for."""

    query: str | None
    """None where a trusted document is named"""
    name: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """as the client sent them"""
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client gets, and what metrics and logs are told."""

    body: dict[str, Any]
    executed: bool
    """something ran, and so there is a key `data`"""
    status: int
    codes: tuple[str, ...]
    """of its errors"""
    explained: tuple[Mapping[str, Any], ...] = ()
    """what its searches have done, where anybody wants to know"""


@dataclass(frozen=True, slots=True)
class _Document:
    """A document that is valid for the schema."""

    parsed: DocumentNode
    operations: Mapping[str, OperationDefinitionNode]
    """by name; an anonymous one under no characters"""
    fragments: Mapping[str, FragmentDefinitionNode]


class _Refused(Exception):
    """Nothing of the operation ran."""

    def __init__(self, status: int, *errors: dict[str, Any]) -> None:
        self.answer = Answer({"errors": [*errors]}, executed=False, status=status, codes=_codes(errors))


class Engine:
    """A schema with its limits, and the documents that it has seen."""

    def __init__(
        self,
        schema: strawberry.Schema,
        limits: Limits,
        *,
        introspection: bool = True,
        suggestions: bool = True,
        details: bool = True,
        documents: Mapping[str, str] | None = None,
        only_documents: bool = False,
        read_unit_price: float | None = None,
    ) -> None:
        self.schema = schema
        self.limits = limits
        self.introspection = introspection
        self.suggestions = suggestions
        self._details = details
        self._documents = documents or {}
        self._only_documents = only_documents
        self._read_unit_price = read_unit_price
        self._rules = [
            *(FieldsThatMerge if rule is OverlappingFieldsCanBeMergedRule else rule for rule in specified_rules),
            *([] if introspection else [NoSchemaIntrospectionCustomRule]),
        ]
        self._seen: OrderedDict[str, _Document] = OrderedDict()
        self._kept = 0

    async def run(self, operation: Operation, database: Database, caller: Caller) -> Answer:
        """The answer to an operation; whatever a client sends, it never raises."""
        answer = await self._run(operation, database, caller)
        if not self.suggestions:
            for error in answer.body.get("errors", ()):
                error["message"] = without_hints(error["message"])
        return answer

    async def _run(self, operation: Operation, database: Database, caller: Caller) -> Answer:
        try:
            text = self._text(operation)
            document = self._document(text)
            chosen = _chosen(document, operation.name)
            if caller.read_only and chosen.operation is not OperationType.QUERY:
                raise MethodNotAllowed(f"A GET only reads: send this {chosen.operation.value} by POST.")
            variables = self._variables(chosen, operation.variables)
            cost = cost_of(self.schema._schema, chosen, document.fragments, variables)  # noqa: SLF001 - its only way
            if cost > self.limits.cost:
                raise QueryTooCostly(
                    f"The answer could hold {cost:,} fields and objects, and at most {self.limits.cost:,} are allowed: "
                    "ask for fewer records or fewer fields.",
                    limit=self.limits.cost,
                    found=cost,
                )
            writes = chosen.operation is OperationType.MUTATION
            tell = partial(self._told, caller)
            context = Context(_scoped(database, caller), caller, self._read_unit_price, writes=writes, tell=tell)
            with billed() if context.explains else nullcontext():
                return await self._executed(document, chosen, operation, context)
        except _Refused as refused:
            return refused.answer
        except ShardQLError as problem:
            return _Refused(problem.status, told(problem, caller.correlation_id, details=self._details)).answer

    def _told(self, caller: Caller, problem: ShardQLError) -> Mapping[str, Any]:
        """An error that is part of an answer."""
        words = told(problem, caller.correlation_id, details=self._details)
        return words if self.suggestions else {**words, "message": without_hints(words["message"])}

    def mistakes(self, text: str) -> tuple[str, ...]:
        """What is wrong with a document whatever its variables are; nothing runs."""
        try:
            self._document(text)
        except _Refused as refused:
            return tuple(map(_with_place, refused.answer.body["errors"]))
        except ShardQLError as problem:
            return (problem.message,)
        return ()

    # --- before anything runs ----------------------------------------------------------------------------------

    def _text(self, operation: Operation) -> str:
        named = operation.document_id
        if named is not None:
            if named not in self._documents:
                raise DocumentNotFound(
                    f"No trusted document is called {named[:80]!r}: send the one that this server was started with."
                )
            return self._documents[named]
        if self._only_documents:
            if operation.query is not None and operation.query in self._documents.values():
                return operation.query
            raise DocumentRequired("This server runs trusted documents only: send the id of one as documentId.")
        if operation.query is None:
            raise InvalidRequest("The request has no query: send one as text.", argument="query")
        return operation.query

    def _document(self, text: str) -> _Document:
        if text in self._seen:
            self._seen.move_to_end(text)
            return self._seen[text]
        document = self._valid(self._parsed(text))
        self._seen[text] = document
        self._kept += len(text)
        while self._kept > KEPT_CHARACTERS:
            oldest, _ = self._seen.popitem(last=False)
            self._kept -= len(oldest)
        return document

    def _parsed(self, text: str) -> DocumentNode:
        limits = self.limits
        if len(text) > MAX_TEXT_LENGTH:
            raise QueryTooLong(
                f"The document has {len(text):,} characters, and at most {MAX_TEXT_LENGTH:,} are read: send less at once.",
                limit=MAX_TEXT_LENGTH,
                found=len(text),
            )
        try:
            parsed = parse(text, max_lexical_tokens=limits.tokens, max_comments=limits.tokens)
        except GraphQLError as problem:
            if "Document contains more than" in problem.message:
                raise QueryTooLong(
                    f"The document has more than {limits.tokens:,} tokens: send less at once.", limit=limits.tokens
                ) from None
            if "nested too deeply" in problem.message:
                raise self._far_too_deep() from None
            raise _Refused(400, _with_code(problem, ParseFailed)) from None
        try:
            check_shape(parsed, limits)
        except RecursionError:
            raise self._far_too_deep() from None
        return parsed

    def _far_too_deep(self) -> QueryTooDeep:
        return QueryTooDeep(
            "The document is nested deeper than can be followed: ask for less at once.", limit=self.limits.depth
        )

    def _valid(self, parsed: DocumentNode) -> _Document:
        schema = self.schema._schema  # noqa: SLF001 - its only way
        problems = validate(schema, parsed, self._rules, hide_suggestions=not self.suggestions)
        if problems:
            refused = [self._mistake(problem, ValidationFailed) for problem in problems]
            if refused[-1]["message"] == "Validation aborted.":
                refused[-1]["message"] = (
                    "The document asks for the same fields too often, or spreads too many fragments, to be checked: "
                    "ask for each field once."
                )
            raise _Refused(400, *refused)
        operations = [part for part in parsed.definitions if isinstance(part, OperationDefinitionNode)]
        fragments = [part for part in parsed.definitions if isinstance(part, FragmentDefinitionNode)]
        return _Document(
            parsed,
            {part.name.value if part.name else "": part for part in operations},
            {part.name.value: part for part in fragments},
        )

    def _variables(self, chosen: OperationDefinitionNode, given: Mapping[str, Any]) -> Mapping[str, Any]:
        schema = self.schema._schema  # noqa: SLF001 - its only way
        found = get_variable_values(
            schema,
            chosen.variable_definitions or (),
            dict(given),
            max_errors=MAX_TOLD,
            hide_suggestions=not self.suggestions,
        )
        if isinstance(found, list):
            raise _Refused(400, *(self._mistake(problem, BadUserInput) for problem in found))
        return found.coerced

    def _mistake(self, problem: GraphQLError, kind: type[ShardQLError]) -> dict[str, Any]:
        """What is told of a mistake that GraphQL has found."""
        schema = self.schema._schema  # noqa: SLF001 - its only way
        message = told_of_mistake(problem.message, schema, suggestions=self.suggestions)
        return {**_with_code(problem, kind), "message": shortened(message)}

    # --- running -----------------------------------------------------------------------------------------------

    async def _executed(
        self, document: _Document, chosen: OperationDefinitionNode, operation: Operation, context: Context
    ) -> Answer:
        mutations = self.schema._schema.mutation_type  # noqa: SLF001 - its only way
        try:
            async with asyncio.timeout(self.limits.deadline):
                result = execute(
                    self.schema._schema,  # noqa: SLF001 - its only way
                    document.parsed,
                    context_value=context,
                    variable_values=dict(operation.variables),
                    operation_name=operation.name or None,
                    executor_class=self.schema.execution_context_class,
                    is_awaitable=cast(Any, optimized_is_awaitable),
                    hide_suggestions=not self.suggestions,
                )
                if optimized_is_awaitable(result):
                    result = await cast(Awaitable[ExecutionResult], result)
        except TimeoutError:
            raise too_late(chosen, document.fragments, mutations, context.begun_once, self.limits.deadline) from None
        result = cast(ExecutionResult, result)
        problems = result.errors or ()
        failed = {problem.path[0] for problem in problems if problem.path and len(problem.path) == 1}
        again = may_come_again(chosen, document.fragments, mutations, context.done_once, failed)
        errors = told_all(problems, context.caller.correlation_id, details=self._details, again=again)
        body: dict[str, Any] = {"errors": errors} if errors else {}
        explained = tuple(sorted(context.explained, key=_place))
        if context.caller.explain:
            body["extensions"] = {"explain": [*explained]}
        return Answer(
            {**body, "data": result.data}, executed=True, status=200, codes=_codes(errors), explained=explained
        )


def _scoped(database: Database, caller: Caller) -> Database:
    """The database as the caller may see it."""
    who = (caller.tenant, caller.principal, caller.subject)
    if who == (database.tenant, database.principal, database.subject):
        return database
    return database.scoped(tenant=caller.tenant, principal=caller.principal, subject=caller.subject)


def _place(explained: Mapping[str, Any]) -> list[str]:
    return [str(part) for part in explained["path"]]


def _chosen(document: _Document, name: str | None) -> OperationDefinitionNode:
    """The one operation that is to run."""
    operations = document.operations
    if name:
        if name not in operations:
            hint = nearest(name, operations)
            raise OperationNotFound(f"The document has no operation {name[:80]!r}.{hint}", argument="operationName")
        return operations[name]
    if len(operations) == 1:
        return next(iter(operations.values()))
    if not operations:
        raise OperationNotFound("The document has no operation, only fragments: add a query.")
    raise OperationNotFound(
        f"The document has the operations {', '.join(operations)}: say which to run by operationName.",
        argument="operationName",
    )


def _with_code(problem: GraphQLError, kind: type[ShardQLError]) -> dict[str, Any]:
    formatted: dict[str, Any] = dict(problem.formatted)
    formatted["message"] = shortened(problem.message)
    formatted["extensions"] = {"code": kind.code, **(problem.extensions or {})}
    return formatted


def _with_place(error: Mapping[str, Any]) -> str:
    at = next(iter(error.get("locations", ())), None)
    return f"line {at['line']}, column {at['column']}: {error['message']}" if at else str(error["message"])


def _codes(errors: Any) -> tuple[str, ...]:
    return tuple(error["extensions"]["code"] for error in errors)
