"""Describe a catalog as JSON for the data page: entities, searches, joins, input types and the rules for a caller."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import strawberry
from graphql import GraphQLSchema

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.model import (
    EntitySpec,
    IndexRef,
    IndexSpec,
    JoinSpec,
    PropertySpec,
    Rules,
    UnionSpec,
    camel_case,
    describe_element,
    element_remedy,
    status_data,
)
from graphql_api.playground.type_description import describe_types, selection_of
from graphql_api.schema import Graph, decide_without_record, describe_rule, property_name, record_field_name

PAGE_SIZE = 100
"""records of the page that costs are estimated for"""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The principal that the rules are applied to."""

    subject: str | None
    groups: frozenset[str]

    def access(self, rules: Rules | None) -> dict[str, Any]:
        """Return whether the rules allow all records, only own ones, or none, and the rules as text."""
        decision = decide_without_record(rules, self.subject, self.groups)
        allowed = "own" if decision is None else "all" if decision else "none"
        texts = None if rules is None else [*dict.fromkeys(map(describe_rule, rules))]
        return {"may": allowed, "rules": texts}


@dataclass(frozen=True, slots=True)
class CatalogDescription:
    """The description of the catalog of a graph, as far as it does not depend on the caller."""

    graph: Graph
    schema: GraphQLSchema

    @classmethod
    def of(cls, graph: Graph, schema: strawberry.Schema) -> "CatalogDescription":
        """Return the description of a schema that was built from the graph."""
        return cls(graph, schema._schema)  # noqa: SLF001 - no public API

    async def describe(self, database: Database, viewer: Viewer) -> dict[str, Any]:
        """Return the description, with the present states of elements and the rules as they apply to the caller."""
        specs = database.effective_catalog.by_declared_name
        entities = [
            await _EntityDescription(self.graph, self.schema, database, viewer, specs[name]).describe()
            for name in self.graph.catalog.entities
        ]
        return {
            "subject": viewer.subject,
            "groups": sorted(viewer.groups),
            "pages": self.graph.catalog.options.pages,
            "pageSize": PAGE_SIZE,
            "entities": entities,
            "types": describe_types(self.schema),
        }


