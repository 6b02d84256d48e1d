"""Properties that a selection of fields needs, so that searches fetch no others."""

from collections.abc import Iterable, Mapping
from typing import Any

import strawberry
from graphql import get_named_type
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_subfields
from graphql.execution.values import VariableValues

from graphql_api.model import EntitySpec, camel_case
from graphql_api.schema.graphql_names import property_name

Info = strawberry.Info[Any, Any]
Paths = Iterable[tuple[str, ...]]
"""Paths of fields from the resolved field to its records."""

PAGE: Paths = (("items",), ("edges", "node"))
RECORD: Paths = ((),)


def selected_properties(entity: EntitySpec, info: Info, paths: Paths) -> frozenset[str] | None:
    """Return the Python names of the properties that a selection of records reads.

    None if the selection contains a field of the developer, which can read any property.
    """
    sources = source_properties(entity)
    names = {name for name in selected_fields(info, paths) if not name.startswith("__")}
    return frozenset[str]().union(*map(sources.__getitem__, names)) if names <= sources.keys() else None


def shown_properties(
    entity: EntitySpec, info: Info, paths: Paths = RECORD, type_name: str | None = None
) -> frozenset[str]:
    """Return the Python names of the properties that a field shows of its records; `id` counts for none.

    Empty if no property of the entity has rules. `type_name`: as of `selected_fields`.
    """
    if not entity.has_property_rules:
        return frozenset()
    names = selected_fields(info, paths, type_name) - {"id"}
    return frozenset[str]().union(*(parts for name, parts in source_properties(entity).items() if name in names))


def source_properties(entity: EntitySpec) -> Mapping[str, frozenset[str]]:
    """Return the properties from which each generated field of a record is resolved."""
    sources = {property_name(name): frozenset((name,)) for name in entity.properties}
    sources |= {camel_case(name): frozenset(part.name for part in join.by) for name, join in entity.joins.items()}
    has_generations = entity.created is not None and len(entity.space.generations) > 1
    created = (entity.created,) if entity.created is not None and has_generations else ()
    return {**sources, "id": frozenset(part.name for part in (*entity.primary_key, *created))}


def selected_fields(info: Info, paths: Paths, type_name: str | None = None) -> frozenset[str]:
    """Return the names of the fields that are selected at the end of the paths.

    `type_name`: the type of the record there, if records of several types can be there.
    """
    raw: Any = info._raw_info  # noqa: SLF001 - no public API
    variables = VariableValues({}, raw.variable_values)
    fragments = {name: FragmentDetails(fragment) for name, fragment in raw.fragments.items()}

    def subfields(kind: Any, fields: list[FieldDetails], path: tuple[str, ...]) -> Iterable[str]:
        if not path and type_name is not None:
            kind = raw.schema.type_map[type_name]
        grouped, *_ = collect_subfields(raw.schema, fragments, variables, raw.operation, kind, fields)
        selected = [field for group in grouped.values() for field in group]
        if not path:
            return [field.node.name.value for field in selected]
        below = [field for field in selected if field.node.name.value == path[0]]
        return subfields(get_named_type(kind.fields[path[0]].type), below, path[1:])

    kind, nodes = get_named_type(raw.return_type), [FieldDetails(node, None) for node in raw.field_nodes]
    return frozenset(name for path in paths for name in subfields(kind, nodes, path))
