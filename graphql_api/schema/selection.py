"""Properties that a selection of fields needs, so that searches fetch no others."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphql import (
    BooleanValueNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    SelectionNode,
    SelectionSetNode,
    VariableNode,
    is_abstract_type,
)

from graphql_api.model import EntitySpec, camel_case
from graphql_api.schema.graphql_names import property_name

_PAGE_PATHS = (("items",), ("edges", "node"))
"""Paths of fields from a page to its records."""


def selected_properties(entity: EntitySpec, info: Any, *, of_page: bool = True) -> frozenset[str] | None:
    """Return the Python names of the properties that a selection of records reads.

    None if the selection contains a field of the developer, which can read any property.
    """
    sources = _source_properties(entity)
    properties = set[str]()
    for name in _Selection(info).record_fields(info.field_nodes, _PAGE_PATHS if of_page else ((),)):
        if name in sources:
            properties |= sources[name]
        elif not name.startswith("__"):
            return None
    return frozenset(properties)


def _source_properties(entity: EntitySpec) -> Mapping[str, frozenset[str]]:
    """Return the properties from which each generated field of a record is resolved."""
    sources = {property_name(name): frozenset((name,)) for name in entity.properties}
    sources |= {camel_case(name): frozenset(part.name for part in join.by) for name, join in entity.joins.items()}
    has_generations = entity.created is not None and len(entity.space.generations) > 1
    created = (entity.created,) if entity.created is not None and has_generations else ()
    return {**sources, "id": frozenset(part.name for part in (*entity.primary_key, *created))}


def shown_properties(
    entity: EntitySpec, info: Any, *, of_page: bool, type_name: str | None = None, path: tuple[str, ...] = ()
) -> frozenset[str]:
    """Return the Python names of all properties that a field shows of its records; `id` counts for none.

    `type_name`: the type of the record, if the field can return records of several types.
    `path`: the fields that lead to the record.
    """
    sources = {name: parts for name, parts in _source_properties(entity).items() if name != "id"}
    names = _Selection(info, type_name).record_fields(info.field_nodes, _PAGE_PATHS if of_page else (path,))
    return frozenset[str]().union(*(sources[name] for name in names if name in sources))


def is_selected(info: Any, path: tuple[str, ...]) -> bool:
    """Whether a field selects the last field of a path below it."""
    *parents, last = path
    selection = _Selection(info)
    return any(
        field.name.value == last for node in info.field_nodes for field in selection.fields_at(node, tuple(parents))
    )


class _Selection:
    def __init__(self, info: Any, type_name: str | None = None) -> None:
        self._fragments: Mapping[str, Any] = info.fragments
        self._variables: Mapping[str, Any] = getattr(info.variable_values, "coerced", info.variable_values)
        self._schema = info.schema
        self._type = info.schema.type_map[type_name] if type_name is not None else None

    def record_fields(self, nodes: Iterable[FieldNode], paths: Iterable[tuple[str, ...]]) -> Iterator[str]:
        """Yield the names of the fields that are selected of the records at the end of these paths."""
        for node in nodes:
            for path in paths:
                yield from (field.name.value for field in self.fields_at(node, path))

    def fields(self, selection_set: SelectionSetNode | None) -> Iterator[FieldNode]:
        """Yield all fields of a selection, including those of fragments."""
        for selection in selection_set.selections if selection_set else ():
            if self._is_excluded(selection):
                continue
            if isinstance(selection, FieldNode):
                yield selection
            elif isinstance(selection, InlineFragmentNode):
                yield from self._fragment_fields(selection)
            elif isinstance(selection, FragmentSpreadNode):
                yield from self._fragment_fields(self._fragment(selection.name.value))

    def _fragment_fields(self, fragment: InlineFragmentNode | FragmentDefinitionNode) -> Iterator[FieldNode]:
        """Yield the fields of a fragment, unless it applies to records of another type."""
        on = fragment.type_condition
        if on is None or self._type is None or self._applies_to(on.name.value):
            yield from self.fields(fragment.selection_set)

    def _applies_to(self, type_name: str) -> bool:
        kind = self._schema.type_map[type_name]
        return kind is self._type or (is_abstract_type(kind) and bool(self._schema.is_sub_type(kind, self._type)))

    def _is_excluded(self, selection: SelectionNode) -> bool:
        """Whether `@skip` or `@include` excludes a selection from this request."""
        for directive in selection.directives or ():
            if directive.name.value in ("skip", "include"):
                (condition,) = (argument.value for argument in directive.arguments or ())
                holds = (
                    self._variables.get(condition.name.value)
                    if isinstance(condition, VariableNode)
                    else (isinstance(condition, BooleanValueNode) and condition.value)
                )
                if bool(holds) == (directive.name.value == "skip"):
                    return True
        return False

    def fields_at(self, field: FieldNode, path: tuple[str, ...]) -> Iterator[FieldNode]:
        """Yield the fields that are selected at the end of a path below a field."""
        for child in self.fields(field.selection_set):
            if not path:
                yield child
            elif child.name.value == path[0]:
                yield from self.fields_at(child, path[1:])

    def _fragment(self, name: str) -> FragmentDefinitionNode:
        fragment = self._fragments[name]
        return getattr(fragment, "definition", fragment)  # type: ignore[no-any-return]