@dataclass(frozen=True, slots=True)
class _EntityDescription:
    graph: Graph
    schema: GraphQLSchema
    database: Database
    viewer: Viewer
    entity: EntitySpec

    async def describe(self) -> dict[str, Any]:
        entity, names, access = self.entity, self.graph.names, self.viewer.access
        type_name = names.type_name(entity.type_name)
        return {
            "name": entity.type_name,
            "type": type_name,
            "description": entity.description,
            "read": access(entity.allow),
            "write": access(entity.write_rules),
            "ids": [property_name(part.name) for part in entity.ids],
            "subIds": [property_name(part.name) for part in entity.sub_ids],
            "separator": entity.separator,
            "current": entity.declared_current,
            "version": None if entity.version is None else property_name(entity.version.name),
            "shards": len(entity.space.covering_shards()),
            "generations": len(entity.space.generations),
            "record": names.record_field(entity),
            "filter": names.type_name(f"{entity.type_name}Filter"),
            "properties": [self._property(part) for part in entity.shown_properties.values()],
            "searches": [await self._search(search) for search in self._searches()],
            "joins": [self._join(join) for join in entity.joins.values()],
            "unique": [[property_name(part.name) for part in one.parts] for one in entity.unique],
            "foreignKeys": [
                {"parent": key.parent.type_name, "by": [property_name(part.name) for part in key.by]}
                for key in entity.foreign_keys
            ],
            "mutations": self._mutations(),
            "unready": [*self._unready()],
        }

    def _property(self, part: PropertySpec) -> dict[str, Any]:
        name = property_name(part.name)
        kind = self.schema.type_map[self.graph.names.type_name(self.entity.type_name)].fields[name].type  # type: ignore[attr-defined]
        roles = {*part.roles} | ({"derived"} if part.function is not None else set())
        roles |= {"counter"} if part.counter_group is not None else set()
        return {
            "name": name,
            "type": str(kind),
            "selection": selection_of(kind),
            "description": part.description,
            "roles": sorted(map(str, roles)),
            "read": self.viewer.access(part.allow),
        }

    # --- searches ----------------------------------------------------------------------------------------------

    def _searches(self) -> Iterator[IndexSpec | UnionSpec]:
        for search in self.entity.searches:
            if isinstance(search, UnionSpec) or search.physical is not None or self.entity.primary_key:
                yield search

    async def _search(self, search: IndexSpec | UnionSpec) -> dict[str, Any]:
        index = search.members[0] if isinstance(search, UnionSpec) else search
        members = search.members if isinstance(search, UnionSpec) else (search,)
        field = self.graph.names.search_field(self.entity, search)
        return {
            "field": field,
            "attribute": search.attribute,
            "name": search.name,
            "members": [member.name for member in search.members] if isinstance(search, UnionSpec) else None,
            "isPrimary": index.is_primary,
            "required": [*self._required(index, field)],
            "sort": [] if isinstance(search, UnionSpec) else [*map(_sort_property, index.sort)],
            "tieBreaker": [property_name(part.name) for part in index.tie_breaker],
            "carries": None if all(each.projection == "ALL" for each in members) else self._carried(members),
            "isSharded": index.is_sharded,
            "read": self.viewer.access(self.entity.allow if search.allow is None else search.allow),
            "unready": next(filter(None, (self._status(member.attribute) for member in members)), None),
            "cost": await self._cost(search, index),
        }

    def _required(self, index: IndexSpec, field: str) -> Iterator[dict[str, Any]]:
        arguments = self.schema.query_type.fields[field].args if self.schema.query_type is not None else {}
        if index.id_prefix:
            properties = [property_name(part.name) for part in index.id_prefix]
            yield {"argument": "id", "properties": properties, "type": str(arguments["id"].type)}
        for part in index.hash:
            name = self.graph.names.naming.property_argument(part.name)
            yield {"argument": name, "properties": [property_name(part.name)], "type": str(arguments[name].type)}

    def _carried(self, members: Sequence[IndexSpec]) -> list[str]:
        """Return the properties that the entries of all these indexes contain."""
        carried: list[str] = []
        for name, part in self.entity.shown_properties.items():
            if all(_carries(index, part) for index in members):
                carried.append(property_name(name))
        return carried

    async def _cost(self, search: IndexSpec | UnionSpec, index: IndexSpec) -> dict[str, Any] | None:
        """Return the estimated units of a page, for sample values; None if there is no estimate."""
        values: dict[str, Any] = {part.name: part.column.codec.sample("cost") for part in index.required}
        reference: Any = IndexRef(self.entity.model, search.attribute)
        try:
            estimate = await self.database.estimate(reference, limit=PAGE_SIZE, **values)
        except ShardQLError:
            return None
        return estimate.describe()

    def _status(self, attribute: str) -> dict[str, Any] | None:
        status = self.entity.status_of(attribute)
        if status is None:
            return None
        return {**status_data(status), "message": describe_element(status), "remedy": element_remedy(status)}

    def _unready(self) -> Iterator[Mapping[str, Any]]:
        recorded = self.entity.recorded
        statuses = {} if recorded is None else {status.element: status for status in recorded.not_ready.values()}
        for status in statuses.values():
            yield {**status_data(status), "message": describe_element(status), "remedy": element_remedy(status)}

    # --- joins and mutations -----------------------------------------------------------------------------------

    def _join(self, join: JoinSpec) -> dict[str, Any]:
        target = self.graph.catalog.entities[join.target]
        search = None if join.via is None else target.unions.get(join.via) or target.indexes[join.via]
        naming = self.graph.names.naming
        return {
            "name": camel_case(join.name),
            "kind": join.kind,
            "target": target.type_name,
            "description": join.description,
            "by": [property_name(part.name) for part in join.by],
            "arguments": ["id"]
            if isinstance(search, IndexSpec) and search.id_prefix
            else [naming.property_argument(name) for name in join.target_properties],
            "search": None if search is None else self.graph.names.search_field(target, search),
        }

    def _mutations(self) -> dict[str, Any]:
        """Return the mutations by verb, with the types of their arguments."""
        declared = {} if self.schema.mutation_type is None else self.schema.mutation_type.fields
        found = {}
        for verb in ("create", "update", "put", "delete"):
            name = self.graph.names.mutation_field(verb, self.entity)
            if name in declared:
                arguments = {name: str(one.type) for name, one in declared[name].args.items()}
                found[verb] = {"field": name, "arguments": arguments, "payload": record_field_name(self.entity)}
        return found


def _sort_property(part: Any) -> dict[str, Any]:
    return {
        "property": property_name(part.property.name),
        "descending": part.descending,
        "sources": [property_name(name) for name in part.property.input_names],
    }


def _carries(index: IndexSpec, part: PropertySpec) -> bool:
    if index.projection == "ALL" or part in index.hash or part in index.range_properties:
        return True
    return isinstance(index.projection, tuple) and part.stored in index.projection
