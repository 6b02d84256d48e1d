"""Cost of an operation: the fields and objects of its largest possible result, counted before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLCompositeType,
    GraphQLField,
    GraphQLNonNull,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    ListValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    get_named_type,
    is_composite_type,
    is_introspection_type,
    is_list_type,
)

from graphql_api.query import DEFAULT_LIMIT, MAX_COUNTED, MAX_LIMIT, MAX_SORTED

PER_RECORD = "shardql-each"
"""Mark of a list in a page with one entry for each record."""

SORTABLE = "shardql-sorted"
"""Mark of a field that returns its whole result as one page if it has the argument `orderBy`."""

COUNTING = "shardql-counted"
"""Mark of a field that counts records, each at a tenth of the cost of a record."""

PER_INPUT = "shardql-given"
"""Mark of a list with one entry for each element of `ids` or `inputs`."""

WRITES = "shardql-writes"
"""Mark of a field that writes one record, or one for each element of `inputs`."""

STORED_LIST = "shardql-stored"
"""Mark of a list that is part of a record, and costs as much as any other property."""

WRITE_COST = 10
"""Cost of a write, in addition to the cost of its selected result."""

MAX_COST = 10**12
"""Upper limit of a reported cost: nested fragments multiply to numbers that JSON cannot represent."""

ASSUMED_LIST_SIZE = 10
"""Assumed number of entries of a list of unknown length."""

ASSUMED_INTROSPECTION_SIZE = 5
"""The same for lists of the introspection schema: one complete introspection is affordable, many are not."""


def operation_cost(
    schema: GraphQLSchema,
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    variables: Mapping[str, Any],
) -> int:
    """Return the cost of an operation: one for each field, and one for each object that a list can contain."""
    root = schema.get_root_type(operation.operation)
    if root is None:
        return 0
    visitor = _CostVisitor(schema, fragments, variables)
    return min(MAX_COST, visitor.selection_cost(operation.selection_set, root, 1))


@dataclass(slots=True)
class _CostVisitor:
    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]
    fragment_costs: dict[tuple[str, int], int] = field(default_factory=dict)
    """By fragment name and page size."""

    def selection_cost(
        self, selection_set: SelectionSetNode | None, parent: GraphQLCompositeType, page_size: int
    ) -> int:
        """Return the cost of one object; `page_size`: the size of the page that contains it."""
        total = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                total += self._field_cost(selection, parent, page_size)
            elif isinstance(selection, InlineFragmentNode):
                on = selection.type_condition
                kind = self._composite_type(on.name.value) if on else parent
                total += self.selection_cost(selection.selection_set, kind, page_size)
            elif isinstance(selection, FragmentSpreadNode):
                total += self._fragment_cost(selection.name.value, page_size)
        return total

    def _fragment_cost(self, name: str, page_size: int) -> int:
        if (name, page_size) not in self.fragment_costs:
            fragment = self.fragments[name]
            on = self._composite_type(fragment.type_condition.name.value)
            self.fragment_costs[name, page_size] = self.selection_cost(fragment.selection_set, on, page_size)
        return self.fragment_costs[name, page_size]

    def _composite_type(self, name: str) -> GraphQLCompositeType:
        kind = self.schema.type_map[name]
        assert is_composite_type(kind), "the document is valid"
        return kind

    def _field_cost(self, node: FieldNode, parent: GraphQLCompositeType, page_size: int) -> int:
        definition = self.schema.get_field(parent, node.name.value)
        below = get_named_type(definition.type) if definition is not None else None
        if definition is None or not is_composite_type(below):
            return 1
        marks = field_marks(definition)
        if WRITES in marks:
            rows = self._input_count(node)
            return 1 + rows * WRITE_COST + self.selection_cost(node.selection_set, below, rows)
        page_size_below = self._page_size(node, definition, marks) if _is_page(below) else 1
        inside = self.selection_cost(node.selection_set, below, page_size_below)
        if COUNTING in marks:
            counted = self._argument_value(node, definition, "atMost")
            inside += (min(counted, MAX_COUNTED) if isinstance(counted, int) else MAX_COUNTED) // 10
        if not _is_list(definition):
            return 1 + inside
        size = self._input_count(node) if PER_INPUT in marks else _list_size(marks, page_size, below)
        return 1 + size * (1 + inside)

    def _page_size(self, node: FieldNode, definition: GraphQLField, marks: Mapping[Any, Any]) -> int:
        """Return the requested page size; one that is out of bounds is rejected before any read."""
        if SORTABLE in marks and any(argument.name.value == "orderBy" for argument in node.arguments or ()):
            return MAX_SORTED
        for name in ("limit", "first", "last"):
            size = self._argument_value(node, definition, name)
            if isinstance(size, int):
                return min(max(size, 0), MAX_LIMIT)
        return DEFAULT_LIMIT

    def _input_count(self, node: FieldNode) -> int:
        """Return the number of elements of `ids` or `inputs`; too many are rejected before any read."""
        value = next((one.value for one in node.arguments or () if one.name.value in ("ids", "inputs")), None)
        elements = self.variables.get(value.name.value) if isinstance(value, VariableNode) else None
        if isinstance(value, ListValueNode):
            elements = value.values
        return len(elements) if isinstance(elements, list | tuple) else 1

    def _argument_value(self, node: FieldNode, definition: GraphQLField, name: str) -> Any:
        """Return the value of an argument of type `Int`."""
        value = next((one.value for one in node.arguments or () if one.name.value == name), None)
        if isinstance(value, IntValueNode):
            return int(value.value)
        if isinstance(value, VariableNode):
            return self.variables.get(value.name.value)
        return definition.args[name].default_value if value is None and name in definition.args else None


def _is_page(kind: GraphQLCompositeType) -> bool:
    """Whether a type is a page: it has a list with one entry for each record."""
    return any(PER_RECORD in field_marks(field) for field in getattr(kind, "fields", {}).values())


def field_marks(definition: GraphQLField) -> Mapping[Any, Any]:
    """Return the metadata of the Strawberry field of a GraphQL field."""
    strawberry_field = (definition.extensions or {}).get("strawberry-definition")
    return getattr(strawberry_field, "metadata", None) or {}


def _list_size(marks: Mapping[Any, Any], page_size: int, below: GraphQLCompositeType) -> int:
    if PER_RECORD in marks:
        return page_size
    if is_introspection_type(below):
        return ASSUMED_INTROSPECTION_SIZE
    return 1 if STORED_LIST in marks else ASSUMED_LIST_SIZE


def _is_list(definition: GraphQLField) -> bool:
    kind = definition.type
    return is_list_type(kind.of_type if isinstance(kind, GraphQLNonNull) else kind)
