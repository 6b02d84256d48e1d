"""Execute GraphQL operations: parse, validate, check limits and cost, run, and format errors for the client."""

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
    suggest,
)
from graphql_api.runtime import meter_capacity
from graphql_api.schema.error_formatting import format_error, format_errors, truncate_message
from graphql_api.schema.execution.document_limits import BoundedFieldMergeRule, Limits, check_document_limits
from graphql_api.schema.execution.retry_safety import deadline_error, is_retry_safe
from graphql_api.schema.query_cost import operation_cost
from graphql_api.schema.request_context import Caller, Context
from graphql_api.schema.validation_messages import explain_validation_error

MAX_CACHED_CHARACTERS = 500_000
"""Total size of the documents that stay parsed. A parsed document takes about 100 times the memory of its text."""

MAX_TEXT_LENGTH = 100_000
"""Characters of a document."""

MAX_VARIABLE_ERRORS = 10
"""Reported errors in variables. GraphQL repeats the value that was sent in each of them."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One GraphQL request."""

    query: str | None
    """None if the request has the id of a trusted document instead."""
    name: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """As sent by the client."""
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class ExecutionResponse:
    """The response body for the client, and the values for metrics and logs."""

    body: dict[str, Any]
    executed: bool
    """Execution has started, so the body has the key `data`."""
    status: int
    codes: tuple[str, ...]
    """The codes of the errors."""
    explain_entries: tuple[Mapping[str, Any], ...] = ()
    """Explain output, if the response or the log needs it."""


@dataclass(frozen=True, slots=True)
class _Document:
    """A parsed document that is valid for the schema."""

    node: DocumentNode
    operations: Mapping[str, OperationDefinitionNode]
    """By name. The anonymous operation has the name ""."""
    fragments: Mapping[str, FragmentDefinitionNode]


class _RequestRejected(Exception):
    """The operation was rejected before execution."""

    def __init__(self, status: int, *errors: dict[str, Any]) -> None:
        self.response = ExecutionResponse({"errors": [*errors]}, executed=False, status=status, codes=_codes(errors))


