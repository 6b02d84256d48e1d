"""The catalog that a server acts on: its own one, merged with the table's record.

Writes maintain every recorded element, declared here or not. Searches use only what is ready. Shard spaces, parents
and children come from the record.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from graphql_api.evolution.element_states import ElementStates
from graphql_api.evolution.elements import (
    Data,
    foreign_key_from_data,
    index_from_data,
    lookup_from_data,
    part_from_data,
    parts_from_data,
    unique_from_data,
)
from graphql_api.evolution.entity_versions import served_catalog
from graphql_api.evolution.shard_generations import SPACE_STATES, recorded_space
from graphql_api.evolution.table_record import TableRecord
from graphql_api.model import (
    HASH_ATTRIBUTE,
    NEWER,
    RANGE_ATTRIBUTE,
    Catalog,
    ElementStatus,
    Entity,
    EntitySpec,
    ForeignKeySpec,
    IndexSpec,
    PropertySpec,
    RecordedElements,
    SortProperty,
    UniqueSpec,
)
from graphql_api.sharding import ShardSpace
from graphql_api.storage import RangeType


def effective_catalog(catalog: Catalog, record: TableRecord) -> Catalog:
    """Return the catalog that a server with this copy of the table's record acts on."""
    return _Merge(served_catalog(catalog, record), record).catalog()


