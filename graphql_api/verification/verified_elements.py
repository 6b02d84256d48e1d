"""What a verification may check: the elements of a table that are ready, by entity."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from graphql_api.evolution import (
    EntityRepair,
    RecordedElement,
    SchemaCopy,
    TableRecord,
    plan_repairs,
    served_version,
    unfinished_elements,
)
from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Catalog,
    EntitySpec,
    IndexSpec,
    PropertySpec,
    describe_element,
    entity_and_version,
)

_REPAIRED_KINDS = frozenset({"lookup", "unique", "foreign key", "current record"})
_KEYS = frozenset({HASH_ATTRIBUTE, RANGE_ATTRIBUTE})


@dataclass(frozen=True)
class VerifiedEntity:
    """What is verified of the records of one entity."""

    entity: EntitySpec
    """as all servers write it"""
    ready: EntitySpec
    """with the entries of ready indexes only"""
    computed: Mapping[str, str]
    """the attributes that ready indexes and derived properties determine, with the name of the element"""
    repair: EntityRepair
    """the ready constraints and the ready current record"""
    counters: tuple[PropertySpec, ...]
    other_keys: Mapping[str, str]
    """index keys that only records of other entities have, with the name of the index"""

    @cached_property
    def has_two_forms(self) -> bool:
        """Return whether stored index keys may differ from written ones, because an index is being built."""
        return len(self.ready.written_indexes) < len(self.entity.written_indexes)

    @property
    def maintains_history(self) -> bool:
        """Return whether current records are verified."""
        return self.repair.current is not None


class VerifiedElements:
    """The elements of a table, as one copy of its record and one catalog allow to verify them."""

    def __init__(self, copy: SchemaCopy, declared: Catalog) -> None:
        self.record: TableRecord = copy.record
        self.catalog: Catalog = copy.catalog
        self._ready = {key: one for key, one in copy.record.elements.items() if one.state == "ready"}
        self._blockers = copy.catalog.write_blockers
        self._declared = declared
        self._unknown = copy.unknown
        self._unready_derived = {
            name: {part.stored for part in _derived(entity) if entity.status_of(part.stored) is not None}
            for name, entity in copy.catalog.entities.items()
        }
        verified = [one for one in self._ready.values() if self._is_verified(one)]
        repaired = [one for one in verified if one.element.kind in _REPAIRED_KINDS and not self._parent_expires(one)]
        self._repairs = plan_repairs(copy.catalog, repaired)
        self._ids = frozenset(one.element.id for one in verified)
        self.entities: Mapping[str, VerifiedEntity] = {
            name: self._verified(entity)
            for name, entity in copy.catalog.entities.items()
            if name not in self._blockers and name not in copy.unknown
        }

    def is_known(self, entity: str) -> bool:
        """Return whether the table has an entity, of any catalog."""
        return entity in self.record.entities or entity in self.record.earlier

    def element(self, entity: str, kind: str, name: str) -> RecordedElement | None:
        """Return an element of the table, in any state."""
        return self.record.elements.get(f"{entity} {kind} {name}")

    def is_ready(self, recorded: RecordedElement) -> bool:
        """Return whether an element is verified."""
        return recorded.element.id in self._ids

    def left_out(self) -> Iterator[str]:
        """Yield one sentence for each entity and element that is not verified."""
        for name in sorted({*self.record.entities, *self.record.earlier} - self.catalog.entities.keys()):
            yield f"The entity {name} is not verified: {self._why_unknown(name)}."
        for name, status in self._blockers.items():
            yield f"The entity {name} is not verified. {describe_element(status)}"
        known = {name: data for name, data in self.record.entities.items() if name not in self._unknown}
        for status in unfinished_elements(replace(self.record, entities=known), self._declared):
            if status.state != "unchecked":
                yield describe_element(status)
        for recorded in self._ready.values():
            element = recorded.element
            if element.entity in self.entities and element.derived & self._unready_derived[element.entity]:
                yield f"The {element} is not verified: a derived property in it is not ready."
            elif self._parent_expires(recorded):
                yield f"The {element} is not verified: the records that it references expire."
        for name, entity in self.entities.items():
            if not self._owners_are_ready(entity.entity):
                reason = "its current record or its expiry is not ready"
                yield f"The constraints and lookups of {name} are not verified: {reason}."

    def _why_unknown(self, name: str) -> str:
        declared, version = entity_and_version(name)
        if declared not in self.catalog.by_declared_name:
            return "only other catalogs declare it"
        if version > served_version(self.record, declared):
            return "a replay builds this version"
        return "a later version has replaced it, and shardql migrate --drop removes it"

    def _parent_expires(self, recorded: RecordedElement) -> bool:
        """Return whether the records that a foreign key references expire: then it may reference nothing."""
        parent = self.catalog.entities.get(recorded.element.definition.get("parent", ""))
        return parent is not None and parent.ttl is not None

    def _is_verified(self, recorded: RecordedElement) -> bool:
        element = recorded.element
        names = self._unready_derived.get(element.entity)
        if names is None or element.entity in self._blockers:
            return False
        if element.kind == "derived property":
            return element.definition["stored"] not in names
        return not element.derived & names

    def _verified(self, entity: EntitySpec) -> VerifiedEntity:
        indexes = [index for index in entity.written_indexes if self._has_index(index)]
        own = {part.stored for part in _derived(entity)}
        derived = [one.element for one in self._ready.values() if one.element.kind == "derived property"]
        computed = {
            element.definition["stored"]: f"{element}"
            for element in derived
            if element.entity == entity.name and element.id in self._ids and element.definition["stored"] in own
        }
        given = {part.stored for part in entity.properties.values() if part.function is None}
        for index in indexes:
            for attribute in _generated_keys(index):
                if attribute not in given and index.physical is not None:
                    computed.setdefault(attribute, f"index {entity.name}.{index.physical}")
        ready = entity
        if entity.recorded is not None and len(indexes) < len(entity.written_indexes):
            ready = replace(entity, recorded=replace(entity.recorded, indexes=tuple(indexes)))
        repair = self._repairs.get(entity.name, EntityRepair(entity))
        if (repair.constraints or repair.lookups) and not self._owners_are_ready(entity):
            repair = EntityRepair(entity)
        counters = tuple(
            part for part in entity.counters if f"{entity.name} server-set {part.stored}.counter" in self._ids
        )
        return VerifiedEntity(entity, ready, computed, repair, counters, self._other_keys(entity))

    def _owners_are_ready(self, entity: EntitySpec) -> bool:
        """Return whether constraint items can be verified: they are owned by current records, and expire with them."""
        has_current = entity.written_current is None or f"{entity.name} current record current" in self._ids
        return has_current and (
            entity.ttl is None or f"{entity.name} server-set {entity.ttl.stored}.expiry" in self._ids
        )

    def _has_index(self, index: IndexSpec) -> bool:
        return index.physical is None or f"{index.entity} index {index.physical}" in self._ids

    def _other_keys(self, entity: EntitySpec) -> Mapping[str, str]:
        """Return the keys of ready indexes of other entities, unless records of this one may have the attribute."""
        elements = [one.element for one in self.record.elements.values()]
        own = {part.stored for part in entity.properties.values()} | entity.known_attributes | _KEYS
        own |= {one.name for one in elements if one.kind == "property" and one.entity == entity.name}
        found: dict[str, str] = {}
        for recorded in self._ready.values():
            element, data = recorded.element, recorded.element.definition
            if element.kind == "index" and element.entity != entity.name:
                generated = [data["hashAttribute"], *(() if data["isRaw"] else (data["rangeAttribute"],))]
                found |= {name: f"{element}" for name in generated if name not in own}
        return found


def _derived(entity: EntitySpec) -> Iterator[PropertySpec]:
    return (part for part in entity.properties.values() if part.function is not None)


def _generated_keys(index: IndexSpec) -> frozenset[str]:
    """Return the attributes of records that hold only keys of an index."""
    names = {index.hash_attribute} if index.raw else {index.hash_attribute, index.range_attribute}
    return frozenset(names - _KEYS)
