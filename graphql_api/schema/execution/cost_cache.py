"""Costs of one operation that are known: they depend on few properties of its variables."""

from collections.abc import Hashable, Mapping
from typing import Any

import graphql

from graphql_api.schema.execution.input_complexity import text_elements
from graphql_api.schema.execution.operation_cost import SIZE_ARGUMENTS, OperationCost

MAX_KNOWN_COSTS = 256
"""of one operation"""
_OMITTED = object()


class CostCache:
    """The costs of one operation by the properties of its variables.

    The cost depends on the values of page sizes, and on the number of elements of all other variables.
    """

    def __init__(self, document: graphql.DocumentNode, operation: graphql.OperationDefinitionNode) -> None:
        collector = _SizeCollector()
        graphql.visit(document, collector)
        names = [one.variable.name.value for one in operation.variable_definitions or ()]
        self._variables = [(name, name in collector.names) for name in names]
        self._known: dict[Hashable, OperationCost] = {}

    def key(self, variables: Mapping[str, Any]) -> Hashable | None:
        """Return what the cost depends on; None if a variable is a list or an object, which must be counted."""
        key: list[Hashable] = []
        for name, is_size in self._variables:
            value = variables.get(name, _OMITTED)
            if isinstance(value, str):
                key.append((text_elements(value),))
            elif value is None or value is _OMITTED or isinstance(value, int | float):
                key.append(value if is_size or value is _OMITTED else None)
            else:
                return None
        return tuple(key)

    def get(self, key: Hashable | None) -> OperationCost | None:
        return self._known.get(key)

    def add(self, key: Hashable | None, cost: OperationCost) -> None:
        if key is not None:
            if len(self._known) >= MAX_KNOWN_COSTS:
                self._known.clear()
            self._known[key] = cost


class _SizeCollector(graphql.Visitor):
    """Collects the variables that are page sizes, or lists of inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def enter_argument(self, node: graphql.ArgumentNode, *_: Any) -> None:
        if node.name.value in SIZE_ARGUMENTS and isinstance(node.value, graphql.VariableNode):
            self.names.add(node.value.name.value)
