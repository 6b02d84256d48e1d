"""The cost of an operation: the size of its largest response, and the elements of its arguments.

It is checked before execution. Fragments count wherever they are spread. Each one is measured once, so the time is
linear in the document.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

import graphql

from graphql_api.query import DEFAULT_LIMIT, MAX_COUNTED, MAX_LIMIT, MAX_SORTED
from graphql_api.schema.execution.document_limits import MAX_COUNT
from graphql_api.schema.execution.input_complexity import InputComplexity
from graphql_api.schema.execution.introspection import complete_introspection_query, introspection_list_sizes
from graphql_api.schema.types.connection_types import NESTED_COUNTED
from graphql_api.schema.types.generated_fields import INPUT_LISTS, Mark, field_marks

WRITE_COST = 10
"""Cost of a write, in addition to the cost of its selected result."""

ASSUMED_LIST_SIZE = 10
"""Assumed number of entries of a list of unknown length."""

SIZE_ARGUMENTS = frozenset({"limit", "first", "last", "atMost", *INPUT_LISTS})
"""Arguments on whose values the cost of a field depends"""

INTROSPECTION_SHARE = 0.6
"""The cost of a complete introspection, as a share of the cost limit: one is affordable, two are not."""


class OperationCost(NamedTuple):
    """What an operation can cost at most."""

    objects: int = 0
    """one for each field, and one for each object that a list can contain"""
    elements: int = 0
    """elements of the arguments, each time that they are converted"""

    def plus(self, other: "OperationCost", times: int = 1) -> "OperationCost":
        return OperationCost(self.objects + times * other.objects, self.elements + times * other.elements)


class _Page(NamedTuple):
    """The page that contains an object."""

    size: int = 1
    is_nested: bool = False
    """it is a list of a record"""


class CostModel:
    """The costs of operations on one schema. `limit`: the highest cost, to which that of introspection is scaled."""

    def __init__(self, schema: graphql.GraphQLSchema, limit: int) -> None:
        self._schema = schema
        self._introspection_sizes = introspection_list_sizes(schema)
        self._introspection_scale = 1.0
        document = graphql.parse(complete_introspection_query(), no_location=True)
        parts = document.definitions
        fragments = {one.name.value: one for one in parts if isinstance(one, graphql.FragmentDefinitionNode)}
        operation = next(one for one in parts if isinstance(one, graphql.OperationDefinitionNode))
        complete = self.cost(operation, fragments, {}, InputComplexity(schema, operation, {}, MAX_COUNT))
        self._introspection_scale = INTROSPECTION_SHARE * limit / complete.objects

    def cost(
        self,
        operation: graphql.OperationDefinitionNode,
        fragments: Mapping[str, graphql.FragmentDefinitionNode],
        variables: Mapping[str, Any],
        inputs: InputComplexity,
    ) -> OperationCost:
        """Return the cost of an operation. `variables`: their values, before they are converted."""
        root = self._schema.get_root_type(operation.operation)
        if root is None:
            return OperationCost()
        defaults = {
            definition.variable.name.value: graphql.value_from_ast_untyped(definition.default_value)
            for definition in operation.variable_definitions or ()
            if definition.default_value is not None
        }
        visitor = _CostVisitor(
            self._schema,
            root,
            fragments,
            {**defaults, **variables},
            inputs,
            self._introspection_sizes,
            self._introspection_scale,
        )
        cost = visitor.selection_cost(operation.selection_set, root, _Page())
        return OperationCost(min(MAX_COUNT, cost.objects), min(MAX_COUNT, cost.elements + inputs.of_variables()))


@dataclass(slots=True)
class _CostVisitor:
    schema: graphql.GraphQLSchema
    root: graphql.GraphQLObjectType
    fragments: Mapping[str, graphql.FragmentDefinitionNode]
    variables: Mapping[str, Any]
    inputs: InputComplexity
    introspection_sizes: Mapping[str, int]
    introspection_scale: float
    fragment_costs: dict[tuple[str, _Page], OperationCost] = field(default_factory=dict)
    """By fragment name and page."""

    def selection_cost(
        self, selection_set: graphql.SelectionSetNode | None, parent: graphql.GraphQLCompositeType, page: _Page
    ) -> OperationCost:
        """Return the cost of one object; `page`: the page that contains it."""
        total = OperationCost()
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, graphql.FieldNode):
                total = total.plus(self._field_cost(selection, parent, page))
            elif isinstance(selection, graphql.InlineFragmentNode):
                on = selection.type_condition
                kind = self._composite_type(on.name.value) if on else parent
                total = total.plus(self.selection_cost(selection.selection_set, kind, page))
            elif isinstance(selection, graphql.FragmentSpreadNode):
                key = selection.name.value, page
                if key not in self.fragment_costs:
                    fragment = self.fragments[selection.name.value]
                    kind = self._composite_type(fragment.type_condition.name.value)
                    self.fragment_costs[key] = self.selection_cost(fragment.selection_set, kind, page)
                total = total.plus(self.fragment_costs[key])
        return total

    def _composite_type(self, name: str) -> graphql.GraphQLCompositeType:
        kind = self.schema.type_map[name]
        assert graphql.is_composite_type(kind), "the document is valid"
        return kind

    def _field_cost(self, node: graphql.FieldNode, parent: graphql.GraphQLCompositeType, page: _Page) -> OperationCost:
        definition = self.schema.get_field(parent, node.name.value)
        if definition is None:
            return OperationCost(1)
        field = OperationCost(1, self.inputs.of_arguments(node, definition))
        below = graphql.get_named_type(definition.type)
        if not graphql.is_composite_type(below):
            return field
        marks = field_marks(definition)
        if Mark.WRITES in marks:
            rows = self._input_count(node, definition)
            field = field.plus(OperationCost(rows * WRITE_COST))
            return field.plus(self.selection_cost(node.selection_set, below, _Page(rows)))
        # A type is a page if it has a list with one entry for each record.
        is_page = any(Mark.PER_RECORD in field_marks(one) for one in getattr(below, "fields", {}).values())
        page_below = _Page(self._page_size(node, definition, marks) if is_page else 1, parent != self.root)
        inside = self.selection_cost(node.selection_set, below, page_below)
        if node.name.value in ("__schema", "__type"):
            return OperationCost(1 + ceil(self.introspection_scale * inside.objects))
        if node.name.value == "ofType" and graphql.is_introspection_type(below):
            inside = OperationCost(inside.objects // 2)  # Most types have one wrapper, if any.
        if Mark.COUNTING in marks:
            counted = self._integer(node, definition, "atMost")
            default = NESTED_COUNTED if page.is_nested else MAX_COUNTED
            inside = inside.plus(OperationCost(min(default if counted is None else max(counted, 0), MAX_COUNTED) // 10))
        if not graphql.is_list_type(graphql.get_nullable_type(definition.type)):
            return field.plus(inside)
        if Mark.PER_INPUT in marks:
            size = self._input_count(node, definition)
        elif Mark.PER_RECORD in marks:
            size = page.size
        elif graphql.is_introspection_type(below):
            size = self.introspection_sizes[node.name.value]
        else:
            size = 1 if Mark.STORED_LIST in marks else ASSUMED_LIST_SIZE
        return field.plus(inside.plus(OperationCost(1)), size)

    def _page_size(self, node: graphql.FieldNode, definition: graphql.GraphQLField, marks: Mapping[Any, Any]) -> int:
        """Return the requested page size; one that is out of bounds is rejected before any read."""
        if Mark.SORTABLE in marks and any(argument.name.value == "orderBy" for argument in node.arguments or ()):
            return MAX_SORTED
        sizes = (self._integer(node, definition, name) for name in ("limit", "first", "last"))
        size = next((size for size in sizes if size is not None), DEFAULT_LIMIT)
        return min(max(size, 0), MAX_LIMIT)

    def _input_count(self, node: graphql.FieldNode, definition: graphql.GraphQLField) -> int:
        """Return the number of elements of the list of inputs; too many are rejected before any read."""
        name = next((name for name in INPUT_LISTS if name in definition.args), INPUT_LISTS[0])
        elements = self._argument_value(node, definition, name)
        return len(elements) if isinstance(elements, list | tuple) else 1

    def _integer(self, node: graphql.FieldNode, definition: graphql.GraphQLField, name: str) -> int | None:
        """Return the value of an argument that is an integer. JSON may write it as a float."""
        value = self._argument_value(node, definition, name)
        return int(value) if isinstance(value, int | float) else None

    def _argument_value(self, node: graphql.FieldNode, definition: graphql.GraphQLField, name: str) -> Any:
        """Return the value of an argument that is an integer or a list."""
        value = next((one.value for one in node.arguments or () if one.name.value == name), None)
        match value:
            case graphql.IntValueNode():
                return int(value.value)
            case graphql.ListValueNode():
                return value.values
            case graphql.VariableNode():
                return self.variables.get(value.name.value)
        return definition.args[name].default_value if value is None and name in definition.args else None
