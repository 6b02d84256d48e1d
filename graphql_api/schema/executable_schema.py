"""The Strawberry schema of a graph, which executes operations as the server does."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from typing import Any

import strawberry
from strawberry.types import ExecutionResult
from strawberry.types.execution import PreExecutionError
from strawberry.types.graphql import OperationType

from graphql_api.errors import InvalidValue
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.execution.request_rejection import FormattedError
from graphql_api.schema.execution.streamed_execution import StreamExecutor
from graphql_api.schema.request_context import Caller, Context, ContextGetter


class ExecutableSchema(strawberry.Schema):
    """A schema whose `execute` has the rules, limits and error codes of the server. Strawberry's views call it."""

    context_getter: ContextGetter | None = None

    @cached_property
    def executor(self) -> DocumentExecutor:
        """Executes the operations of this schema. Applications may set another one, with other limits."""
        return DocumentExecutor(self, Limits(), details=False)

    async def execute(
        self,
        query: str | None,
        variable_values: dict[str, Any] | None = None,
        context_value: Any | None = None,
        root_value: Any | None = None,
        operation_name: str | None = None,
        allowed_operation_types: Iterable[OperationType] | None = None,
        operation_extensions: dict[str, Any] | None = None,
    ) -> ExecutionResult:
        """Execute an operation. `context_value`: the result of `graph.context`."""
        context, caller = self._context_and_caller(context_value, root_value, allowed_operation_types)
        operation = Operation(query, operation_name, variable_values or {}, operation_extensions or {})
        attributes = context.free_attributes
        response = await self.executor.run(operation, context.database, caller, context.request, attributes)
        errors: Any = [FormattedError(body) for body in response.errors]
        return ExecutionResult(response.body.get("data"), errors or None, response.body.get("extensions"))

    def execute_sync(self, query: str | None, *arguments: Any, **more: Any) -> ExecutionResult:
        """Execute introspection. Operations on records need `execute`."""
        if any(isinstance(one, Context) for one in [*arguments, *more.values()]):
            raise InvalidValue(
                "Records are read asynchronously: use `await schema.execute(…)` and an asynchronous view."
            )
        return super().execute_sync(query, *arguments, **more)

    async def stream(  # type: ignore[override]
        self,
        query: str | None,
        variable_values: dict[str, Any] | None = None,
        context_value: Any | None = None,
        root_value: Any | None = None,
        operation_name: str | None = None,
        allowed_operation_types: Iterable[OperationType] | None = None,
        operation_extensions: dict[str, Any] | None = None,
    ) -> AsyncGenerator[ExecutionResult, None]:
        """Execute an operation of a streaming transport: a subscription has a result for each of its events."""
        context, caller = self._context_and_caller(context_value, root_value, allowed_operation_types)
        operation = Operation(query, operation_name, variable_values or {}, operation_extensions or {})
        return self._results(operation, context, caller)

    async def _results(
        self, operation: Operation, context: Context, caller: Caller
    ) -> AsyncGenerator[ExecutionResult, None]:
        streams, attributes = StreamExecutor(self.executor), context.free_attributes
        stream = streams.stream(operation, context.database, caller, context.request, attributes)
        async with aclosing(stream) as responses:
            async for response in responses:
                yield strawberry_result(response)

    async def subscribe(self, query: str | None, **options: Any) -> AsyncGenerator[Any, None]:  # type: ignore[override]
        """Do the same as `stream`."""
        return await self.stream(query, **options)

    def _context_and_caller(
        self, context_value: Any, root_value: Any, allowed: Iterable[OperationType] | None
    ) -> tuple[Context, Caller]:
        """Return the context of a request, and its caller, who can only read if mutations are not allowed."""
        context = _checked(context_value)
        if root_value is not None:
            raise InvalidValue("The fields of the root have no parent: leave root_value out.", argument="root_value")
        read_only = allowed is not None and OperationType.MUTATION not in allowed
        return context, replace(context.caller, read_only=True) if read_only else context.caller


def strawberry_result(response: ExecutionResponse) -> ExecutionResult:
    """Return a response as Strawberry's views and protocols expect it."""
    kind = ExecutionResult if response.executed else PreExecutionError
    errors: Any = [FormattedError(body) for body in response.errors]
    return kind(response.body.get("data"), errors or None, response.body.get("extensions"))


def _checked(context: Any) -> Context:
    if not isinstance(context, Context):
        raise InvalidValue(
            "The schema needs the context of a request: pass `context_value=await graph.context(database, caller)`, "
            "or return it from `get_context` of the view.",
            argument="context_value",
        )
    return context
