"""Execute GraphQL operations: parse, validate, check limits and cost, run, and format errors for the client."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, cast

import graphql
import strawberry
from strawberry.execution import optimized_is_awaitable

from graphql_api.database import Database
from graphql_api.errors import (
    BadUserInput,
    DeadlineExceeded,
    DocumentNotFound,
    DocumentRequired,
    InvalidRequest,
    MethodNotAllowed,
    OutcomeUnknown,
    Overloaded,
    ParseFailed,
    QueryTooCostly,
    QueryTooDeep,
    QueryTooLong,
    ShardQLError,
    ValidationFailed,
    error_body,
    error_code,
)
from graphql_api.runtime import current_memory, meter_capacity
from graphql_api.schema.error_formatting import ErrorFormatter, format_rejection, original_error
from graphql_api.schema.execution.compiled_execution import CompiledExecution
from graphql_api.schema.execution.cost_cache import CostCache
from graphql_api.schema.execution.document_limits import (
    BoundedFieldMergeRule,
    Limits,
    check_document_limits,
    check_limit,
)
from graphql_api.schema.execution.input_complexity import InputComplexity, too_large
from graphql_api.schema.execution.operation_cost import CostModel
from graphql_api.schema.execution.validated_document import ValidatedDocument, validated_document
from graphql_api.schema.request_context import Caller, Context
from graphql_api.schema.types.generated_fields import Mark, field_marks

MAX_CACHED_CHARACTERS = 500_000
"""Total size of the documents that stay parsed, and of their plans: see `ValidatedDocument.size`."""

MAX_TEXT_LENGTH = 100_000
"""Characters of a document."""

MAX_VALIDATION_ERRORS = 20
"""Reported errors in a document. Each compares names with those of the schema, to suggest one."""

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
    status: int = 200
    explain_entries: tuple[Mapping[str, Any], ...] = ()
    """Explain output, if the response or the log needs it."""
    row_errors: Sequence[Mapping[str, Any]] = ()
    """The errors in rows of batches."""
    path: Literal["fast", "stock"] | None = None
    """How a query was completed: by compiled code, or at least partly by graphql-core. None for other operations."""

    @property
    def executed(self) -> bool:
        """Whether execution has started."""
        return "data" in self.body

    @property
    def errors(self) -> Sequence[Mapping[str, Any]]:
        """Return the errors in the body."""
        errors: Sequence[Mapping[str, Any]] = self.body.get("errors", ())
        return errors

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(map(error_code, self.errors))


class _RequestRejected(Exception):
    """graphql-core rejected the document or its variables, with these errors."""

    def __init__(self, errors: list[dict[str, Any]]) -> None:
        self.errors = errors


@dataclass(eq=False)
class DocumentExecutor:
    """An executor of operations for one schema, with limits and a cache of parsed documents."""

    schema: strawberry.Schema
    limits: Limits
    _: KW_ONLY
    introspection: bool = True
    suggestions: bool = True
    details: bool = True
    documents: Mapping[str, str] | None = None
    only_documents: bool = False
    read_unit_price: float | None = None
    write_unit_price: float | None = None
    compiled: bool = True
    """Queries are completed by compiled code."""

    def __post_init__(self) -> None:
        self._graphql_schema = self.schema._schema  # noqa: SLF001 - no public API
        rules = [rule for rule in graphql.specified_rules if rule is not graphql.OverlappingFieldsCanBeMergedRule]
        no_introspection = () if self.introspection else (graphql.NoSchemaIntrospectionCustomRule,)
        self._rules = [*rules, BoundedFieldMergeRule, *no_introspection]
        self._cost_model = CostModel(self._graphql_schema, self.limits.cost)
        self._cache: OrderedDict[str, ValidatedDocument] = OrderedDict()
        self._cached_characters = 0

    async def run(self, operation: Operation, database: Database, caller: Caller) -> ExecutionResponse:
        """Execute an operation. Never raises, whatever the client sends."""
        errors = ErrorFormatter(caller.correlation_id, self.details, self.suggestions)
        try:
            document = self._document(self._text(operation))
            definition = document.select_operation(operation.name)
            if caller.read_only and definition.operation is not graphql.OperationType.QUERY:
                raise MethodNotAllowed(f"A GET request can only read. Send this {definition.operation.value} by POST.")
            self._check_cost(document, definition, operation.variables)
            is_mutation = definition.operation is graphql.OperationType.MUTATION
            memory = current_memory()
            if is_mutation and memory is not None:
                memory.may_wait = False
            scoped = _scoped(database, caller)
            if caller.max_units is not None:
                scoped = scoped.limited(caller.max_units)
            prices = self.read_unit_price, self.write_unit_price
            context = Context(scoped, caller, errors, *prices, is_mutation=is_mutation)
            execution = self._prepare(document, operation, context)
            with meter_capacity() if context.collects_explain else nullcontext():
                return await self._execute(execution, document, context)
        except _RequestRejected as rejected:
            return ExecutionResponse({"errors": rejected.errors}, 400)
        except ShardQLError as problem:
            return ExecutionResponse({"errors": [error_body(errors.mask(problem))]}, problem.status)

    def validation_errors(self, text: str) -> tuple[str, ...]:
        """Return the errors of a document that do not depend on variables. Executes nothing."""
        try:
            self._document(text)
        except _RequestRejected as rejected:
            return tuple(map(_message_with_location, rejected.errors))
        except ShardQLError as problem:
            return (problem.message,)
        return ()

    # --- before execution --------------------------------------------------------------------------------------

    def _text(self, operation: Operation) -> str:
        document_id, documents = operation.document_id, self.documents or {}
        if document_id is not None:
            if document_id not in documents:
                raise DocumentNotFound(
                    f"There is no trusted document with the id {document_id[:80]!r}. "
                    "Send the id of a document that this server was started with."
                )
            return documents[document_id]
        if self.only_documents:
            if operation.query is not None and operation.query in documents.values():
                return operation.query
            raise DocumentRequired("This server runs trusted documents only. Send the id of a document as documentId.")
        if operation.query is None:
            raise InvalidRequest("The request has no query. Send the query as a string.", argument="query")
        return operation.query

    def _document(self, text: str) -> ValidatedDocument:
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        document = self._validate(self._parse(text))
        self._cache[text] = document
        self._add_cached(document.size)
        return document

    def _add_cached(self, characters: int) -> None:
        self._cached_characters += characters
        while self._cached_characters > MAX_CACHED_CHARACTERS:
            _, oldest = self._cache.popitem(last=False)
            self._cached_characters -= oldest.size

    def _parse(self, text: str) -> graphql.DocumentNode:
        limits = self.limits
        message = "The document has {:,} characters; the limit is {:,}. Send a shorter one."
        check_limit(QueryTooLong, len(text), MAX_TEXT_LENGTH, message)
        try:
            parsed = graphql.parse(text, max_lexical_tokens=limits.tokens, max_comments=limits.tokens)
            check_document_limits(parsed, limits)
        except graphql.GraphQLError as problem:
            if "Document contains more than" in problem.message:
                message = f"The document has more than {limits.tokens:,} tokens. Send a shorter one."
                raise QueryTooLong(message, limit=limits.tokens) from None
            if "nested too deeply" not in problem.message:
                raise self._rejected([problem], ParseFailed) from None
        except RecursionError:
            pass
        else:
            return parsed
        message = "The document is nested too deeply to be processed. Request fewer levels of fields."
        raise QueryTooDeep(message, limit=limits.depth)

    def _validate(self, parsed: graphql.DocumentNode) -> ValidatedDocument:
        problems = graphql.validate(
            self._graphql_schema,
            parsed,
            self._rules,
            max_errors=MAX_VALIDATION_ERRORS,
            hide_suggestions=not self.suggestions,
        )
        if problems:
            raise self._rejected(problems, ValidationFailed)
        return validated_document(parsed)

    def _check_cost(
        self, document: ValidatedDocument, definition: graphql.OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> None:
        """Refuse an operation with too large inputs, or with a too large response, before its inputs are converted."""
        limits, name = self.limits, definition.name.value if definition.name else None
        costs = document.costs.get(name)
        if costs is None:
            costs = document.costs[name] = CostCache(document.node, definition)
        key = costs.key(variables)
        cost = costs.get(key)
        if cost is None:
            inputs = InputComplexity(self._graphql_schema, definition, variables, limits.elements)
            cost = self._cost_model.cost(definition, document.fragments, variables, inputs)
            costs.add(key, cost)
        if cost.elements > limits.elements:
            raise too_large(limits.elements, cost.elements)
        text = "The response could hold {:,} fields and objects; the limit is {:,}. "
        check_limit(QueryTooCostly, cost.objects, limits.cost, f"{text}Request fewer records or fewer fields.")

    def _prepare(self, document: ValidatedDocument, operation: Operation, context: Context) -> graphql.Executor[Any]:
        """Convert the variables, which graphql-core does as it creates an execution."""
        execution_class: Any = self.schema.execution_context_class
        if self.compiled and not context.is_mutation:
            execution_class = CompiledExecution
        execution: graphql.Executor[Any] | list[graphql.GraphQLError] = execution_class.build(
            self._graphql_schema,
            document.node,
            context_value=context,
            raw_variable_values=dict(operation.variables),
            operation_name=operation.name or None,
            max_coercion_errors=MAX_VARIABLE_ERRORS,
            is_awaitable=cast(Any, optimized_is_awaitable),
            hide_suggestions=not self.suggestions,
        )
        if isinstance(execution, list):
            raise self._rejected(execution, BadUserInput)
        if isinstance(execution, CompiledExecution):
            size = document.size
            execution.use_plan(document.plans.setdefault(operation.name, {}), document.conditions)
            self._add_cached(document.size - size)
        return execution

    def _rejected(self, problems: Sequence[graphql.GraphQLError], kind: type[ShardQLError]) -> _RequestRejected:
        """Return the rejection for errors that graphql-core reported, under the code of `kind`."""
        schema, suggestions = self._graphql_schema, self.suggestions
        return _RequestRejected([format_rejection(one, kind, schema, suggestions=suggestions) for one in problems])

    # --- execution ---------------------------------------------------------------------------------------------

    async def _execute(
        self, execution: graphql.Executor[Any], document: ValidatedDocument, context: Context
    ) -> ExecutionResponse:
        custom = _custom_mutations(execution.operation, document.fragments, self._graphql_schema.mutation_type)
        try:
            async with asyncio.timeout(self.limits.deadline - context.caller.waited_seconds):
                if isinstance(execution, CompiledExecution):
                    result: Any = await execution.execute()
                else:
                    result = execution.execute_operation()
                    if optimized_is_awaitable(result):
                        result = await cast(Awaitable[graphql.ExecutionResult], result)
        except TimeoutError:
            in_doubt = dict.fromkeys([*context.non_idempotent_started, *(field.name.value for field in custom)])
            raise _deadline_error([*in_doubt], self.limits.deadline) from None
        result = cast(graphql.ExecutionResult, result)
        _release(execution, context)
        # Fields fail in the order of their reads, which depends on what is read at once.
        problems = sorted(result.errors or (), key=lambda problem: problem.path or [])
        for problem in problems:
            if isinstance(cause := original_error(problem), Overloaded):
                raise cause  # The operation has written nothing, and a part of its result would be of no use.
        failed_roots = {problem.path[0] for problem in problems if problem.path and len(problem.path) == 1}
        # A custom mutation that failed reports itself whether it is safe to retry.
        retry_safe = not context.non_idempotent_completed and all(
            (field.alias or field.name).value in failed_roots for field in custom
        )
        errors = context.errors.format_field_errors(problems, retry_safe=retry_safe)
        body: dict[str, Any] = {"errors": errors} if errors else {}
        entries = tuple(sorted(context.explain_entries, key=lambda entry: [str(part) for part in entry["path"]]))
        if context.caller.explain:
            body["extensions"] = {"explain": [*entries]}
        return ExecutionResponse(
            {**body, "data": result.data},
            explain_entries=entries,
            row_errors=[error_body(error) for error in context.row_errors],
            path=None if context.is_mutation else "fast" if getattr(execution, "is_fast", False) else "stock",
        )


def _release(execution: graphql.Executor[Any], context: Context) -> None:
    """Break the cycles of references of a complete execution. Its rows are then freed at once, not by a collection."""
    context.dataloaders.release()
    execution.async_helpers = cast(Any, None)


def _scoped(database: Database, caller: Caller) -> Database:
    """Return the database limited to the tenant of the caller."""
    identity = (caller.tenant, caller.principal, caller.subject)
    if identity == (database.tenant, database.principal, database.subject):
        return database
    return database.scoped(tenant=caller.tenant, principal=caller.principal, subject=caller.subject)


def _message_with_location(error: Mapping[str, Any]) -> str:
    position = "".join(f"line {one['line']}, column {one['column']}: " for one in error.get("locations", ())[:1])
    return f"{position}{error['message']}"


def _custom_mutations(
    operation: graphql.OperationDefinitionNode,
    fragments: Mapping[str, graphql.FragmentDefinitionNode],
    mutation_type: graphql.GraphQLObjectType | None,
) -> list[graphql.FieldNode]:
    """Return the fields of an operation that are mutations of the application. They count as not idempotent."""
    if operation.operation is not graphql.OperationType.MUTATION or mutation_type is None:
        return []
    return [
        field
        for field in _fields(operation.selection_set, fragments)
        if field.name.value in mutation_type.fields  # It is not `__typename`.
        and Mark.WRITES not in field_marks(mutation_type.fields[field.name.value])
    ]


def _fields(
    selection_set: graphql.SelectionSetNode, fragments: Mapping[str, graphql.FragmentDefinitionNode]
) -> Iterator[graphql.FieldNode]:
    for selection in selection_set.selections:
        if isinstance(selection, graphql.FieldNode):
            yield selection
        elif isinstance(selection, graphql.InlineFragmentNode):
            yield from _fields(selection.selection_set, fragments)
        elif isinstance(selection, graphql.FragmentSpreadNode):
            yield from _fields(fragments[selection.name.value].selection_set, fragments)


def _deadline_error(in_doubt: Sequence[str], seconds: float) -> ShardQLError:
    """Return the error of an operation that was stopped at its deadline; `in_doubt`: not idempotent mutations."""
    timed_out = f"The operation did not end within {seconds:g} seconds"
    if not in_doubt:
        return DeadlineExceeded(f"{timed_out}. Request less, or try again.")
    were = "was" if len(in_doubt) == 1 else "were"
    return OutcomeUnknown(
        f"{timed_out}, and it is unknown whether {' and '.join(in_doubt)} {were} executed. "
        "Read the current state before you send it again. A mutation with an idempotency key is safe to retry."
    )