class _Merge:
    """Merges one catalog with one record."""

    def __init__(self, declared: Catalog, record: TableRecord) -> None:
        self._declared = declared
        self._record = record
        self._states = ElementStates(declared, record)
        self._spaces: dict[str, ShardSpace] = {}

    def catalog(self) -> Catalog:
        """Return the merged catalog."""
        merged = {name: self._merged(entity) for name, entity in self._declared.entities.items()}
        entities = {**self._unknown_entities(), **merged}
        keys_of_table = (one.element for one in self._record.elements.values() if one.element.kind == "foreign key")
        parents = {
            name: replace(entities[name], joins=MappingProxyType({}), foreign_keys=(), children=())
            for name in {element.definition["parent"] for element in keys_of_table} & entities.keys()
        }
        keys = {
            name: replace(entity, foreign_keys=tuple(self._foreign_keys(entity, parents)), children=())
            for name, entity in entities.items()
        }
        children: dict[str, list[EntitySpec]] = defaultdict(list)
        for child in keys.values():
            for parent in dict.fromkeys(key.parent.name for key in child.foreign_keys):
                children[parent].append(child)
        return self._declared.with_entities(
            {name: replace(keys[name], children=tuple(children[name])) for name in merged}
        )

    # --- entities ----------------------------------------------------------------------------------------------

    def _unknown_entities(self) -> Mapping[str, EntitySpec]:
        """Return the entities that only other catalogs declare, as far as foreign keys need them."""
        keys = [one.element for one in self._record.elements.values() if one.element.kind == "foreign key"]
        names = {name for element in keys for name in element.concerned} - self._declared.entities.keys()
        entities = self._record.entities
        return {name: self._unknown_entity(name, entities[name]) for name in sorted(names) if name in entities}

    def _unknown_entity(self, name: str, data: Data) -> EntitySpec:
        ids, sub_ids = parts_from_data(data["ids"]), parts_from_data(data["subIds"])
        primary = IndexSpec(
            entity=name,
            attribute="by_id",
            name="id",
            physical=None,
            hash_attribute=HASH_ATTRIBUTE,
            range_attribute=RANGE_ATTRIBUTE,
            hash_entity=name,
            space=self._space(name),
            id_prefix=ids if sub_ids else (),
            sort=tuple(map(SortProperty, sub_ids or ids)),
        )
        return EntitySpec(
            name=name,
            type_name=data["typeName"],
            model=Entity,
            description=None,
            properties=MappingProxyType({part.name: part for part in (*ids, *sub_ids)}),
            ids=ids,
            sub_ids=sub_ids,
            created=None if data["created"] is None else part_from_data(data["created"]),
            space=self._space(name),
            indexes=MappingProxyType({"by_id": primary}),
            current=next(
                (one.element.definition["subId"] for one in self._states.maintained(name, "current record")), None
            ),
            ttl=next(
                (part_from_data(part) for role, _, part in self._states.server_set(name) if part and role == "expiry"),
                None,
            ),
        )

    def _merged(self, declared: EntitySpec) -> EntitySpec:
        """Return a declared entity with the elements of the table, but its foreign keys and children."""
        versions = self._states.derived_versions(declared)
        entity = self._with_roles(_with_properties(declared, versions.properties))
        entity, misplaced = self._with_creation_property(entity)
        indexes = {
            name: replace(index, space=self._space(index.hash_entity))
            if index.is_sharded and index.space != self._space(index.hash_entity)
            else index
            for name, index in entity.indexes.items()
        }
        unions = {
            name: replace(union, members=tuple(indexes[member.attribute] for member in union.members))
            for name, union in entity.unions.items()
        }
        own = {part.stored for part in entity.properties.values()}
        inherited = [
            (role, part_from_data(part))
            for role, stored, part in self._states.server_set(entity.name)
            if stored not in own and part is not None
        ]
        current = None if entity.current is None else self._states.status(entity.name, "current record", "current")
        version = None
        if declared.version is not None:
            version = self._states.status(entity.name, "server-set", f"{declared.version.stored}.version")
        hidden = self._states.hidden_current(entity.name)
        if hidden is not None and not self._states.declares(hidden):
            entity = replace(entity, current=hidden.element.definition["subId"])
        else:
            hidden = None
        written = tuple(self._written_indexes(entity, indexes))
        return replace(
            entity,
            space=self._space(entity.name),
            indexes=MappingProxyType(indexes),
            unions=MappingProxyType(unions),
            ttl=entity.ttl or next((part for role, part in inherited if role == "expiry"), None),
            unique=tuple(self._unique(entity)),
            recorded=RecordedElements(
                indexes=(indexes["by_id"], *written),
                lookups=tuple(self._written_lookups(entity, indexes)),
                not_ready=MappingProxyType(self._states.not_ready(indexes, versions)),
                unready_unique=MappingProxyType(self._states.unready_unique(declared, versions)),
                current=current,
                version=version,
                inherited=tuple((role, part) for role, part in inherited if role in {"version", "updated"}),
                has_unknown_properties=any(
                    one.element.name not in own for one in self._states.of(entity.name, "property")
                ),
                write_blocker=versions.uncomputable or misplaced or self._states.write_blocker(entity),
                generated_attributes=self._generated_attributes(entity),
                raw_keys=self._raw_keys,
                new_generations=tuple(self._new_generations(entity, written)),
                maintains_current=any(self._states.maintained(entity.name, "current record")),
                changes_current=any(
                    one.state != "ready" for one in self._states.maintained(entity.name, "current record")
                ),
                hides_current=current is not None or hidden is not None,
                unkept_properties=self._states.unkept_properties(entity),
            ),
        )

    def _with_roles(self, entity: EntitySpec) -> EntitySpec:
        """Return an entity whose properties have the roles that the table maintains, also those of other catalogs.

        Servers set a declared property only from then on, unless records need it.
        """
        own = {part.stored: part for part in entity.properties.values()}
        maintained = {
            (role, own[stored].name) for role, stored, _ in self._states.server_set(entity.name) if stored in own
        }
        changes: dict[str, PropertySpec] = {}
        for part in own.values():
            if ("immutable", part.name) in maintained and not part.immutable:
                changes[part.name] = replace(part, roles=part.roles | {"immutable"})
        entity = _with_properties(entity, changes)

        def property_with(role: str, declared: PropertySpec | None) -> PropertySpec | None:
            if declared is not None and ((role, declared.name) in maintained or entity.requires(declared)):
                return declared
            return next((entity.properties[name] for other, name in sorted(maintained) if other == role), None)

        return replace(
            entity,
            version=property_with("version", entity.version),
            updated=property_with("updated", entity.updated),
            ttl=entity.ttl or property_with("expiry", None),
        )

    def _with_creation_property(self, entity: EntitySpec) -> tuple[EntitySpec, ElementStatus | None]:
        """Return an entity with the creation property of its generations, and one that this catalog cannot place."""
        recorded = next((one for one in self._states.of(entity.name, "generation") if one.state in SPACE_STATES), None)
        if recorded is None:
            return entity, None
        created = recorded.element.definition["created"]
        for part in entity.properties.values():
            if part.stored == created["stored"] and part.codec is not None and part.codec.name == created["codec"]:
                return (entity if part is entity.created else replace(entity, created=part)), None
        return entity, ElementStatus(f"{recorded.element}", NEWER) if recorded.is_maintained else None

    # --- elements ----------------------------------------------------------------------------------------------

    def _written_lookups(self, entity: EntitySpec, declared: Mapping[str, IndexSpec]) -> Iterator[IndexSpec]:
        own = {index.lookup: index for index in declared.values()}
        for recorded in self._states.maintained(entity.name, "lookup"):
            is_own = self._states.declares(recorded)
            yield own[recorded.element.name] if is_own else lookup_from_data(recorded.element)

    def _written_indexes(self, entity: EntitySpec, declared: Mapping[str, IndexSpec]) -> Iterator[IndexSpec]:
        own = {index.physical: index for index in declared.values()}
        for recorded in self._states.maintained(entity.name, "index"):
            if self._states.declares(recorded):
                yield own[recorded.element.name]
            else:
                yield index_from_data(recorded.element, self._space(recorded.element.definition["hashEntity"]))

    def _generated_attributes(self, entity: EntitySpec) -> frozenset[str]:
        definitions = [one.element.definition for one in self._states.of(entity.name, "index")]
        generated = {data["hashAttribute"] for data in definitions}
        generated |= {data["rangeAttribute"] for data in definitions if not data["isRaw"]}
        # A server that cannot compute a derived property removes its value, which would be stale.
        derived = {one.element.definition["stored"] for one in self._states.of(entity.name, "derived property")}
        return frozenset(generated | derived)

    @cached_property
    def _raw_keys(self) -> Mapping[str, RangeType]:
        """The attributes that physical indexes have as keys, and that hold stored values."""
        indexes = (one for one in self._record.elements.values() if one.element.kind == "index")
        raw = (
            one.element.definition for one in indexes if one.state != "announced" and one.element.definition["isRaw"]
        )
        return MappingProxyType({data["rangeAttribute"]: data["rangeType"] for data in raw})

    def _unique(self, entity: EntitySpec) -> Iterator[UniqueSpec]:
        own = {unique.name: unique for unique in entity.unique}
        for recorded in self._states.maintained(entity.name, "unique"):
            unique = (
                own[recorded.element.name] if self._states.declares(recorded) else unique_from_data(recorded.element)
            )
            yield unique if recorded.state == "ready" else replace(unique, is_ready=False)

    def _foreign_keys(self, entity: EntitySpec, parents: Mapping[str, EntitySpec]) -> Iterator[ForeignKeySpec]:
        own = {key.name: key for key in entity.foreign_keys}
        for recorded in self._states.maintained(entity.name, "foreign key"):
            parent = parents.get(recorded.element.definition["parent"])
            if parent is None:
                continue
            if self._states.declares(recorded):
                key = replace(own[recorded.element.name], parent=parent)
            else:
                key = foreign_key_from_data(recorded.element, parent)
            yield key if recorded.state == "ready" else replace(key, is_ready=False)

    # --- shard spaces ------------------------------------------------------------------------------------------

    def _space(self, entity: str) -> ShardSpace:
        """Return the shard space of an entity: readers include generations that are announced."""
        if entity not in self._spaces:
            data = self._record.entities.get(entity)
            self._spaces[entity] = (
                self._declared.entities[entity].space
                if data is None
                else recorded_space(data, self._states.of(entity, "generation"))
            )
        return self._spaces[entity]

    def _new_generations(self, entity: EntitySpec, indexes: Iterable[IndexSpec]) -> Iterator[tuple[Any, ElementStatus]]:
        """Yield the first creation values of generations that are being built, and their status."""
        names = [entity.name, *(index.hash_entity for index in indexes if index.is_sharded)]
        for name in dict.fromkeys(names):
            space = self._space(name)
            building = {one.element.name: one for one in self._states.of(name, "generation") if one.state == "building"}
            for number, generation in enumerate(space.generations):
                recorded = building.get(f"{number}")
                if recorded is not None:
                    yield generation.since, ElementStatus(f"{recorded.element}", recorded.state)


