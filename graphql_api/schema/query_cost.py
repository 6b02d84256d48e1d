"""What the largest answer of an operation would hold: fields and objects, counted before anything runs."""

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

EACH = "shardql-each"
"""mark of the list inside a page that has an entry for each of its records"""

SORTED = "shardql-sorted"
"""mark of a field that gives its whole answer as one page where it is told to sort it"""

COUNTED = "shardql-counted"
"""mark of a field that counts records, and costs a tenth of one for each"""

GIVEN = "shardql-given"
"""mark of a list that has an entry for each of the ids or inputs that are given"""

WRITES = "shardql-writes"
"""mark of a field that writes, once or for each of the inputs that are given"""

WRITE = 10
"""what a write costs, whatever the answer shows of it"""

STORED = "shardql-stored"
"""mark of a list that is part of a record, and so costs as much as any other property"""

HUGE = 10**12
"""what is dearer counts as this: fragments inside fragments come to numbers that no JSON holds"""

LIST = 10
"""how many entries a list is taken to have where nothing tells"""

INTROSPECTED = 5
"""The same for lists of the schema's own description: an operation may read all of it, but not many times."""


def cost_of(
    schema: GraphQLSchema,
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    variables: Mapping[str, Any],
) -> int:
    """One for each field, and for each object of each list as often as it can come."""
    root = schema.get_root_type(operation.operation)
    return 0 if root is None else min(HUGE, _Cost(schema, fragments, variables).of(operation.selection_set, root, 1))


@dataclass(slots=True)
class _Cost:
    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]
    known: dict[tuple[str, int], int] = field(default_factory=dict)
    """of a fragment, within a page of so many"""

    def of(self, selection_set: SelectionSetNode | None, parent: GraphQLCompositeType, page: int) -> int:
        total = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                total += self._field(selection, parent, page)
            elif isinstance(selection, InlineFragmentNode):
                on = selection.type_condition
                total += self.of(selection.selection_set, self._type(on.name.value) if on else parent, page)
            elif isinstance(selection, FragmentSpreadNode):
                total += self._fragment(selection.name.value, page)
        return total

    def _fragment(self, name: str, page: int) -> int:
        if (name, page) not in self.known:
            fragment = self.fragments[name]
            on = self._type(fragment.type_condition.name.value)
            self.known[name, page] = self.of(fragment.selection_set, on, page)
        return self.known[name, page]

    def _type(self, name: str) -> GraphQLCompositeType:
        found = self.schema.type_map[name]
        assert is_composite_type(found), "the document is valid"
        return found

    def _field(self, node: FieldNode, parent: GraphQLCompositeType, page: int) -> int:
        definition = self.schema.get_field(parent, node.name.value)
        below = get_named_type(definition.type) if definition is not None else None
        if definition is None or not is_composite_type(below):
            return 1
        marks = marks_of(definition)
        if WRITES in marks:
            rows = self._count_given(node)
            return 1 + rows * WRITE + self.of(node.selection_set, below, rows)
        inside = self.of(node.selection_set, below, self._page_size(node, definition, marks) if _is_page(below) else 1)
        if COUNTED in marks:
            counted = self._given(node, definition, "atMost")
            inside += (min(counted, MAX_COUNTED) if isinstance(counted, int) else MAX_COUNTED) // 10
        if not _is_list(definition):
            return 1 + inside
        times = self._count_given(node) if GIVEN in marks else _times(marks, page, below)
        return 1 + times * (1 + inside)

    def _page_size(self, node: FieldNode, definition: GraphQLField, marks: Mapping[Any, Any]) -> int:
        """The size that the arguments ask for; one out of bounds is refused before anything is read."""
        if SORTED in marks and any(argument.name.value == "orderBy" for argument in node.arguments or ()):
            return MAX_SORTED
        for name in ("limit", "first", "last"):
            size = self._given(node, definition, name)
            if isinstance(size, int):
                return min(max(size, 0), MAX_LIMIT)
        return DEFAULT_LIMIT

    def _count_given(self, node: FieldNode) -> int:
        """How many ids or inputs are given; more than are allowed are refused before anything is read."""
        value = next((one.value for one in node.arguments or () if one.name.value in ("ids", "inputs")), None)
        ids = self.variables.get(value.name.value) if isinstance(value, VariableNode) else None
        if isinstance(value, ListValueNode):
            ids = value.values
        return len(ids) if isinstance(ids, list | tuple) else 1

    def _given(self, node: FieldNode, definition: GraphQLField, name: str) -> Any:
        """The value of an argument that is a whole number."""
        value = next((one.value for one in node.arguments or () if one.name.value == name), None)
        if isinstance(value, IntValueNode):
            return int(value.value)
        if isinstance(value, VariableNode):
            return self.variables.get(value.name.value)
        return definition.args[name].default_value if value is None and name in definition.args else None


def _is_page(kind: GraphQLCompositeType) -> bool:
    """Whether a type has a list with an entry for each record of a page."""
    return any(EACH in marks_of(field) for field in getattr(kind, "fields", {}).values())


def marks_of(definition: GraphQLField) -> Mapping[Any, Any]:
    """The metadata of the Strawberry field that a field was made from."""
    made_from = (definition.extensions or {}).get("strawberry-definition")
    return getattr(made_from, "metadata", None) or {}


def _times(marks: Mapping[Any, Any], page: int, below: GraphQLCompositeType) -> int:
    if EACH in marks:
        return page
    if is_introspection_type(below):
        return INTROSPECTED
    return 1 if STORED in marks else LIST


def _is_list(definition: GraphQLField) -> bool:
    kind = definition.type
    return is_list_type(kind.of_type if isinstance(kind, GraphQLNonNull) else kind)
