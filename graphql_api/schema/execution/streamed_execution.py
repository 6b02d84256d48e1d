"""Execution of operations whose transport sends several responses: one for each event of a subscription.

The generator of the application runs in the task that reads the responses, and is asked for an event when the one
before it has been sent. So a slow client slows the generator, and at most one event is kept for it.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import graphql
from graphql.execution import create_source_event_stream

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.runtime import meter_capacity
from graphql_api.schema.error_formatting import ErrorFormatter
from graphql_api.schema.execution.document_executor import DocumentExecutor, Run, execution_result, release
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.execution.operation_deadline import deadline_error, root_fields, within
from graphql_api.schema.execution.operation_extensions import OperationExtensions
from graphql_api.schema.execution.request_rejection import FormattedError, RequestRejected
from graphql_api.schema.execution.request_rejection import failure as failed
from graphql_api.schema.execution.request_rejection import refusal as refused
from graphql_api.schema.execution.validated_document import ValidatedDocument
from graphql_api.schema.request_context import Caller, Context

Admit = Callable[[bool], AbstractAsyncContextManager[float]]
"""Returns the place of one execution, which provides the seconds that it has waited. True: it is that of an event, and
waits until there is a place. False: it may be refused."""
Responses = AsyncGenerator[ExecutionResponse, None]


@asynccontextmanager
async def _always(_: bool) -> AsyncGenerator[float, None]:
    yield 0.0


class StreamingExecutor(Protocol):
    """Executes operations whose transport sends several responses."""

    def is_subscription(self, operation: Operation) -> bool: ...

    def stream(
        self, operation: Operation, database: Database, caller: Caller, request: Any = None, *, admit: Admit
    ) -> Responses: ...


@dataclass(frozen=True, slots=True)
class StreamExecutor:
    """Executes queries, mutations and subscriptions of one schema as streams of responses."""

    executor: DocumentExecutor

    def is_subscription(self, operation: Operation) -> bool:
        """Return whether an operation is a subscription. It may be invalid otherwise."""
        return self.executor.is_subscription(operation)

    async def stream(
        self,
        operation: Operation,
        database: Database,
        caller: Caller,
        request: Any = None,
        attributes: Mapping[str, Any] | None = None,
        *,
        admit: Admit = _always,
    ) -> Responses:
        """Yield the response to a query or mutation, or one for each event of a subscription. Never raises.

        A response without `data` says that the operation was refused. `attributes`: those of the application in the
        context.
        """
        if self.is_subscription(operation):
            events = _Subscription(self.executor, operation, database, caller, request, attributes, admit)
            async with aclosing(events.responses()) as responses:
                async for response in responses:
                    yield response
            return
        try:
            async with admit(False) as waited:
                caller = replace(caller, waited_seconds=waited)
                response = await self.executor.run(operation, database, caller, request, attributes)
        except ShardQLError as problem:
            response = refused(problem, self.executor.error_formatter(caller))
        yield response


@dataclass(frozen=True, slots=True)
class _Subscription:
    executor: DocumentExecutor
    operation: Operation
    database: Database
    caller: Caller
    request: Any
    attributes: Mapping[str, Any] | None
    admit: Admit

    async def responses(self) -> Responses:
        """Yield the responses. Extensions run around all of them."""
        errors = self.executor.error_formatter(self.caller)
        try:
            context = await self._context(self.caller, self.attributes)
            context.begin_stream()
            extensions = self.executor.new_extensions(self.operation, context)
            async with extensions.operation(), aclosing(self._started(context, extensions)) as responses:
                async for response in responses:
                    yield response
        except RequestRejected as rejected:
            yield rejected.response
        except ShardQLError as problem:
            yield refused(problem, errors)
        except Exception as problem:  # noqa: BLE001 - of an extension or a context getter of the application
            yield failed(problem, errors)

    async def _started(self, context: Context, extensions: OperationExtensions) -> Responses:
        try:
            async with self.admit(False) as waited:
                context.count_waiting(waited)
                opened = await self._open(context, extensions)
        except RequestRejected as rejected:
            opened = rejected.response
        except ShardQLError as refusal:
            opened = refused(refusal, context.errors)
        if isinstance(opened, ExecutionResponse):
            extensions.reject([*map(FormattedError, opened.errors)])
            opened.body.update(await _added(extensions))
            yield opened
            return
        source = aiter(opened.source)
        try:
            async for event, failure in _events(source):
                async with self.admit(True) as waited:
                    response = await self._event_response(opened, event, failure, waited, extensions)
                yield response
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    async def _open(self, context: Context, extensions: OperationExtensions) -> "_Opened | ExecutionResponse":
        """Call the resolver of the subscription, which returns its events, or return why it was refused."""
        operation, document, definition = await self.executor.accept(self.operation, context, extensions)
        if definition.operation is not graphql.OperationType.SUBSCRIPTION:  # An extension has changed the operation.
            return await self.executor.run(operation, self.database, self.caller, self.request, self.attributes)
        execution = self.executor.prepare(document, operation, context, extensions)
        try:
            async with within(self.executor.limits.deadline, context), extensions.executing():
                source: Any = create_source_event_stream(execution)
                source = await source if execution.is_awaitable(source) else source
        except TimeoutError:
            raise deadline_error([], self.executor.limits.deadline) from None
        if isinstance(source, graphql.ExecutionResult):
            errors = context.errors.format_field_errors(source.errors or (), retry_safe=True)
            return ExecutionResponse({"errors": errors})
        return _Opened(document, operation, source, context)

    async def _event_response(
        self,
        opened: "_Opened",
        event: Any,
        failure: Exception | None,
        waited: float,
        extensions: OperationExtensions,
    ) -> ExecutionResponse:
        """Execute the operation for one event, with a context and dataloaders of its own."""
        errors = opened.context.errors
        try:
            if failure is not None:
                response = _failed_source(failure, opened, errors)
            else:
                context = await self._context(replace(self.caller, waited_seconds=waited), None)
                response = await self._execute(opened, event, context, extensions)
            response.body.update(await _added(extensions, response))
        except RequestRejected as rejected:
            response = rejected.response
        except ShardQLError as refusal:
            response = refused(refusal, errors)
        except Exception as problem:  # noqa: BLE001 - of an extension or a context getter of the application
            response = failed(problem, errors)
        response.body.setdefault("data", None)  # Without data, the client would take it for a refused subscription.
        return response

    async def _execute(
        self, opened: "_Opened", event: Any, context: Context, extensions: OperationExtensions
    ) -> ExecutionResponse:
        executor = self.executor
        run = Run(opened.document, executor.prepare(opened.document, opened.operation, context, extensions, event))
        try:
            with meter_capacity() if context.collects_explain else nullcontext():
                async with within(executor.limits.deadline, context):
                    result = await execution_result(run.execution)
        except TimeoutError:
            raise deadline_error([], executor.limits.deadline) from None
        release(run.execution, context)
        async with extensions.streaming(result):
            return executor.response(run, result, context)

    async def _context(self, caller: Caller, attributes: Mapping[str, Any] | None) -> Context:
        """Return a context. Events have new attributes of the context getter, and otherwise those of the stream."""
        context = await self.executor.new_context(self.database, caller, self.request, attributes)
        if attributes is None and self.attributes is not None:
            context.add({**self.attributes, **context.free_attributes})
        return context


@dataclass(frozen=True, slots=True)
class _Opened:
    document: ValidatedDocument
    operation: Operation
    source: AsyncIterable[Any]
    context: Context

    @property
    def fields(self) -> Iterator[graphql.FieldNode]:
        """The field of the subscription, which is the only one."""
        definition = self.document.select_operation(self.operation.name)
        return root_fields(definition.selection_set, self.document.fragments)


async def _events(source: Any) -> AsyncGenerator[tuple[Any, Exception | None], None]:
    """Yield the events of the application, and finally the exception by which they ended, if any."""
    while True:
        try:
            event = await anext(source)
        except StopAsyncIteration:
            return
        except Exception as problem:  # noqa: BLE001 - it is reported to the client
            yield None, problem
            return
        yield event, None


def _failed_source(problem: Exception, opened: _Opened, errors: ErrorFormatter) -> ExecutionResponse:
    """Return the last response of a subscription whose generator failed."""
    field = next(iter(opened.fields))
    path = [(field.alias or field.name).value]
    located = graphql.GraphQLError(str(problem), [field], path=path, original_error=problem)
    formatted = errors.format_field_errors([located], retry_safe=True)
    return ExecutionResponse({"errors": formatted, "data": None})


async def _added(extensions: OperationExtensions, response: ExecutionResponse | None = None) -> dict[str, Any]:
    """Return the member of the response that extensions have added to."""
    added = await extensions.results()
    present = {} if response is None else response.body.get("extensions", {})
    return {"extensions": {**added, **present}} if added else {}
