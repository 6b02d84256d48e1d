"""Limits of a document: depth, aliases, directives and root fields. They are checked before execution.

Fragments count wherever they are spread. Each one is measured once, so the checks take linear time in the document.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import graphql

from graphql_api.errors import LimitExceeded, QueryTooDeep, TooManyAliases, TooManyDirectives, TooManyRootFields

MAX_COUNT = 10**12
"""Upper limit of a reported count: nested fragments multiply to numbers that JSON cannot represent."""

MAX_MERGE_COMPARISONS = 20_000
"""Steps of the check that fields with equal response names can be merged: they block the event loop for 0.05 s."""


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
    elements: int = 20_000
    """Elements of the inputs, each time that a field uses them."""
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
            check_limit(TooManyRootFields, min(MAX_COUNT, root_fields(part.selection_set)), limits.root_fields, text)


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
