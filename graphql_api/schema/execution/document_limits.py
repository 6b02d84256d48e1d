"""Limits of an operation: depth, aliases, directives, root fields and cost. They are checked before execution.

Fragments count wherever they are spread. Each one is measured once, so the checks take linear time in the document.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import graphql

from graphql_api.errors import LimitExceeded, QueryTooDeep, TooManyAliases, TooManyDirectives, TooManyRootFields
from graphql_api.query import DEFAULT_LIMIT, MAX_COUNTED, MAX_LIMIT, MAX_SORTED
from graphql_api.schema.types.generated_fields import Mark, field_marks

MAX_MERGE_COMPARISONS = 50_000
"""Steps of the check that fields with equal response names can be merged: they block the event loop for 0.1 s."""

WRITE_COST = 10
"""Cost of a write, in addition to the cost of its selected result."""

MAX_COST = 10**12
"""Upper limit of a reported cost: nested fragments multiply to numbers that JSON cannot represent."""

ASSUMED_LIST_SIZE = 10
"""Assumed number of entries of a list of unknown length."""

ASSUMED_INTROSPECTION_SIZE = 5
"""The same for lists of the introspection schema: one complete introspection is affordable, many are not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one operation."""

    depth: int = 15
    """Levels of nested fields. Introspection has its own limit."""
    aliases: int = 50
    tokens: int = 2_000
    """Lexical tokens of the document."""
    directives: int = 50
    root_fields: int = 20
    cost: int = 15_000
    """Fields and objects of the largest possible response."""
    deadline: float = 5.0
    """Seconds."""


class BoundedFieldMergeRule(graphql.OverlappingFieldsCanBeMergedRule):
    """The GraphQL rule on fields with equal response names, with a smaller budget of comparisons."""

    def __init__(self, context: graphql.ValidationContext) -> None:
        super().__init__(context)
        self.rule_context.remaining_complexity_budget = MAX_MERGE_COMPARISONS


def check_document_limits(document: graphql.DocumentNode, limits: Limits) -> None:
    """Reject a document that is too deep or has too many aliases, directives or root fields."""
    fragments = {
        part.name.value: part for part in document.definitions if isinstance(part, graphql.FragmentDefinitionNode)
    }
    depth = _Measure(
        fragments, lambda node: not node.name.value.startswith("__") and 1 + depth(node.selection_set), max
    )
    root_fields = _Measure(fragments, lambda _: 1, sum)
    counter = _Counter()
    graphql.visit(document, counter)
    text = "The document has {} aliases; the limit is {}. Send several operations."
    check_limit(TooManyAliases, counter.aliases, limits.aliases, text)
    text = "The document has {} directives; the limit is {}. Omit some of them."
    check_limit(TooManyDirectives, counter.directives, limits.directives, text)
    for part in document.definitions:
        if isinstance(part, graphql.OperationDefinitionNode):
            text = "The operation is {} levels deep; the limit is {}. Request fewer levels of fields."
            check_limit(QueryTooDeep, depth(part.selection_set), limits.depth, text)
            text = "The operation has {} root fields; the limit is {}. Send several operations."
            check_limit(TooManyRootFields, min(MAX_COST, root_fields(part.selection_set)), limits.root_fields, text)


def check_limit(error: type[LimitExceeded], found: int, limit: int, text: str) -> None:
    """Raise the error if a number exceeds its limit. `text`: the message with placeholders for both."""
    if found > limit:
        raise error(text.format(found, limit), limit=limit, found=found)


class _Counter(graphql.Visitor):
    """Counts aliases and directives. Not recursive, because documents of clients may be deep."""

    aliases = directives = 0

    def enter_field(self, node: graphql.FieldNode, *_: Any) -> None:
        self.aliases += node.alias is not None

    def enter_directive(self, *_: Any) -> None:
        self.directives += 1


@dataclass(slots=True)
class _Measure:
    """A size of selection sets. Sizes of fragments are cached. A fragment that spreads itself counts 0 there."""

    fragments: Mapping[str, graphql.FragmentDefinitionNode]
    of_field: Callable[[graphql.FieldNode], int]
    combine: Callable[[Iterable[int]], int]
    by_fragment: dict[str, int] = field(default_factory=dict)

    def __call__(self, selection_set: graphql.SelectionSetNode | None) -> int:
        return self.combine([0, *map(self._of_selection, selection_set.selections if selection_set else ())])

    def _of_selection(self, selection: graphql.SelectionNode) -> int:
        if isinstance(selection, graphql.FieldNode):
            return self.of_field(selection)
        if isinstance(selection, graphql.InlineFragmentNode):
            return self(selection.selection_set)
        assert isinstance(selection, graphql.FragmentSpreadNode), "there is no other selection"
        name = selection.name.value
        if name in self.fragments and name not in self.by_fragment:
            self.by_fragment[name] = 0
            self.by_fragment[name] = self(self.fragments[name].selection_set)
        return self.by_fragment.get(name, 0)


# --- cost ------------------------------------------------------------------------------------------------------


def operation_cost(
    schema: graphql.GraphQLSchema,
    operation: graphql.OperationDefinitionNode,
    fragments: Mapping[str, graphql.FragmentDefinitionNode],
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
    schema: graphql.GraphQLSchema
    fragments: Mapping[str, graphql.FragmentDefinitionNode]
    variables: Mapping[str, Any]
    fragment_costs: dict[tuple[str, int], int] = field(default_factory=dict)
    """By fragment name and page size."""

    def selection_cost(
        self, selection_set: graphql.SelectionSetNode | None, parent: graphql.GraphQLCompositeType, page_size: int
    ) -> int:
        """Return the cost of one object; `page_size`: the size of the page that contains it."""
        total = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, graphql.FieldNode):
                total += self._field_cost(selection, parent, page_size)
            elif isinstance(selection, graphql.InlineFragmentNode):
                on = selection.type_condition
                kind = self._composite_type(on.name.value) if on else parent
                total += self.selection_cost(selection.selection_set, kind, page_size)
            elif isinstance(selection, graphql.FragmentSpreadNode):
                key = selection.name.value, page_size
                if key not in self.fragment_costs:
                    fragment = self.fragments[selection.name.value]
                    kind = self._composite_type(fragment.type_condition.name.value)
                    self.fragment_costs[key] = self.selection_cost(fragment.selection_set, kind, page_size)
                total += self.fragment_costs[key]
        return total

    def _composite_type(self, name: str) -> graphql.GraphQLCompositeType:
        kind = self.schema.type_map[name]
        assert graphql.is_composite_type(kind), "the document is valid"
        return kind

    def _field_cost(self, node: graphql.FieldNode, parent: graphql.GraphQLCompositeType, page_size: int) -> int:
        definition = self.schema.get_field(parent, node.name.value)
        below = graphql.get_named_type(definition.type) if definition is not None else None
        if definition is None or not graphql.is_composite_type(below):
            return 1
        marks = field_marks(definition)
        if Mark.WRITES in marks:
            rows = self._input_count(node, definition)
            return 1 + rows * WRITE_COST + self.selection_cost(node.selection_set, below, rows)
        # A type is a page if it has a list with one entry for each record.
        is_page = any(Mark.PER_RECORD in field_marks(one) for one in getattr(below, "fields", {}).values())
        page_size_below = self._page_size(node, definition, marks) if is_page else 1
        inside = self.selection_cost(node.selection_set, below, page_size_below)
        if Mark.COUNTING in marks:
            counted = self._argument_value(node, definition, "atMost")
            inside += (min(counted, MAX_COUNTED) if isinstance(counted, int) else MAX_COUNTED) // 10
        if not graphql.is_list_type(graphql.get_nullable_type(definition.type)):
            return 1 + inside
        if Mark.PER_INPUT in marks:
            size = self._input_count(node, definition)
        elif Mark.PER_RECORD in marks:
            size = page_size
        elif graphql.is_introspection_type(below):
            size = ASSUMED_INTROSPECTION_SIZE
        else:
            size = 1 if Mark.STORED_LIST in marks else ASSUMED_LIST_SIZE
        return 1 + size * (1 + inside)

    def _page_size(self, node: graphql.FieldNode, definition: graphql.GraphQLField, marks: Mapping[Any, Any]) -> int:
        """Return the requested page size; one that is out of bounds is rejected before any read."""
        if Mark.SORTABLE in marks and any(argument.name.value == "orderBy" for argument in node.arguments or ()):
            return MAX_SORTED
        for name in ("limit", "first", "last"):
            size = self._argument_value(node, definition, name)
            if isinstance(size, int):
                return min(max(size, 0), MAX_LIMIT)
        return DEFAULT_LIMIT

    def _input_count(self, node: graphql.FieldNode, definition: graphql.GraphQLField) -> int:
        """Return the number of elements of `ids` or `inputs`; too many are rejected before any read."""
        elements = self._argument_value(node, definition, "ids" if "ids" in definition.args else "inputs")
        return len(elements) if isinstance(elements, list | tuple) else 1

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
