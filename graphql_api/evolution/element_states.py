"""The elements of the table's record that concern one catalog: which are maintained, and which are not ready."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from graphql_api.evolution.derived_versions import DerivedVersions
from graphql_api.evolution.elements import Data, Element, ElementKind, declared_elements
from graphql_api.evolution.entity_versions import switching_version, versions_of
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.model import UNREACHABLE, Catalog, ElementStatus, EntitySpec, IndexSpec, entity_and_version


class ElementStates:
    """The recorded elements by entity and kind, and the statuses of the declared ones."""

    def __init__(self, declared: Catalog, record: TableRecord) -> None:
        self._declared = declared
        self._record = record
        self._own = declared_elements(declared)
        self._elements: dict[tuple[str, ElementKind], list[RecordedElement]] = defaultdict(list)
        for recorded in record.elements.values():
            self._elements[recorded.element.entity, recorded.element.kind].append(recorded)

    def of(self, entity: str, kind: ElementKind) -> list[RecordedElement]:
        """Return the recorded elements of one kind."""
        return self._elements.get((entity, kind), [])

    def maintained(self, entity: str, kind: ElementKind) -> Iterator[RecordedElement]:
        """Yield the recorded elements of one kind that all writes maintain."""
        return (one for one in self.of(entity, kind) if one.is_maintained)

    def declares(self, recorded: RecordedElement) -> bool:
        """Return whether this catalog declares an element with the recorded definition."""
        own = self._own.get(recorded.element.id)
        return own is not None and own.fits(recorded.element)

    def status(self, entity: str, kind: ElementKind, name: str) -> ElementStatus | None:
        """Return the status of a declared element, or None if it is ready."""
        element = self._own[Element(kind, entity, name).id]
        recorded = self._record.elements.get(element.id)
        if recorded is None:
            return ElementStatus(f"{element}", "absent")
        if not recorded.element.fits(element):
            return ElementStatus(f"{element}", UNREACHABLE if element.is_apart_from(recorded.element) else "replaced")
        return None if recorded.state == "ready" else ElementStatus(f"{element}", recorded.state)

    def _index_status(self, index: IndexSpec) -> ElementStatus | None:
        if index.lookup is not None:
            return self.status(index.entity, "lookup", index.lookup)
        return None if index.physical is None else self.status(index.entity, "index", index.physical)

    def server_set(self, entity: str) -> Iterator[tuple[str, str, Data | None]]:
        """Yield role, stored name and definition of the properties that servers set or protect; None: no scalar."""
        for recorded in self.maintained(entity, "server-set"):
            data = recorded.element.definition
            yield recorded.element.name.rpartition(".")[2], data["stored"], next(iter(data["parts"]), None)

    def derived_versions(self, entity: EntitySpec) -> DerivedVersions:
        """Return the versions of the derived properties of an entity."""
        used = (
            name
            for kind in ("index", "lookup", "unique", "foreign key")
            for one in self.maintained(entity.name, kind)
            for name in one.element.derived
        )
        return DerivedVersions(entity, self.of(entity.name, "derived property"), frozenset(used))

    def not_ready(self, indexes: Mapping[str, IndexSpec], versions: DerivedVersions) -> dict[str, ElementStatus]:
        """Return the statuses of the indexes and derived properties that searches may not use."""
        not_ready = dict(versions.not_ready)
        for index in indexes.values():
            status = self._index_status(index)
            keys = (*index.hash, *index.range_properties)
            status = status or next((found for part in keys if (found := versions.not_ready.get(part.stored))), None)
            not_ready |= {} if status is None else {index.attribute: status}
        return not_ready

    def unready_unique(self, declared: EntitySpec, versions: DerivedVersions) -> dict[str, ElementStatus]:
        """Return the statuses of the declared unique constraints by which no record can be read."""
        statuses: dict[str, ElementStatus] = {}
        for unique in declared.unique:
            of_parts = (versions.not_ready.get(part.stored) for part in unique.parts)
            status = self.status(declared.name, "unique", unique.name) or next(filter(None, of_parts), None)
            statuses |= {} if status is None else {unique.name: status}
        return statuses

    def unkept_properties(self, entity: EntitySpec) -> dict[str, ElementStatus]:
        """Return the properties whose values other servers may erase: new ones, and those that are removed."""
        statuses = {
            part.stored: status
            for part in entity.properties.values()
            if (status := self.status(entity.name, "property", part.stored)) is not None
        }
        for part in filter(None, (entity.version, entity.updated)):
            if part.stored in statuses and statuses[part.stored].state != "announced":
                del statuses[part.stored]  # Servers set it, so that no value of a caller is lost.
        return statuses

    def hidden_current(self, entity: str) -> RecordedElement | None:
        """Return the current records that searches leave out, from `announced` on: others may write them already."""
        return next(iter(self.of(entity, "current record")), None)

    def write_blocker(self, entity: EntitySpec) -> ElementStatus | None:
        """Return an element because of which this server cannot write an entity."""
        return self._unreachable_lookup(entity.name) or self._unwritable_version(entity)

    def _unreachable_lookup(self, entity: str) -> ElementStatus | None:
        """Return a lookup whose mapping items are in a store that this server has not opened."""
        for recorded in self.maintained(entity, "lookup"):
            if recorded.element.definition.get("store") != self._declared.lookup_store:
                return ElementStatus(f"{recorded.element}", UNREACHABLE)
        return None

    def _unwritable_version(self, entity: EntitySpec) -> ElementStatus | None:
        """Return the version that is about to replace the one that is served, or a replayed one that is dropped."""
        name = entity.declared_name
        if name not in self._declared.pinned:
            switching = switching_version(self._record, name)
            return None if switching is None else ElementStatus(f"{switching.element}", switching.state)
        _, version = entity_and_version(entity.name)
        replayed = versions_of(self._record).get(name, {}).get(version)
        if replayed is None or replayed.state not in {"closing", "dropping"}:
            return None
        return ElementStatus(f"{replayed.element}", replayed.state)