def _with_properties(entity: EntitySpec, changes: Mapping[str, PropertySpec]) -> EntitySpec:
    """Return an entity with other specifications of some properties, by Python name, wherever it has them."""
    if not changes:
        return entity

    def one(part: PropertySpec | None) -> PropertySpec | None:
        return None if part is None else changes.get(part.name, part)

    def every(parts: Iterable[PropertySpec]) -> tuple[PropertySpec, ...]:
        return tuple(changes.get(part.name, part) for part in parts)

    indexes = {
        name: replace(
            index,
            hash=every(index.hash),
            id_prefix=every(index.id_prefix),
            sort=tuple(
                SortProperty(changes.get(part.property.name, part.property), part.descending) for part in index.sort
            ),
            tie_breaker=every(index.tie_breaker),
        )
        for name, index in entity.indexes.items()
    }
    return replace(
        entity,
        properties=MappingProxyType({**entity.properties, **changes}),
        ids=every(entity.ids),
        sub_ids=every(entity.sub_ids),
        created=one(entity.created),
        indexes=MappingProxyType(indexes),
        ttl=one(entity.ttl),
        updated=one(entity.updated),
        version=one(entity.version),
        unique=tuple(replace(unique, parts=every(unique.parts)) for unique in entity.unique),
        foreign_keys=tuple(replace(key, by=every(key.by)) for key in entity.foreign_keys),
    )
