"""What an operation may ask for at most. All of it is looked at before anything runs.

Shape is counted on the document alone; cost needs the schema and the values of variables. Fragments count wherever they
are spread, and each is looked at once, so that the work is linear in the document.
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
from graphql_api.schema.query_cost import HUGE

COMPARISONS = 50_000
"""How many steps it may take to see that equal names ask for equal fields: a tenth of a second, for all who wait."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one operation may be."""

    depth: int = 15
    """levels of fields inside one another; introspection has its own limit"""
    aliases: int = 50
    tokens: int = 2_000
    """lexical tokens of the document"""
    directives: int = 50
    root_fields: int = 20
    cost: int = 15_000
    """fields and objects of the largest answer that the operation could have"""
    deadline: float = 5.0
    """seconds"""


class FieldsThatMerge(OverlappingFieldsCanBeMergedRule):
    """GraphQL's rule for fields with the same name, which compares each with each, with a budget of ours."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self.rule_context.remaining_complexity_budget = COMPARISONS


def check_shape(document: DocumentNode, limits: Limits) -> None:
    """Refuses a document that is too deep or has too many aliases, directives or root fields."""
    shape = _Shape({part.name.value: part for part in document.definitions if isinstance(part, FragmentDefinitionNode)})
    aliases = directives = 0
    for node in _nodes(document):
        aliases += isinstance(node, FieldNode) and node.alias is not None
        directives += isinstance(node, DirectiveNode)
    if aliases > limits.aliases:
        raise TooManyAliases(
            f"The document has {aliases} aliases, and at most {limits.aliases} are allowed: send several operations.",
            limit=limits.aliases,
            found=aliases,
        )
    if directives > limits.directives:
        raise TooManyDirectives(
            f"The document has {directives} directives, and at most {limits.directives} are allowed: leave some out.",
            limit=limits.directives,
            found=directives,
        )
    for part in document.definitions:
        if isinstance(part, OperationDefinitionNode):
            _check_operation(shape, part, limits)


def _check_operation(shape: "_Shape", operation: OperationDefinitionNode, limits: Limits) -> None:
    depth = shape.depth(operation.selection_set)
    if depth > limits.depth:
        raise QueryTooDeep(
            f"The operation is {depth} levels deep, and at most {limits.depth} are allowed: ask for less at once.",
            limit=limits.depth,
            found=depth,
        )
    roots = min(HUGE, shape.fields(operation.selection_set))
    if roots > limits.root_fields:
        raise TooManyRootFields(
            f"The operation has {roots} root fields, and at most {limits.root_fields} are allowed: send several "
            "operations.",
            limit=limits.root_fields,
            found=roots,
        )


def _nodes(document: DocumentNode) -> Iterator[Node]:
    """Every node once, without recursion: documents of clients may be deep."""
    waiting: list[Node] = [document]
    while waiting:
        node = waiting.pop()
        yield node
        for key in node.keys:
            if key == "loc":
                continue
            value = getattr(node, key, None)
            if isinstance(value, Node):
                waiting.append(value)
            elif isinstance(value, (list, tuple)):
                waiting.extend(part for part in value if isinstance(part, Node))


@dataclass(slots=True)
class _Shape:
    """Measures selections; what a fragment measures is kept, and one that spreads itself counts nothing there."""

    fragments: Mapping[str, FragmentDefinitionNode]
    depths: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def depth(self, selection_set: SelectionSetNode | None) -> int:
        deepest = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                if not selection.name.value.startswith("__"):
                    deepest = max(deepest, 1 + self.depth(selection.selection_set))
            elif isinstance(selection, InlineFragmentNode):
                deepest = max(deepest, self.depth(selection.selection_set))
            elif isinstance(selection, FragmentSpreadNode):
                deepest = max(deepest, self._of_fragment(selection.name.value, self.depths, self.depth))
        return deepest

    def fields(self, selection_set: SelectionSetNode | None) -> int:
        """How many fields stand directly in a selection, fragments included."""
        count = 0
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                count += 1
            elif isinstance(selection, InlineFragmentNode):
                count += self.fields(selection.selection_set)
            elif isinstance(selection, FragmentSpreadNode):
                count += self._of_fragment(selection.name.value, self.counts, self.fields)
        return count

    def _of_fragment(self, name: str, known: dict[str, int], measure: object) -> int:
        fragment = self.fragments.get(name)
        if fragment is None:
            return 0
        if name not in known:
            known[name] = 0
            known[name] = measure(fragment.selection_set)  # type: ignore[operator]
        return known[name]
