"""Execute GraphQL operations: parse, validate, check limits and cost, run, and format errors for the client."""

from collections import OrderedDict
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, cast

import graphql
import strawberry
from strawberry.execution import optimized_is_awaitable

from graphql_api.database import Database
from graphql_api.errors import (
    BadUserInput,
    DocumentNotFound,
    DocumentRequired,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    Overloaded,
    ParseFailed,
    QueryTooCostly,
    QueryTooDeep,
    QueryTooLong,
    ShardQLError,
    ValidationFailed,
    error_body,
)
from graphql_api.runtime import current_memory, meter_capacity
from graphql_api.schema.error_formatting import ErrorFormatter, format_rejection, original_error
from graphql_api.schema.execution.compiled_execution import CompiledExecution
from graphql_api.schema.execution.compiled_inputs import CompiledOperation
from graphql_api.schema.execution.cost_cache import CostCache
from graphql_api.schema.execution.document_limits import (
    BoundedFieldMergeRule,
    Limits,
    check_document_limits,
    check_limit,
)
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.execution.input_complexity import InputComplexity, too_large
from graphql_api.schema.execution.introspection import NoSubgraphSdlRule
from graphql_api.schema.execution.operation_cost import CostModel
from graphql_api.schema.execution.operation_deadline import custom_mutations, deadline_error, within
from graphql_api.schema.execution.operation_extensions import OperationExtensions, StrawberryExtensions
from graphql_api.schema.execution.request_rejection import FormattedError, RequestRejected
from graphql_api.schema.execution.request_rejection import failure as failed
from graphql_api.schema.execution.request_rejection import refusal as refused
from graphql_api.schema.execution.validated_document import ValidatedDocument, validated_document
from graphql_api.schema.request_context import Caller, Context, ContextGetter, add_attributes, scoped

MAX_CACHED_CHARACTERS = 500_000
"""Total size of the documents that stay parsed, and of their plans: see `ValidatedDocument.size`."""

MAX_TEXT_LENGTH = 100_000
"""Characters of a document."""

MAX_VALIDATION_ERRORS = 20
"""Reported errors in a document. Each compares names with those of the schema, to suggest one."""

MAX_VARIABLE_ERRORS = 10
"""Reported errors in variables. GraphQL repeats the value that was sent in each of them."""


