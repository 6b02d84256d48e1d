"""Execution of queries whose objects are completed by compiled code, and otherwise by graphql-core."""

from collections.abc import Awaitable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import graphql
from graphql.execution.collect_fields import CollectedFields, FieldDetailsList, GroupedFieldSet, collect_fields
from graphql.execution.values import VariableValues
from graphql.pyutils import Path, gather_with_cancel
from strawberry.execution import optimized_is_awaitable
from strawberry.schema.schema import StrawberryGraphQLCoreExecutionContext

from graphql_api.model import Entity
from graphql_api.query.execution import Count, StoredResults
from graphql_api.schema.execution.column_completion import CompletedColumn, complete_pages, complete_stored_records
from graphql_api.schema.execution.column_execution import ColumnExecution, complete_all
from graphql_api.schema.execution.compiled_inputs import CompiledField, CompiledOperation, compile_field
from graphql_api.schema.execution.page_completion import PageCompletion, compile_page, complete_record
from graphql_api.schema.execution.record_completion import RecordCompletion
from graphql_api.schema.execution.resolved_fields import (
    CompletedObject,
    FieldColumn,
    RecordFields,
    ResolvedField,
    ResolvedFields,
    ResponseObject,
)
from graphql_api.schema.execution.value_completion import Completion, UnexpectedValue, compile_value, field_name
from graphql_api.schema.types.connection_types import Connection, TotalCount
from graphql_api.schema.types.generated_fields import COLUMN_RESOLVER, DIRECT_RESOLVER
from graphql_api.schema.types.object_types import record_model

MAX_PLANS = 16
"""Plans of one operation, one for each combination of the values of its conditions."""

_PLAIN_VALUES = (Count, TotalCount)
"""Classes of objects without resolvers that fields of pages return"""
_Completion = PageCompletion | RecordCompletion | Completion | None


@dataclass(eq=False, slots=True)
class OperationPlan:
    """What is known of a query before its execution, for one combination of the values of its conditions.

    Lists of fields are identified by their ids. They live as long as the plan.
    """

    root_type: graphql.GraphQLObjectType
    root_fields: GroupedFieldSet
    subfields: dict[tuple[graphql.GraphQLObjectType, int], CollectedFields] = field(default_factory=dict)
    """the fields that are selected of objects of a type"""
    fields: dict[tuple[graphql.GraphQLObjectType, int], CompiledField | None] = field(default_factory=dict)
    """fields with generated resolvers; None if graphql-core executes them"""
    completions: dict[tuple[type, graphql.GraphQLObjectType, int], _Completion] = field(default_factory=dict)
    """by class of the value; None if graphql-core completes it"""


def condition_variables(document: graphql.DocumentNode) -> tuple[str, ...]:
    """Return the variables that decide which fields of a document are selected."""
    collector = _ConditionCollector()
    graphql.visit(document, collector)
    return tuple(collector.names)


