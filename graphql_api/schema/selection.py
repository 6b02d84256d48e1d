"""Which properties of its records a selection needs, so that nothing is fetched that nobody asked for."""

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

_WAYS_OF_PAGE = (("items",), ("edges", "node"))
"""from a page to its records"""


def selected_properties(entity: EntitySpec, info: Any, *, of_page: bool = True) -> frozenset[str] | None:
    """The Python names of the properties that a selection of records reads; None where an own field may read any."""
    needs = _needs(entity)
    found = set[str]()
    for name in _Selection(info).of_records(info.field_nodes, _WAYS_OF_PAGE if of_page else ((),)):
        if name in needs:
            found |= needs[name]
        elif not name.startswith("__"):
            return None
    return frozenset(found)


def _needs(entity: EntitySpec) -> Mapping[str, frozenset[str]]:
    """The properties that each generated field of a record is made of."""
    made_of = {property_name(name): frozenset((name,)) for name in entity.properties}
    made_of |= {camel_case(name): frozenset(part.name for part in join.by) for name, join in entity.joins.items()}
    growing = entity.created is not None and len(entity.space.generations) > 1
    created = (entity.created,) if entity.created is not None and growing else ()
    return {**made_of, "id": frozenset(part.name for part in (*entity.primary, *created))}


def shown_properties(
    entity: EntitySpec, info: Any, *, of_page: bool, type_name: str | None = None, way: tuple[str, ...] = ()
) -> frozenset[str]:
    """The Python names of the properties of its records that a field shows, all told and none by mistake.

    `type_name`: the type of the record, where the field may give records of several; `way`: the fields down to it.
    """
    needs = {name: parts for name, parts in _needs(entity).items() if name != "id"}
    found = _Selection(info, type_name).of_records(info.field_nodes, _WAYS_OF_PAGE if of_page else (way,))
    return frozenset[str]().union(*(needs[name] for name in found if name in needs))


def is_selected(info: Any, way: tuple[str, ...]) -> bool:
    """Whether a field shows what lies at the end of a way below it."""
    *above, last = way
    selection = _Selection(info)
    return any(found.name.value == last for node in info.field_nodes for found in selection.below(node, tuple(above)))


class _Selection:
    def __init__(self, info: Any, type_name: str | None = None) -> None:
        self._fragments: Mapping[str, Any] = info.fragments
        self._variables: Mapping[str, Any] = getattr(info.variable_values, "coerced", info.variable_values)
        self._schema = info.schema
        self._type = info.schema.type_map[type_name] if type_name is not None else None

    def of_records(self, nodes: Iterable[FieldNode], ways: Iterable[tuple[str, ...]]) -> Iterator[str]:
        """The names of the fields of the records that stand at the end of these ways below the fields of a request."""
        for node in nodes:
            for way in ways:
                yield from (field.name.value for field in self.below(node, way))

    def fields(self, selection_set: SelectionSetNode | None) -> Iterator[FieldNode]:
        """All fields of a selection, those of fragments included."""
        for selection in selection_set.selections if selection_set else ():
            if self._is_left_out(selection):
                continue
            if isinstance(selection, FieldNode):
                yield selection
            elif isinstance(selection, InlineFragmentNode):
                yield from self._of_fragment(selection)
            elif isinstance(selection, FragmentSpreadNode):
                yield from self._of_fragment(self._fragment(selection.name.value))

    def _of_fragment(self, fragment: InlineFragmentNode | FragmentDefinitionNode) -> Iterator[FieldNode]:
        """Its fields, unless it is for records of another type."""
        on = fragment.type_condition
        if on is None or self._type is None or self._is(on.name.value):
            yield from self.fields(fragment.selection_set)

    def _is(self, name: str) -> bool:
        kind = self._schema.type_map[name]
        return kind is self._type or (is_abstract_type(kind) and bool(self._schema.is_sub_type(kind, self._type)))

    def _is_left_out(self, selection: SelectionNode) -> bool:
        """Whether `@skip` or `@include` take it out of this request."""
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