class DocumentExecutor:
    """An executor of operations for one schema, with limits and a cache of parsed documents."""

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
            *(BoundedFieldMergeRule if rule is OverlappingFieldsCanBeMergedRule else rule for rule in specified_rules),
            *([] if introspection else [NoSchemaIntrospectionCustomRule]),
        ]
        self._cache: OrderedDict[str, _Document] = OrderedDict()
        self._cached_characters = 0

    async def run(self, operation: Operation, database: Database, caller: Caller) -> ExecutionResponse:
        """Execute an operation. Never raises, whatever the client sends."""
        try:
            text = self._text(operation)
            document = self._document(text)
            definition = _select_operation(document, operation.name)
            if caller.read_only and definition.operation is not OperationType.QUERY:
                raise MethodNotAllowed(f"A GET request can only read. Send this {definition.operation.value} by POST.")
            variables = self._coerce_variables(definition, operation.variables)
            schema = self.schema._schema  # noqa: SLF001 - no public API
            cost = operation_cost(schema, definition, document.fragments, variables)
            if cost > self.limits.cost:
                raise QueryTooCostly(
                    f"The response could hold {cost:,} fields and objects; the limit is {self.limits.cost:,}. "
                    "Request fewer records or fewer fields.",
                    limit=self.limits.cost,
                    found=cost,
                )
            is_mutation = definition.operation is OperationType.MUTATION
            format_for_caller = partial(self._format_error, caller)
            context = Context(
                _scoped(database, caller),
                caller,
                self._read_unit_price,
                is_mutation=is_mutation,
                format_error=format_for_caller,
            )
            with meter_capacity() if context.collects_explain else nullcontext():
                return await self._execute(document, definition, operation, context)
        except _RequestRejected as rejected:
            return rejected.response
        except ShardQLError as problem:
            return _RequestRejected(problem.status, self._format_error(caller, problem)).response

    def _format_error(self, caller: Caller, problem: ShardQLError) -> dict[str, Any]:
        """Format an error of a request, or one that is part of the data of a response."""
        return format_error(problem, caller.correlation_id, details=self._details, suggestions=self.suggestions)

    def validation_errors(self, text: str) -> tuple[str, ...]:
        """Return the errors of a document that do not depend on variables. Executes nothing."""
        try:
            self._document(text)
        except _RequestRejected as rejected:
            return tuple(map(_message_with_location, rejected.response.body["errors"]))
        except ShardQLError as problem:
            return (problem.message,)
        return ()

    # --- before execution --------------------------------------------------------------------------------------

    def _text(self, operation: Operation) -> str:
        document_id = operation.document_id
        if document_id is not None:
            if document_id not in self._documents:
                raise DocumentNotFound(
                    f"There is no trusted document with the id {document_id[:80]!r}. "
                    "Send the id of a document that this server was started with."
                )
            return self._documents[document_id]
        if self._only_documents:
            if operation.query is not None and operation.query in self._documents.values():
                return operation.query
            raise DocumentRequired("This server runs trusted documents only. Send the id of a document as documentId.")
        if operation.query is None:
            raise InvalidRequest("The request has no query. Send the query as a string.", argument="query")
        return operation.query

    def _document(self, text: str) -> _Document:
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        document = self._validate(self._parse(text))
        self._cache[text] = document
        self._cached_characters += len(text)
        while self._cached_characters > MAX_CACHED_CHARACTERS:
            oldest, _ = self._cache.popitem(last=False)
            self._cached_characters -= len(oldest)
        return document

    def _parse(self, text: str) -> DocumentNode:
        limits = self.limits
        if len(text) > MAX_TEXT_LENGTH:
            raise QueryTooLong(
                f"The document has {len(text):,} characters; the limit is {MAX_TEXT_LENGTH:,}. Send a shorter one.",
                limit=MAX_TEXT_LENGTH,
                found=len(text),
            )
        try:
            parsed = parse(text, max_lexical_tokens=limits.tokens, max_comments=limits.tokens)
        except GraphQLError as problem:
            if "Document contains more than" in problem.message:
                raise QueryTooLong(
                    f"The document has more than {limits.tokens:,} tokens. Send a shorter one.",
                    limit=limits.tokens,
                ) from None
            if "nested too deeply" in problem.message:
                raise self._nested_too_deeply() from None
            raise _RequestRejected(400, _with_code(problem, ParseFailed)) from None
        try:
            check_document_limits(parsed, limits)
        except RecursionError:
            raise self._nested_too_deeply() from None
        return parsed

    def _nested_too_deeply(self) -> QueryTooDeep:
        return QueryTooDeep(
            "The document is nested too deeply to be processed. Request fewer levels of fields.",
            limit=self.limits.depth,
        )

    def _validate(self, parsed: DocumentNode) -> _Document:
        schema = self.schema._schema  # noqa: SLF001 - no public API
        problems = validate(schema, parsed, self._rules, hide_suggestions=not self.suggestions)
        if problems:
            errors = [self._format_graphql_error(problem, ValidationFailed) for problem in problems]
            if errors[-1]["message"] == "Validation aborted.":
                errors[-1]["message"] = (
                    "The document selects the same fields too often, or spreads too many fragments, to be validated. "
                    "Select each field once."
                )
            raise _RequestRejected(400, *errors)
        operations = [part for part in parsed.definitions if isinstance(part, OperationDefinitionNode)]
        fragments = [part for part in parsed.definitions if isinstance(part, FragmentDefinitionNode)]
        return _Document(
            parsed,
            {part.name.value if part.name else "": part for part in operations},
            {part.name.value: part for part in fragments},
        )

    def _coerce_variables(self, definition: OperationDefinitionNode, provided: Mapping[str, Any]) -> Mapping[str, Any]:
        schema = self.schema._schema  # noqa: SLF001 - no public API
        result = get_variable_values(
            schema,
            definition.variable_definitions or (),
            dict(provided),
            max_errors=MAX_VARIABLE_ERRORS,
            hide_suggestions=not self.suggestions,
        )
        if isinstance(result, list):
            raise _RequestRejected(400, *(self._format_graphql_error(problem, BadUserInput) for problem in result))
        return result.coerced

    def _format_graphql_error(self, problem: GraphQLError, kind: type[ShardQLError]) -> dict[str, Any]:
        """Format an error that graphql-core reported, under the code of `kind`."""
        schema = self.schema._schema  # noqa: SLF001 - no public API
        message = explain_validation_error(problem.message, schema, suggestions=self.suggestions)
        return {**_with_code(problem, kind), "message": truncate_message(message)}

    # --- execution ---------------------------------------------------------------------------------------------

    async def _execute(
        self, document: _Document, definition: OperationDefinitionNode, operation: Operation, context: Context
    ) -> ExecutionResponse:
        mutation_type = self.schema._schema.mutation_type  # noqa: SLF001 - no public API
        try:
            async with asyncio.timeout(self.limits.deadline):
                result = execute(
                    self.schema._schema,  # noqa: SLF001 - no public API
                    document.node,
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
            started = context.non_idempotent_started
            raise deadline_error(definition, document.fragments, mutation_type, started, self.limits.deadline) from None
        result = cast(ExecutionResult, result)
        problems = result.errors or ()
        failed_roots = {problem.path[0] for problem in problems if problem.path and len(problem.path) == 1}
        completed = context.non_idempotent_completed
        retry_safe = is_retry_safe(definition, document.fragments, mutation_type, completed, failed_roots)
        errors = format_errors(
            problems,
            context.caller.correlation_id,
            details=self._details,
            retry_safe=retry_safe,
            suggestions=self.suggestions,
        )
        body: dict[str, Any] = {"errors": errors} if errors else {}
        entries = tuple(sorted(context.explain_entries, key=_path_key))
        if context.caller.explain:
            body["extensions"] = {"explain": [*entries]}
        return ExecutionResponse(
            {**body, "data": result.data}, executed=True, status=200, codes=_codes(errors), explain_entries=entries
        )


def _scoped(database: Database, caller: Caller) -> Database:
    """Return the database limited to the tenant of the caller."""
    identity = (caller.tenant, caller.principal, caller.subject)
    if identity == (database.tenant, database.principal, database.subject):
        return database
    return database.scoped(tenant=caller.tenant, principal=caller.principal, subject=caller.subject)


def _path_key(entry: Mapping[str, Any]) -> list[str]:
    return [str(part) for part in entry["path"]]


def _select_operation(document: _Document, name: str | None) -> OperationDefinitionNode:
    """Return the operation to execute: the one named, or the only one."""
    operations = document.operations
    if name:
        if name not in operations:
            raise OperationNotFound(
                "The document has no operation {name!r}.{hint}",
                argument="operationName",
                name=name[:80],
                hint=suggest(name, operations),
            )
        return operations[name]
    if len(operations) == 1:
        return next(iter(operations.values()))
    if not operations:
        raise OperationNotFound("The document has only fragments. Add an operation.")
    raise OperationNotFound(
        f"The document has several operations: {', '.join(operations)}. Choose one by operationName.",
        argument="operationName",
    )


def _with_code(problem: GraphQLError, kind: type[ShardQLError]) -> dict[str, Any]:
    formatted: dict[str, Any] = dict(problem.formatted)
    formatted["message"] = truncate_message(problem.message)
    formatted["extensions"] = {"code": kind.code, **(problem.extensions or {})}
    return formatted


def _message_with_location(error: Mapping[str, Any]) -> str:
    location = next(iter(error.get("locations", ())), None)
    if location is None:
        return str(error["message"])
    return f"line {location['line']}, column {location['column']}: {error['message']}"


def _codes(errors: Any) -> tuple[str, ...]:
    return tuple(error["extensions"]["code"] for error in errors)