class _ConditionCollector(graphql.Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def enter_directive(self, node: graphql.DirectiveNode, *_: Any) -> None:
        for argument in node.arguments or () if node.name.value in ("skip", "include") else ():
            if isinstance(argument.value, graphql.VariableNode):
                self.names[argument.value.name.value] = None


class CompiledExecution(graphql.Executor[Any]):
    """The execution of one query. It completes pages and records by compiled code.

    A value that compiled code does not expect is completed by graphql-core, from the same result of its resolver:
    nothing is read again, and errors and their paths are those of graphql-core.
    """

    build_resolve_info = StrawberryGraphQLCoreExecutionContext.build_resolve_info
    """Resolvers get the same object as in Strawberry's execution, which also supports `@defer`."""
    operation_extensions = None
    plan: OperationPlan | None = None
    """None: graphql-core completes everything"""
    is_fast = True
    """Compiled code has completed all objects."""

    @classmethod
    def of(
        cls,
        schema: graphql.GraphQLSchema,
        compiled: CompiledOperation,
        variables: VariableValues,
        root_value: Any,
        context: Any,
        *,
        hide_suggestions: bool,
    ) -> "CompiledExecution":
        """Return the execution of a compiled operation, as `build` does."""
        return cls(
            schema,
            compiled.fragment_definitions,
            compiled.fragments,
            root_value,
            context,
            compiled.operation,
            variables,
            graphql.default_field_resolver,
            graphql.default_type_resolver,
            graphql.default_field_resolver,
            is_awaitable=cast(Any, optimized_is_awaitable),
            hide_suggestions=hide_suggestions,
        )

    def use_plan(self, plans: dict[Hashable, OperationPlan | None], conditions: Sequence[str]) -> None:
        """Use the plan for the values of the conditions, or make it. `plans`: those of the operation."""
        values = self.variable_values.coerced
        key = tuple(map(values.get, conditions))
        if key not in plans:
            if len(plans) >= MAX_PLANS:
                plans.clear()
            plans[key] = self._make_plan()
        self.plan = plans[key]

    def _make_plan(self) -> OperationPlan | None:
        root_type = self.schema.get_root_type(self.operation.operation)
        if root_type is None:
            return None
        try:
            fields = collect_fields(self.schema, self.fragments, self.variable_values, root_type, self.operation)
        except (graphql.GraphQLError, RecursionError):
            return None
        return None if fields.new_defer_usages else OperationPlan(root_type, fields.grouped_field_set)

    async def execute(self) -> graphql.ExecutionResult:
        """Execute the operation."""
        if self.plan is None:
            self.is_fast = False
            result: Any = self.execute_operation()
            return cast(graphql.ExecutionResult, await result if self.is_awaitable(result) else result)
        return await self._execute_plan(self.plan)

    async def _execute_plan(self, plan: OperationPlan) -> graphql.ExecutionResult:
        data: dict[str, Any] | None
        try:
            fields: Any = self.execute_fields(plan.root_type, self.root_value, None, plan.root_fields, None)
            data = await fields if self.is_awaitable(fields) else fields
        except graphql.GraphQLError as error:
            self.collected_errors.add(error, None)
            data = None
        return cast(graphql.ExecutionResult, self.build_response(data))

    def execute_field(
        self, parent_type: graphql.GraphQLObjectType, source: Any, details: FieldDetailsList, path: Path, *rest: Any
    ) -> Any:
        """Execute a field. The arguments of one with a generated resolver are converted by compiled code."""
        field = None if self.plan is None else self._compiled_field(self.plan, parent_type, details)
        arguments = None if field is None else field.arguments(self.variable_values.coerced)
        if field is None or arguments is None:
            return super().execute_field(parent_type, source, details, path, *rest)
        execution: Any = self  # The method is that of Strawberry's class.
        info = execution.build_resolve_info(field.definition, field.nodes, parent_type, path)
        result = field.resolve(source, info, **arguments)
        return self.complete_awaitable_value(field.definition.type, details, info, path, result, *rest)

    async def complete_awaitable_value(
        self, return_type: Any, details: FieldDetailsList, info: Any, path: Path, result: Any, *rest: Any
    ) -> Any:
        """Complete an awaitable value, as graphql-core does for an operation without an abort signal."""
        try:
            completed = self.complete_value(return_type, details, info, path, await result, *rest)
            return await completed if self.is_awaitable(completed) else completed
        except Exception as problem:  # noqa: BLE001 - located in the response
            self.handle_field_error(problem, return_type, details, path)
            return None

    def _compiled_field(
        self, plan: OperationPlan, parent_type: graphql.GraphQLObjectType, details: FieldDetailsList
    ) -> CompiledField | None:
        known, key = plan.fields, (parent_type, id(details))
        if key not in known:
            definition = self.schema.get_field(parent_type, field_name(details))
            known[key] = None
            if definition is not None and definition.resolve is not None:
                is_direct = definition.extensions.get(DIRECT_RESOLVER) is definition.resolve
                known[key] = compile_field(definition, definition.resolve, details) if is_direct else None
        return known[key]

    def collect_subfields(self, return_type: graphql.GraphQLObjectType, details: FieldDetailsList) -> CollectedFields:
        if self.plan is None:
            return super().collect_subfields(return_type, details)
        known, key = self.plan.subfields, (return_type, id(details))
        if key not in known:
            known[key] = super().collect_subfields(return_type, details)
        return known[key]

    def complete_object_value(
        self,
        return_type: graphql.GraphQLObjectType,
        details: FieldDetailsList,
        info: Any,
        path: Path,
        result: Any,
        *rest: Any,
    ) -> Any:
        completed = None
        if self.plan is not None:
            with suppress(Exception):  # graphql-core reports what is unexpected.
                completion = self._completion(self.plan, type(result), return_type, details)
                completed = None if completion is None else self.complete_compiled(completion, result, path)
        if completed is None:
            self.is_fast = False
            return super().complete_object_value(return_type, details, info, path, result, *rest)
        return self.resolve_completed(completed)

    def _completion(
        self, plan: OperationPlan, kind: type, return_type: graphql.GraphQLObjectType, details: FieldDetailsList
    ) -> _Completion:
        known, key = plan.completions, (kind, return_type, id(details))
        if key not in known:
            known[key] = self._compile(kind, return_type, details)
        return known[key]

    def _compile(self, kind: type, return_type: graphql.GraphQLObjectType, details: FieldDetailsList) -> _Completion:
        if kind is Connection:
            return compile_page(self.schema, return_type, details, self._fields_of)
        if kind in _PLAIN_VALUES:
            return compile_value(self.schema, return_type, details, self._fields_of)
        if issubclass(kind, Entity) and kind is record_model(return_type):
            return RecordCompletion(self.schema, return_type, details, self._fields_of)
        return None

    def _fields_of(self, kind: graphql.GraphQLObjectType, details: FieldDetailsList) -> GroupedFieldSet:
        collected = self.collect_subfields(kind, details)
        if collected.new_defer_usages:
            raise UnexpectedValue("@defer")
        return collected.grouped_field_set

    def complete_compiled(
        self, completion: PageCompletion | RecordCompletion | Completion, result: Any, path: Path
    ) -> CompletedObject:
        """Complete an object by compiled code. Raise any error if a value is unexpected."""
        seal = self.context_value.database.seal_key
        if isinstance(completion, PageCompletion):
            return completion.complete(result, path, seal)
        if isinstance(completion, RecordCompletion):
            return complete_record(completion, result, path, seal)
        return CompletedObject(completion(result), [])

    def resolve_completed(self, completed: CompletedObject) -> Any:
        """Execute the fields with resolvers. Return the response, or an awaitable if a resolver returned one."""
        if not completed.resolved:
            return completed.response
        started: list[Awaitable[Any]] = []
        columns: dict[int, FieldColumn] | None = {} if self.context_value.dataloaders.serves_columns else None
        resolved = self._without_columns(completed.resolved, columns)
        try:
            waiting = self._execute_resolved(resolved, started)
        except Exception:
            self.settle_in_background(started)
            raise
        if columns:
            return self._complete_with_columns(completed.response, waiting, columns.values())
        return completed.response if waiting is None else _complete_later(completed.response, waiting)

    # --- fields of several records at once -----------------------------------------------------------------------

    def _without_columns(self, resolved: ResolvedFields, columns: dict[int, FieldColumn] | None) -> ResolvedFields:
        """Move the fields that are resolved for several records at once to `columns`. Return the others.

        They are returned record by record. `columns`: None if each field must be resolved alone.
        """
        remaining: ResolvedFields = []
        for one in resolved:
            if isinstance(one, ResolvedField):
                column = self._column_of(columns, one.response_name, one.details, one.parent_type)
                if column is None:
                    remaining.append(one)
                else:
                    column.add_one(one)
                continue
            below = (
                self._single_fields(one, columns)
                if isinstance(one, RecordFields)
                else self._without_columns(one, columns)
            )
            if below:
                remaining.append(below)
        return remaining

    def _single_fields(self, fields: RecordFields, columns: dict[int, FieldColumn] | None) -> ResolvedFields:
        """Move fields to `columns`. Return the others, by record."""
        single: dict[str, FieldDetailsList] = {}
        for name, details in fields.fields.items():
            column = self._column_of(columns, name, details, fields.kind)
            if column is None:
                single[name] = details
            else:
                column.add(fields)
        return fields._replace(fields=single).groups() if single else []

    def _column_of(
        self,
        columns: dict[int, FieldColumn] | None,
        response_name: str,
        details: FieldDetailsList,
        parent_type: graphql.GraphQLObjectType,
    ) -> FieldColumn | None:
        """Return the column of a field; None if it is resolved record by record."""
        if columns is None:
            return None
        column = columns.get(id(details))
        if column is None:
            definition = self.schema.get_field(parent_type, field_name(details))
            if definition is None or definition.extensions.get(COLUMN_RESOLVER) is None:
                return None
            column = columns[id(details)] = FieldColumn(response_name, details, parent_type)
        return column

    def completion_of(self, results: Iterable[Any], kind: Any, details: FieldDetailsList) -> _Completion:
        """Return the completion of all results of a column; None if they need more than one, or graphql-core."""
        bare = graphql.get_nullable_type(kind)
        classes = {type(result) for result in results if result is not None and not isinstance(result, BaseException)}
        if self.plan is None or len(classes) != 1 or not graphql.is_object_type(bare):
            return None
        return self._completion(self.plan, classes.pop(), bare, details)

    def complete_column(self, results: Sequence[Any], kind: Any, column: FieldColumn) -> CompletedColumn | None:
        """Complete all results of a column at once; None if each must be completed alone. Raise any error likewise."""
        seal = self.context_value.database.seal_key
        if self.plan is None or not graphql.is_object_type(kind):
            return None
        if isinstance(results, StoredResults):
            completion = self._completion(self.plan, results.entity.model, kind, column.details)
            if isinstance(completion, RecordCompletion):
                return complete_stored_records(completion, results, column, seal)
        elif {*map(type, results)} == {Connection}:
            completion = self._completion(self.plan, Connection, kind, column.details)
            if isinstance(completion, PageCompletion):
                return complete_pages(completion, results, column, seal)
        return None

    async def _complete_with_columns(
        self, response: ResponseObject, waiting: "_WaitingField | _WaitingGroup | None", columns: Iterable[FieldColumn]
    ) -> ResponseObject:
        parts: list[Awaitable[Any]] = [ColumnExecution(self, column).complete() for column in columns]
        if waiting is not None:
            parts.append(_complete_later(response, waiting))
        if len(parts) == 1:
            await parts[0]
        else:
            await complete_all(parts)
        return response

    def _execute_resolved(
        self, resolved: ResolvedField | RecordFields | ResolvedFields, started: list[Awaitable[Any]]
    ) -> "_WaitingField | _WaitingGroup | None":
        """Execute fields. Return what must be awaited, and append each awaitable of a resolver to `started`."""
        if isinstance(resolved, RecordFields):
            resolved = resolved.groups()
        if isinstance(resolved, ResolvedField):
            value: Any = self.execute_field(
                resolved.parent_type, resolved.parent, resolved.details, resolved.path, None
            )
            if not self.is_awaitable(value):
                resolved.set(value)
                return None
            started.append(value)
            return _WaitingField(resolved, value)
        waiting = [one for each in resolved if (one := self._execute_resolved(each, started)) is not None]
        return waiting if len(waiting) > 1 else waiting[0] if waiting else None


class _WaitingField(NamedTuple):
    """A field whose value must be awaited."""

    field: ResolvedField
    value: Awaitable[Any]


_WaitingGroup = list["_WaitingField | _WaitingGroup"]
"""Fields that are awaited together"""


async def _complete_later(response: ResponseObject, waiting: _WaitingField | _WaitingGroup) -> ResponseObject:
    if isinstance(waiting, _WaitingField):
        waiting.field.set(await waiting.value)
    else:
        await _complete_group(waiting)
    return response


async def _complete_group(group: _WaitingGroup) -> None:
    parts = (one.value if isinstance(one, _WaitingField) else _complete_group(one) for one in group)
    for one, value in zip(group, await gather_with_cancel(*parts), strict=True):
        if isinstance(one, _WaitingField):
            one.field.set(value)
