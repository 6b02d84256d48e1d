"""Which properties of its records a selection needs, so that nothing is fetched that nobody asked for."""

from collections.abc import Iterator, Mapping
from typing import Any

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    SelectionSetNode,
)

from graphql_api.catalog.specs import EntitySpec
from graphql_api.schema.names import property_name

_WAYS = {"items": (), "edges": ("node",)}
"""from a page to its records"""


def selected_properties(entity: EntitySpec, info: Any) -> frozenset[str] | None:
    """The Python names of the properties that a page's selection reads; None where an own field may read any."""
    names = {property_name(name): name for name in entity.properties}
    selection = _Selection(info.fragments)
    found = set[str]()
    for page in info.field_nodes:
        for field in selection.fields(page.selection_set):
            if field.name.value not in _WAYS:
                continue
            for record in selection.below(field, _WAYS[field.name.value]):
                if record.name.value in names:
                    found.add(names[record.name.value])
                elif not record.name.value.startswith("__"):
                    return None
    return frozenset(found)


class _Selection:
    def __init__(self, fragments: Mapping[str, Any]) -> None:
        self._fragments = fragments

    def fields(self, selection_set: SelectionSetNode | None) -> Iterator[FieldNode]:
        """All fields of a selection, those of fragments included."""
        for selection in selection_set.selections if selection_set else ():
            if isinstance(selection, FieldNode):
                yield selection
            elif isinstance(selection, InlineFragmentNode):
                yield from self.fields(selection.selection_set)
            elif isinstance(selection, FragmentSpreadNode):
                yield from self.fields(self._fragment(selection.name.value).selection_set)

    def below(self, field: FieldNode, way: tuple[str, ...]) -> Iterator[FieldNode]:
        """The fields at the end of a way."""
        for inner in self.fields(field.selection_set):
            if not way:
                yield inner
            elif inner.name.value == way[0]:
                yield from self.below(inner, way[1:])

    def _fragment(self, name: str) -> FragmentDefinitionNode:
        found = self._fragments[name]
        return getattr(found, "definition", found)  # type: ignore[no-any-return]
