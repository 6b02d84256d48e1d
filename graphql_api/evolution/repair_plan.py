"""What a pass that builds or verifies elements does with the records of each entity."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.evolution.shard_generations import beginning
from graphql_api.evolution.table_record import RecordedElement
from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Catalog,
    Entity,
    EntitySpec,
    IndexSpec,
    RecordedElements,
    decode_record,
)
from graphql_api.storage import Item, values_equal
from graphql_api.writes import to_item, unknown_attributes, with_new_write_id

TABLE_KEYS = frozenset({HASH_ATTRIBUTE, RANGE_ATTRIBUTE})
CONSTRAINTS = frozenset({"unique", "foreign key"})


@dataclass(frozen=True, slots=True)
class EntityRepair:
    """What a pass over the table does with the records of one entity."""

    entity: EntitySpec
    computed: tuple[str, ...] = ()
    """ids of indexes, derived properties and unverified properties: records must have the right computed attributes"""
    attributes: frozenset[str] = frozenset()
    """the computed attributes"""
    constraints: Mapping[str, EntitySpec] = field(default_factory=dict)
    """by element: the entity with only this constraint, which is checked as if it were ready"""
    lookups: Mapping[str, EntitySpec] = field(default_factory=dict)
    """by element: the entity with only this lookup, whose mapping items are compared with the records"""
    current: RecordedElement | None = None
    generations: Mapping[str, Any] = field(default_factory=dict)
    """by element: the creation value from which on the generation places records"""
    placed: tuple[str, ...] = ()
    """ids of unverified generations: each record must lie in the shard of its creation value"""

    @property
    def only_rewrites(self) -> bool:
        """Return whether the repair changes only the record itself."""
        return not (self.constraints or self.lookups or self._moves_mappings) and self.current is None

    @property
    def _moves_mappings(self) -> bool:
        """Return whether a computed property determines mapping items, which change with it."""
        derived = {part.stored for part in self.entity.properties.values() if part.function is not None}
        mapped = {part.stored for lookup in self.entity.written_lookups for part in lookup.hash}
        return bool(self.computed) and not derived.isdisjoint(mapped)


def plan_repairs(catalog: Catalog, elements: Iterable[RecordedElement]) -> dict[str, EntityRepair]:
    """Return what a pass that builds or verifies these elements does, by the name of each entity it concerns."""
    found = [*elements]
    repairs = {name: _plan_entity(entity, found) for name, entity in catalog.entities.items()}
    return {name: repair for name, repair in repairs.items() if repair != EntityRepair(repair.entity)}


def _plan_entity(entity: EntitySpec, elements: Sequence[RecordedElement]) -> EntityRepair:
    own = [recorded for recorded in elements if recorded.element.entity == entity.name]
    ids = {kind: [one.element.id for one in own if one.element.kind == kind] for kind in {o.element.kind for o in own}}
    names = {one.element.id for one in own}
    # The expiry of a record is stored in its constraint items too.
    has_new_expiry = any(one.element.kind == "server-set" and one.element.name.endswith(".expiry") for one in own)
    bare = replace(entity, unique=(), foreign_keys=())
    constraints = {
        f"{entity.name} unique {unique.name}": replace(bare, unique=(replace(unique, is_ready=True),))
        for unique in entity.unique
        if has_new_expiry or f"{entity.name} unique {unique.name}" in names
    }
    constraints |= {
        f"{entity.name} foreign key {key.name}": replace(bare, foreign_keys=(replace(key, is_ready=True),))
        for key in entity.foreign_keys
        if has_new_expiry or f"{entity.name} foreign key {key.name}" in names
    }
    lookups = {
        f"{entity.name} lookup {lookup.lookup}": with_lookups(entity, (lookup,))
        for lookup in entity.written_lookups
        if has_new_expiry or f"{entity.name} lookup {lookup.lookup}" in names
    }
    computed = (*ids.get("index", ()), *ids.get("derived property", ()), *ids.get("property", ()))
    spaces = {entity.name, *(index.hash_entity for index in entity.written_indexes if index.is_sharded)}
    generations = {
        one.element.id: beginning(one.element)[1]
        for one in elements
        if one.element.kind == "generation" and one.state == "building" and one.element.entity in spaces
    }
    current = next((one for one in own if one.element.kind == "current record"), None)
    return EntityRepair(
        entity,
        computed,
        computed_attributes(entity) if computed else frozenset(),
        constraints,
        lookups,
        current,
        generations if entity.created is not None else {},
        tuple(one.element.id for one in own if one.element.kind == "generation" and one.state == "ready"),
    )


def with_lookups(entity: EntitySpec, lookups: tuple[IndexSpec, ...]) -> EntitySpec:
    """Return an entity whose writes store the mapping items of these lookups only."""
    recorded = entity.recorded or RecordedElements(entity.written_indexes)
    return replace(entity, recorded=replace(recorded, lookups=lookups))


def computed_attributes(entity: EntitySpec) -> frozenset[str]:
    """Return the attributes of records that are computed: derived properties, and keys of indexes."""
    given = {part.stored for part in entity.properties.values() if part.function is None}
    derived = {part.stored for part in entity.properties.values() if part.function is not None}
    keys = {
        name
        for index in entity.written_indexes
        for name in (index.hash_attribute, *(() if index.raw else (index.range_attribute,)))
    }
    return frozenset((derived | keys) - given - TABLE_KEYS)


def recomputed(entity: EntitySpec, item: Item, tenant: str | None, decoded: Entity | None = None) -> Item:
    """Return the item that a write of a stored record would produce, without a write id."""
    record = decode_record(entity, item) if decoded is None else decoded
    return to_item(entity, record, tenant, "", unknown_attributes(entity, item))


def rewritten(repair: EntityRepair, item: Item, tenant: str | None) -> Item:
    """Return a record with its computed attributes; the same item if they are right.

    Properties keep their values, and unknown attributes stay.
    """
    entity = repair.entity
    fresh = recomputed(entity, item, tenant)
    right = {name: fresh[name] for name in repair.attributes & fresh.keys()}
    new = {**{name: value for name, value in item.items() if name not in repair.attributes}, **right}
    for index in entity.written_indexes:
        if index.raw and index.range_attribute in fresh:
            new.setdefault(index.range_attribute, fresh[index.range_attribute])  # the default of a missing property
    return item if values_equal(item, new) else with_new_write_id(new)
