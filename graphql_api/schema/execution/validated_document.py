"""A document that is valid for the schema, and what is remembered of its operations."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import graphql

from graphql_api.errors import OperationNotFound, suggest
from graphql_api.schema.execution.compiled_execution import OperationPlan, condition_variables
from graphql_api.schema.execution.compiled_inputs import CompiledOperation
from graphql_api.schema.execution.cost_cache import CostCache


@dataclass(frozen=True, slots=True)
class ValidatedDocument:
    """A parsed document that is valid for the schema."""

    node: graphql.DocumentNode
    operations: Mapping[str, graphql.OperationDefinitionNode]
    """By name. The anonymous operation has the name ""."""
    fragments: Mapping[str, graphql.FragmentDefinitionNode]
    conditions: tuple[str, ...]
    """the variables that decide which fields are selected"""
    has_custom_directives: bool = False
    """The document uses directives of the application."""
    plans: dict[str | None, dict[Hashable, OperationPlan | None]] = field(default_factory=dict)
    """by the name of the operation, and the values of its conditions"""
    costs: dict[str | None, CostCache] = field(default_factory=dict)
    """by the name of the operation"""
    compiled: dict[str | None, CompiledOperation] = field(default_factory=dict)
    """by the name of the operation"""

    @property
    def size(self) -> int:
        """Return the characters of the document, once more for each plan.

        A parsed document takes about 100 times the memory of its text, and a plan about 60 times.
        """
        return self.characters * (1 + sum(map(len, self.plans.values())))

    @property
    def characters(self) -> int:
        """Return the characters of the text."""
        return 0 if self.node.loc is None else self.node.loc.end

    def select_operation(self, name: str | None) -> graphql.OperationDefinitionNode:
        """Return the operation to execute: the one named, or the only one."""
        operations = self.operations
        if name and name not in operations:
            raise OperationNotFound(
                "The document has no operation {name!r}.{hint}",
                argument="operationName",
                name=name[:80],
                hint=suggest(name, operations),
            )
        if not operations:
            raise OperationNotFound("The document has only fragments. Add an operation.")
        if not name and len(operations) > 1:
            raise OperationNotFound(
                f"The document has several operations: {', '.join(operations)}. Choose one by operationName.",
                argument="operationName",
            )
        return operations[name or next(iter(operations))]


def validated_document(parsed: graphql.DocumentNode, custom_directives: Collection[str] = ()) -> ValidatedDocument:
    """Return the document with its parts by name. `custom_directives`: those of the application."""
    operations = [part for part in parsed.definitions if isinstance(part, graphql.OperationDefinitionNode)]
    fragments = [part for part in parsed.definitions if isinstance(part, graphql.FragmentDefinitionNode)]
    return ValidatedDocument(
        parsed,
        {part.name.value if part.name else "": part for part in operations},
        {part.name.value: part for part in fragments},
        condition_variables(parsed),
        bool(custom_directives) and uses_directive(parsed, custom_directives),
    )


def uses_directive(document: graphql.DocumentNode, names: Collection[str]) -> bool:
    """Return whether a document uses one of these directives."""
    finder = _DirectiveFinder(names)
    graphql.visit(document, finder)
    return finder.found


class _DirectiveFinder(graphql.Visitor):
    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.names, self.found = names, False

    def enter_directive(self, node: graphql.DirectiveNode, *_: Any) -> None:
        self.found = self.found or node.name.value in self.names
