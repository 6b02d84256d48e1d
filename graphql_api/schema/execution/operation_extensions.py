"""Strawberry's schema extensions in one operation: the hooks around its parts, and what they change."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import graphql
import strawberry
from graphql.execution.middleware import MiddlewareManager
from strawberry.extensions import SchemaExtension
from strawberry.extensions.directives import DirectivesExtension
from strawberry.extensions.runner import SchemaExtensionsRunner
from strawberry.types import ExecutionContext
from strawberry.types.graphql import OperationType

from graphql_api.schema.execution.graphql_operation import Operation
from graphql_api.schema.execution.validated_document import ValidatedDocument
from graphql_api.schema.request_context import Context

_Hook = AbstractAsyncContextManager[Any]
_NO_HOOK = nullcontext()


class OperationExtensions:
    """The operation of a schema without extensions."""

    def __init__(self) -> None:
        self._result: graphql.ExecutionResult | None = None

    @property
    def result(self) -> graphql.ExecutionResult | None:
        """The result of the execution. An extension may set it before, which replaces the execution."""
        return self._result

    @result.setter
    def result(self, result: graphql.ExecutionResult | None) -> None:
        self._result = result

    def operation(self) -> _Hook:
        return _NO_HOOK

    def parsing(self) -> _Hook:
        return _NO_HOOK

    def validation(self) -> _Hook:
        return _NO_HOOK

    def executing(self) -> _Hook:
        return _NO_HOOK

    def streaming(self, result: graphql.ExecutionResult) -> _Hook:  # noqa: ARG002
        """Return the hooks around one response of a subscription, which may change its result."""
        return _NO_HOOK

    def changed_operation(self, operation: Operation) -> Operation:
        """Return the operation as the extensions have changed it before parsing."""
        return operation

    def parsed(self, document: graphql.DocumentNode) -> None:
        """Show the parsed document. Raise the `GraphQLError` of limits that extensions have set for the parser."""

    def refusals(self, schema: graphql.GraphQLSchema, document: ValidatedDocument) -> Sequence[graphql.GraphQLError]:  # noqa: ARG002
        """Return the errors that extensions have set, and those of validation rules that they have added."""
        return ()

    def middleware(self, document: ValidatedDocument) -> MiddlewareManager | None:  # noqa: ARG002
        """Return the `resolve` hooks, and the operation directives of the document; None if there are none."""
        return None

    def reject(self, errors: Sequence[graphql.GraphQLError]) -> None:
        """Show the extensions why the operation was refused."""

    async def results(self) -> Mapping[str, Any]:
        """Return what the extensions add to the response."""
        return {}


class StrawberryExtensions(OperationExtensions):
    """The extensions of a schema, made for one operation."""

    def __init__(self, schema: strawberry.Schema, operation: Operation, context: Context) -> None:
        super().__init__()
        self._all = schema.get_extensions()
        self._context = ExecutionContext(
            query=operation.query,
            schema=schema,
            allowed_operations=[*OperationType],
            context=context,
            variables=dict(operation.variables),
            provided_operation_name=operation.name,
            operation_extensions=dict(operation.extensions),
        )
        self._rules = self._context.validation_rules
        for extension in self._all:
            extension.execution_context = self._context
        own = [one for one in self._all if not isinstance(one, DirectivesExtension)]
        self._runner: SchemaExtensionsRunner = schema.create_extensions_runner(self._context, own)

    @property
    def result(self) -> graphql.ExecutionResult | None:
        return cast(graphql.ExecutionResult | None, self._context.result)

    @result.setter
    def result(self, result: graphql.ExecutionResult | None) -> None:
        self._context.result = result
        if result is not None and result.errors:
            self._context.pre_execution_errors = result.errors

    def operation(self) -> _Hook:
        return self._runner.operation()

    def parsing(self) -> _Hook:
        return self._runner.parsing()

    def validation(self) -> _Hook:
        return self._runner.validation()

    def executing(self) -> _Hook:
        return self._runner.executing()

    def streaming(self, result: graphql.ExecutionResult) -> _Hook:
        self._context.result = result
        return self._runner.on_stream_result(cast(Any, result))

    def changed_operation(self, operation: Operation) -> Operation:
        return replace(operation, query=self._context.query, variables=self._context.variables or {})

    def parsed(self, document: graphql.DocumentNode) -> None:
        self._context.graphql_document = document
        if self._context.parse_options:
            graphql.parse(self._context.query or "", **self._context.parse_options)

    def refusals(self, schema: graphql.GraphQLSchema, document: ValidatedDocument) -> Sequence[graphql.GraphQLError]:
        added = [rule for rule in self._context.validation_rules if rule not in self._rules]
        found = graphql.validate(schema, document.node, added) if added else []
        return [*(self._context.pre_execution_errors or ()), *found]

    def middleware(self, document: ValidatedDocument) -> MiddlewareManager | None:
        resolving = [one for one in self._all if _has_work(one, document)]
        return MiddlewareManager(*resolving) if resolving else None

    def reject(self, errors: Sequence[graphql.GraphQLError]) -> None:
        self._context.pre_execution_errors = [*errors]

    async def results(self) -> Mapping[str, Any]:
        return await self._runner.get_extensions_results(self._context)


def _has_work(extension: SchemaExtension, document: ValidatedDocument) -> bool:
    """Return whether an extension has a `resolve` hook that can change this operation."""
    if isinstance(extension, DirectivesExtension):
        return document.has_custom_directives
    return extension._implements_resolve()  # noqa: SLF001 - Strawberry itself asks so.
