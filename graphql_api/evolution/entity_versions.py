"""Versions of entities in the table's record: which one servers read and write, and which ones are replayed or old.

A version is an element. Its states: `building` while a replay writes it, `switching` while no server writes the version
that it replaces, and `ready` from the switch on. Servers read and write the last one that is ready.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from graphql_api.evolution.elements import Data, Element, ElementKind
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.model import Catalog, EntitySpec, entity_and_version, versioned_name

KIND: ElementKind = "entity version"


def version_element(entity: str, version: int, definition: Data | None = None) -> Element:
    """Return the element of a version. `entity`: the declared name."""
    return Element(KIND, entity, f"{version}", definition or {})


def versions_of(record: TableRecord) -> Mapping[str, Mapping[int, RecordedElement]]:
    """Return the recorded versions of each entity. An entity that was never replayed has none."""
    found: dict[str, dict[int, RecordedElement]] = defaultdict(dict)
    for recorded in record.elements.values():
        if recorded.element.kind == KIND:
            found[recorded.element.entity][int(recorded.element.name)] = recorded
    return found


def served_version(record: TableRecord, entity: str) -> int:
    """Return the version of an entity that servers read and write."""
    return _served(versions_of(record).get(entity, {}))


def _served(versions: Mapping[int, RecordedElement]) -> int:
    return max((number for number, recorded in versions.items() if recorded.state == "ready"), default=1)


def served_catalog(catalog: Catalog, record: TableRecord) -> Catalog:
    """Return a catalog with the versions of its entities that servers of the table read and write.

    An entity that the table does not know begins with the version that the catalog declares.
    """
    recorded = versions_of(record)
    versions = {}
    for name, declared in catalog.declared.entities.items():
        if name in catalog.pinned:
            _, versions[name] = entity_and_version(catalog.by_declared_name[name].name)
        elif name in recorded or name in record.entities or name in record.earlier:
            versions[name] = _served(recorded.get(name, {}))
        else:
            versions[name] = declared.declared_version
    return catalog.with_versions(versions)


def first_versions(catalog: Catalog, record: TableRecord) -> Iterator[RecordedElement]:
    """Yield the versions of entities that a catalog adds to the record: those of new entities, and a replayed one."""
    recorded = versions_of(record)
    for name, entity in served_catalog(catalog, record).by_declared_name.items():
        version = entity.declared_version
        if name in catalog.pinned and version not in recorded.get(name, {}):
            yield RecordedElement(version_element(name, version), "building", 0)
        elif version > 1 and not (name in recorded or name in record.entities or name in record.earlier):
            yield RecordedElement(version_element(name, version), "ready", 0)


def differs(entity: EntitySpec) -> bool:
    """Return whether servers use another version of an entity than its class declares."""
    return entity.name != versioned_name(entity.declared_name, entity.declared_version)


def switching_version(record: TableRecord, entity: str) -> RecordedElement | None:
    """Return the version that is about to replace the served one: until then, no server writes the entity."""
    versions = versions_of(record).get(entity, {})
    return next((recorded for recorded in versions.values() if recorded.state == "switching"), None)


def is_old(recorded: RecordedElement, record: TableRecord) -> bool:
    """Return whether an element is a version of an entity that a later one has replaced."""
    element = recorded.element
    return element.kind == KIND and int(element.name) < served_version(record, element.entity)


def stored_entity(version: Element) -> str:
    """Return the name in the table of the records of a version."""
    return versioned_name(version.entity, int(version.name))


def elements_with_records(versions: list[RecordedElement], record: TableRecord) -> list[RecordedElement]:
    """Return versions that are dropped, and the elements of their records."""
    names = {stored_entity(one.element) for one in versions if one.element.kind == KIND}
    own = [one for name in sorted(names) for one in record.of_entity(name) if one.element.kind != KIND]
    return [*versions, *(one for one in own if one not in versions)]