@dataclass(frozen=True, slots=True)
class Run:
    """A valid operation, ready to be executed."""

    document: ValidatedDocument
    execution: graphql.Executor[Any]


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
    federation_sdl: bool = False
    """Clients may read the SDL of a subgraph, although introspection is off."""
    compiled: bool = True
    """Queries are completed by compiled code."""

    def __post_init__(self) -> None:
        self._graphql_schema = self.schema._schema  # noqa: SLF001 - no public API
        rules = [rule for rule in graphql.specified_rules if rule is not graphql.OverlappingFieldsCanBeMergedRule]
        no_introspection = () if self.introspection else (graphql.NoSchemaIntrospectionCustomRule,)
        no_sdl = () if self.introspection or self.federation_sdl else (NoSubgraphSdlRule,)
        self._rules = [*rules, BoundedFieldMergeRule, *no_introspection, *no_sdl]
        self._context_getter: ContextGetter | None = getattr(self.schema, "context_getter", None)
        self._custom_directives = {directive.name for directive in self._graphql_schema.directives}
        self._custom_directives -= {directive.name for directive in graphql.specified_directives}
        self._cost_model = CostModel(self._graphql_schema, self.limits.cost)
        self._cache: OrderedDict[str, ValidatedDocument] = OrderedDict()
        self._cached_characters = 0

    async def run(
        self,
        operation: Operation,
        database: Database,
        caller: Caller,
        request: Any = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> ExecutionResponse:
        """Execute an operation. Never raises, whatever the client sends.

        `request`: the HTTP request, for resolvers. `attributes`: further attributes of the context, instead of those of
        the context getter.
        """
        errors = self.error_formatter(caller)
        try:
            context = await self.new_context(database, caller, request, attributes)
            extensions = self.new_extensions(operation, context)
            return await self._run_extended(operation, context, extensions)
        except RequestRejected as rejected:
            return rejected.response
        except ShardQLError as problem:
            return refused(problem, errors)
        except Exception as problem:  # noqa: BLE001 - of an extension or a context getter of the application
            return failed(problem, errors)

    def error_formatter(self, caller: Caller) -> ErrorFormatter:
        """Return what formats the errors of one request."""
        return ErrorFormatter(caller.correlation_id, self.details, self.suggestions)

    async def new_context(
        self, database: Database, caller: Caller, request: Any, attributes: Mapping[str, Any] | None
    ) -> Context:
        """Return the context of one operation, with attributes of the application."""
        prices = self.read_unit_price, self.write_unit_price
        context = Context(scoped(database, caller), caller, self.error_formatter(caller), request, *prices)
        if attributes is not None:
            context.add(attributes)
        elif self._context_getter is not None:
            await add_attributes(context, self._context_getter, self.limits.deadline - caller.waited_seconds)
        return context

    def new_extensions(self, operation: Operation, context: Context) -> OperationExtensions:
        """Return the extensions of the schema, made for one operation."""
        if not (self.schema.extensions or self.schema.directives):
            return OperationExtensions()
        return StrawberryExtensions(self.schema, replace(operation, query=self._text(operation)), context)

    async def _run_extended(
        self, operation: Operation, context: Context, extensions: OperationExtensions
    ) -> ExecutionResponse:
        """Run the extensions around an operation. They see the result, or why the operation was refused."""
        run: Run | None = None
        refusal: ExecutionResponse | None = None
        async with extensions.operation():
            try:
                run = await self._start(operation, context, extensions)
                with meter_capacity() if context.collects_explain else nullcontext():
                    await self._execute(run, context, extensions)
            except RequestRejected as rejected:
                refusal = rejected.response
            except ShardQLError as problem:
                refusal = refused(problem, context.errors)
            if refusal is not None:
                extensions.reject([*map(FormattedError, refusal.errors)])
        if run is not None and extensions.result is not None and refusal is None:
            response = self.response(run, extensions.result, context)
        else:
            response = cast(ExecutionResponse, refusal)
        added = await extensions.results()
        if added:
            response.body["extensions"] = {**added, **response.body.get("extensions", {})}
        return response

    async def _start(self, operation: Operation, context: Context, extensions: OperationExtensions) -> Run:
        """Parse and validate an operation, check its limits, and convert its variables."""
        operation, document, definition = await self.accept(operation, context, extensions)
        if definition.operation is graphql.OperationType.SUBSCRIPTION:
            raise NotAcceptable(
                "A subscription has many responses: send it over WebSocket with the protocol graphql-transport-ws, or "
                "with accept: text/event-stream."
            )
        if definition.operation is graphql.OperationType.MUTATION:
            context.begin_mutation()
            memory = current_memory()
            if memory is not None:
                memory.may_wait = False
        return Run(document, self.prepare(document, operation, context, extensions))

    async def accept(
        self, operation: Operation, context: Context, extensions: OperationExtensions
    ) -> tuple[Operation, ValidatedDocument, graphql.OperationDefinitionNode]:
        """Parse and validate an operation, and check its limits. Return it as the extensions have changed it."""
        operation = extensions.changed_operation(operation)
        text = self._text(operation)
        async with extensions.parsing():
            parsed = self._parsed(text)
            try:
                extensions.parsed(parsed)
            except graphql.GraphQLError as problem:
                raise self._rejected([problem], ParseFailed) from None
        async with extensions.validation():
            document = self._validated(text, parsed)
        if problems := extensions.refusals(self._graphql_schema, document):
            raise self._rejected(problems, ValidationFailed)
        definition = document.select_operation(operation.name)
        if context.caller.read_only and definition.operation is graphql.OperationType.MUTATION:
            raise MethodNotAllowed("A GET request can only read. Send this mutation by POST.")
        self._check_cost(document, definition, operation.variables)
        return operation, document, definition

    def is_subscription(self, operation: Operation) -> bool:
        """Return whether an operation is a subscription. It may be invalid otherwise."""
        try:
            text = self._text(operation)
            if graphql.OperationType.SUBSCRIPTION.value not in text:
                return False
            definitions = self._parsed(text).definitions
        except (ShardQLError, RequestRejected):
            return False
        operations = [one for one in definitions if isinstance(one, graphql.OperationDefinitionNode)]
        named = [one for one in operations if one.name and one.name.value == operation.name]
        return any(
            one.operation is graphql.OperationType.SUBSCRIPTION for one in (named if operation.name else operations)
        )

    def validation_errors(self, text: str) -> tuple[str, ...]:
        """Return the errors of a document that do not depend on variables. Executes nothing."""
        try:
            self._validated(text, self._parsed(text))
        except RequestRejected as rejected:
            return tuple(map(_message_with_location, rejected.response.errors))
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

    def _parsed(self, text: str) -> graphql.DocumentNode:
        return self._cache[text].node if text in self._cache else self._parse(text)

    def _validated(self, text: str, parsed: graphql.DocumentNode) -> ValidatedDocument:
        if text in self._cache:
            self._cache.move_to_end(text)
            return self._cache[text]
        document = self._validate(parsed)
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
        return validated_document(parsed, self._custom_directives)

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

    def prepare(
        self,
        document: ValidatedDocument,
        operation: Operation,
        context: Context,
        extensions: OperationExtensions,
        event: Any = None,
    ) -> graphql.Executor[Any]:
        """Convert the variables, which graphql-core does as it creates an execution. `event`: of a subscription."""
        execution_class: Any = self.schema.execution_context_class
        middleware = extensions.middleware(document)
        if self.compiled and not context.is_mutation and middleware is None:  # Compiled code calls no `resolve` hooks.
            execution_class = CompiledExecution
            prepared = self._compiled_execution(document, operation, context, event)
            if prepared is not None:
                return prepared
        execution: graphql.Executor[Any] | list[graphql.GraphQLError] = execution_class.build(
            self._graphql_schema,
            document.node,
            root_value=event,
            context_value=context,
            raw_variable_values=dict(operation.variables),
            operation_name=operation.name or None,
            max_coercion_errors=MAX_VARIABLE_ERRORS,
            middleware=middleware,
            is_awaitable=cast(Any, optimized_is_awaitable),
            hide_suggestions=not self.suggestions,
        )
        if isinstance(execution, list):
            raise self._rejected(execution, BadUserInput)
        if isinstance(execution, CompiledExecution):
            self._use_plan(execution, document, operation.name)
        return execution

    def _compiled_execution(
        self, document: ValidatedDocument, operation: Operation, context: Context, event: Any
    ) -> CompiledExecution | None:
        """Return the execution of a query whose variables are converted by compiled code; None if it cannot."""
        name = operation.name
        compiled = document.compiled.get(name)
        if compiled is None:
            selected = document.select_operation(name)
            compiled = document.compiled[name] = CompiledOperation(self._graphql_schema, document.node, selected)
        variables = compiled.variable_values(operation.variables)
        if variables is None:
            return None
        execution = CompiledExecution.of(
            self._graphql_schema, compiled, variables, event, context, hide_suggestions=not self.suggestions
        )
        self._use_plan(execution, document, name)
        return execution

    def _use_plan(self, execution: CompiledExecution, document: ValidatedDocument, name: str | None) -> None:
        plans = document.plans.get(name)
        if plans is None:
            plans = document.plans[name] = {}
        count = len(plans)
        execution.use_plan(plans, document.conditions)
        self._add_cached(document.characters * (len(plans) - count))

    def _rejected(self, problems: Sequence[graphql.GraphQLError], kind: type[ShardQLError]) -> RequestRejected:
        """Return the rejection for errors that graphql-core reported, under the code of `kind`."""
        schema, suggestions = self._graphql_schema, self.suggestions
        return RequestRejected([format_rejection(one, kind, schema, suggestions=suggestions) for one in problems])

    # --- execution ---------------------------------------------------------------------------------------------

    async def _execute(self, run: Run, context: Context, extensions: OperationExtensions) -> None:
        """Execute an operation within its deadline, unless an extension has the result."""
        execution = run.execution
        try:
            async with within(self.limits.deadline, context), extensions.executing():
                if extensions.result is None:
                    extensions.result = await execution_result(execution)
        except TimeoutError:
            custom = [field.name.value for field in self._custom_mutations(run)]
            in_doubt = dict.fromkeys([*context.non_idempotent_started, *custom])
            raise deadline_error([*in_doubt], self.limits.deadline) from None
        release(execution, context)

    def _custom_mutations(self, run: Run) -> list[graphql.FieldNode]:
        return custom_mutations(run.execution.operation, run.document.fragments, self._graphql_schema.mutation_type)

    def response(self, run: Run, result: graphql.ExecutionResult, context: Context) -> ExecutionResponse:
        """Return the response with the result of an execution."""
        # Fields fail in the order of their reads, which depends on what is read at once.
        problems = sorted(result.errors or (), key=lambda problem: problem.path or [])
        for problem in problems:
            if isinstance(cause := original_error(problem), Overloaded):
                raise cause  # The operation has written nothing, and a part of its result would be of no use.
        failed_roots = {problem.path[0] for problem in problems if problem.path and len(problem.path) == 1}
        # A custom mutation that failed reports itself whether it is safe to retry.
        retry_safe = not context.non_idempotent_completed and all(
            (field.alias or field.name).value in failed_roots for field in self._custom_mutations(run)
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
            path=None if context.is_mutation else "fast" if getattr(run.execution, "is_fast", False) else "stock",
        )


async def execution_result(execution: graphql.Executor[Any]) -> graphql.ExecutionResult:
    """Execute an operation that is prepared."""
    if isinstance(execution, CompiledExecution):
        return await execution.execute()
    result: Any = execution.execute_operation()
    if optimized_is_awaitable(result):
        result = await cast(Awaitable[graphql.ExecutionResult], result)
    return cast(graphql.ExecutionResult, result)


def release(execution: graphql.Executor[Any], context: Context) -> None:
    """Break the cycles of references of a complete execution. Its rows are then freed at once, not by a collection."""
    context.dataloaders.release()
    execution.async_helpers = cast(Any, None)


def _message_with_location(error: Mapping[str, Any]) -> str:
    position = "".join(f"line {one['line']}, column {one['column']}: " for one in error.get("locations", ())[:1])
    return f"{position}{error['message']}"
