"""Execution of one field for all records of a page: the resolver is called once, and its results are completed."""

from asyncio import gather
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import graphql
from graphql.execution.values import get_argument_values
from graphql.pyutils import gather_with_cancel

from graphql_api.schema.execution.column_completion import CompletedColumn
from graphql_api.schema.execution.resolved_fields import CompletedObject, FieldColumn
from graphql_api.schema.execution.value_completion import field_name
from graphql_api.schema.types.generated_fields import COLUMN_RESOLVER


class ColumnExecution:
    """Resolves and completes a column. The errors of each record are those of graphql-core, at its own path."""

    def __init__(self, execution: Any, column: FieldColumn) -> None:
        details = column.details
        definition = execution.schema.get_field(column.parent_type, field_name(details))
        assert definition is not None, "the document is valid"
        self._execution = execution
        self._column = column
        self._details = details
        self._definition = definition
        nodes = [one.node for one in details]
        self._info = execution.build_resolve_info(definition, nodes, column.parent_type, column.path_of(0))

    async def complete(self) -> None:
        """Set the value of the field in the response object of each record."""
        try:
            resolve = self._definition.extensions[COLUMN_RESOLVER]
            results = await resolve(self._column.parents, self._info, self._arguments())
        except Exception:  # noqa: BLE001 - graphql-core reports it for each record
            await self._execute_each()
            return
        completed = self._complete_together(results)
        if completed is not None:
            await self._resolve_below(completed)
            return
        completion = self._execution.completion_of(results, self._definition.type, self._details)
        pending = []
        for at, result in enumerate(results):
            waiting = self._complete_one(at, result, completion)
            if waiting is not None:
                pending.append(waiting)
        if pending:
            await complete_all(pending)

    def _arguments(self) -> Mapping[str, Any]:
        execution, first, arguments = self._execution, self._details[0], self._definition.args.values()
        if not first.node.arguments and not any(map(_has_value_by_itself, arguments)):
            return {}
        return get_argument_values(
            self._definition,
            first.node,
            execution.variable_values,
            first.fragment_variable_values,
            execution.hide_suggestions,
        )

    # --- all records at once -----------------------------------------------------------------------------------

    def _complete_together(self, results: Sequence[Any]) -> CompletedColumn | None:
        """Complete all results at once; None if each must be completed alone."""
        with suppress(Exception):  # What is unexpected is completed one by one.
            completed: CompletedColumn | None = self._execution.complete_column(
                results, self._definition.type, self._column
            )
            return completed
        return None

    async def _resolve_below(self, completed: CompletedColumn) -> None:
        """Set all values, and execute the fields with resolvers below them. These are nullable, and raise nothing."""
        objects, name = self._column.objects, self._column.response_name
        for at, value in zip(completed.positions, completed.values, strict=True):
            objects[at][name] = value
        if completed.resolved:
            below = self._execution.resolve_completed(CompletedObject({}, [*completed.resolved]))
            if self._execution.is_awaitable(below):
                await below

    # --- one by one --------------------------------------------------------------------------------------------

    def _complete_one(self, at: int, result: Any, completion: Any) -> Awaitable[None] | None:
        """Complete the result of one record. Return an awaitable if it has fields that must be awaited."""
        execution, kind = self._execution, self._definition.type
        if result is None and not graphql.is_non_null_type(kind):
            return None
        path = self._column.path_of(at)
        if isinstance(result, Exception):
            execution.handle_field_error(result, kind, self._details, path)
            return None
        completed = None
        if completion is not None and result is not None:
            with suppress(Exception):  # graphql-core reports what is unexpected.
                completed = execution.complete_compiled(completion, result, path)
        try:
            if completed is None:
                value = execution.complete_value(kind, self._details, self._info, path, result, None)
            else:
                value = execution.resolve_completed(completed)
        except Exception as problem:  # noqa: BLE001 - it becomes an error of the response
            execution.handle_field_error(problem, kind, self._details, path)
            return None
        if execution.is_awaitable(value):
            return self._complete_later(at, value)
        self._set(at, value)
        return None

    def _set(self, at: int, value: Any) -> None:
        self._column.objects[at][self._column.response_name] = value

    async def _complete_later(self, at: int, value: Awaitable[Any]) -> None:
        try:
            self._set(at, await value)
        except Exception as problem:  # noqa: BLE001 - it becomes an error of the response
            path = self._column.path_of(at)
            self._execution.handle_field_error(problem, self._definition.type, self._details, path)

    async def _execute_each(self) -> None:
        execution = self._execution
        fields = [*map(self._column.field, range(len(self._column.objects)))]
        values: Sequence[Any] = [
            execution.execute_field(field.parent_type, field.parent, field.details, field.path, None)
            for field in fields
        ]
        pending = [value for value in values if execution.is_awaitable(value)]
        found = iter(await gather_with_cancel(*pending))
        for field, value in zip(fields, values, strict=True):
            field.set(next(found) if execution.is_awaitable(value) else value)


def _has_value_by_itself(argument: graphql.GraphQLArgument) -> bool:
    """Return whether an argument that a document does not provide has a value, or is an error."""
    return argument.default_value is not graphql.Undefined or graphql.is_required_argument(argument)


async def complete_all(parts: Sequence[Awaitable[Any]]) -> None:
    """Await all parts, and then raise the first error. A part that is cancelled may not have started its resolvers."""
    for outcome in await gather(*parts, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
