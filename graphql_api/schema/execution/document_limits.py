"""Limits of an operation, and the checks of those that depend on the document alone. They run before execution.

Fragments count wherever they are spread. Each one is measured once, so the checks take linear time in the document.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graphql import (
    DirectiveNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    Node,
    OperationDefinitionNode,
    OverlappingFieldsCanBeMergedRule,
    SelectionSetNode,
    ValidationContext,
)

from graphql_api.errors import QueryTooDeep, TooManyAliases, TooManyDirectives, TooManyRootFields
from graphql_api.schema.query_cost import MAX_COST

MAX_MERGE_COMPARISONS = 50_000
"""Steps of the check that fields with equal response names can be merged: they block the event loop for 0.1 s."""


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


class BoundedFieldMergeRule(OverlappingFieldsCanBeMergedRule):
    """The GraphQL rule on fields with equal response names, with a smaller budget of comparisons."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self.rule_context.remaining_complexity_budget = MAX_MERGE_COMPARISONS


def check_document_limits(document: DocumentNode, limits: Limits) -> None:
    """Reject a document that is too deep or has too many aliases, directives or root fields."""
    measure = _SelectionMeasure(
        {part.name.value: part for part in document.definitions if isinstance(part, FragmentDefinitionNode)}
    )
    aliases = directives = 0
    for node in _nodes(document):
        aliases += isinstance(node, FieldNode) and node.alias is not None
        directives += isinstance(node, DirectiveNode)
    if aliases > limits.aliases:
        raise TooManyAliases(
            f"The document has {aliases} aliases; the limit is {limits.aliases}. Send several operations.",
            limit=limits.aliases,
            found=aliases,
        )
    if directives > limits.directives:
        raise TooManyDirectives(
            f"The document has {directives} directives; the limit is {limits.directives}. Omit some of them.",
            limit=limits.directives,
            found=directives,
        )
    for part in document.definitions:
        if isinstance(part, OperationDefinitionNode):
            _check_operation(measure, part, limits)


def _check_operation(measure: "_SelectionMeasure", operation: OperationDefinitionNode, limits: Limits) -> None:
    depth = measure.depth(operation.selection_set)
    if depth > limits.depth:
        raise QueryTooDeep(
            f"The operation is {depth} levels deep; the limit is {limits.depth}. Request fewer levels of fields.",
            limit=limits.depth,
            found=depth,
        )
    root_fields = min(MAX_COST, measure.direct_fields(operation.selection_set))
    if root_fields > limits.root_fields:
        raise TooManyRootFields(
            f"The operation has {root_fields} root fields; the limit is {limits.root_fields}. Send several operations.",
            limit=limits.root_fields,
            found=root_fields,
        )


def _nodes(document: DocumentNode) -> Iterator[Node]:
    """Return every node once. Not recursive, because documents of clients may be deep."""
    stack: list[Node] = [document]
    while stack:
        node = stack.pop()
        yield node
        for key in node.keys:
            if key == "loc":
                continue
            value = getattr(node, key, None)
            if isinstance(value, Node):
                stack.append(value)
            elif isinstance(value, (list, tuple)):
                stack.extend(part for part in value if isinstance(part, Node))


@dataclass(slots=True)
class _SelectionMeasure:
    """The sizes of selection sets. Results of fragments are cached. A fragment that spreads itself counts 0 there."""

    fragments: Mapping[str, FragmentDefinitionNode]
    depth_by_fragment: dict[str, int] = field(default_factory=dict)
    fields_by_fragment: dict[str, int] = field(default_factory=dict)

    def depth(self, selection_set: SelectionSetNode | None) -> int:
        deepest = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                if not selection.name.value.startswith("__"):
                    deepest = max(deepest, 1 + self.depth(selection.selection_set))
            elif isinstance(selection, InlineFragmentNode):
                deepest = max(deepest, self.depth(selection.selection_set))
            elif isinstance(selection, FragmentSpreadNode):
                deepest = max(deepest, self._of_fragment(selection.name.value, self.depth_by_fragment, self.depth))
        return deepest

    def direct_fields(self, selection_set: SelectionSetNode | None) -> int:
        """Count the fields on the top level of a selection set, including those in fragments."""
        count = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                count += 1
            elif isinstance(selection, InlineFragmentNode):
                count += self.direct_fields(selection.selection_set)
            elif isinstance(selection, FragmentSpreadNode):
                count += self._of_fragment(selection.name.value, self.fields_by_fragment, self.direct_fields)
        return count

    def _of_fragment(self, name: str, cache: dict[str, int], measure: object) -> int:
        fragment = self.fragments.get(name)
        if fragment is None:
            return 0
        if name not in cache:
            cache[name] = 0
            cache[name] = measure(fragment.selection_set)  # type: ignore[operator]
        return cache[name]
