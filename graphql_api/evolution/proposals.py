"""Propose to a table's record what a catalog declares: pure functions from one record to the next."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphql_api.errors import WrongTable
from graphql_api.evolution.derived_versions import version_of, versions_in_force
from graphql_api.evolution.elements import (
    WITHOUT_EFFECT,
    Data,
    Element,
    declared_elements,
    derived_element,
    have_same_members,
    part_data,
    parts_data,
    with_more_members,
)
from graphql_api.evolution.entity_versions import differs, first_versions, served_catalog
from graphql_api.evolution.table_differences import changed_index_entries
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.model import Catalog, EntitySpec, redefinition_remedy
from graphql_api.storage import Item


def proposed(
    record: TableRecord, catalog: Catalog, missing: Collection[str] = (), *, has_leases: bool = False
) -> TableRecord:
    """Return the record with everything that a catalog declares; the same one if nothing is new.

    Elements of an entity that the table does not know are ready at once, unless they concern another, known entity, or
    need one of the `missing` physical indexes. So are properties: nothing must be built. With leases, they become ready
    when all servers know them; without a default, they are unchecked. All others are announced: `shardql migrate`
    builds them. An element that is being removed is not announced again.
    """
    known = adopted(record, catalog)
    catalog, first = served_catalog(catalog, known), [*first_versions(catalog, known)]
    entities = dict(known.entities)
    for entity in catalog.entities.values():
        if differs(entity):
            continue  # The class is that of another version: only a replay builds what it declares.
        data = entity_data(entity)
        entities[entity.name] = _merged_entity(entity, entities.get(entity.name, data), data)
    elements = {recorded.element.id: recorded for recorded in first}
    forgotten = set[str]()
    for element in _proposed_elements(known, catalog):
        stored = known.elements.get(element.id)
        if stored is not None and stored.element.fits(element):
            definition = with_more_members(stored.element.definition, element.definition)
            if definition is not stored.element.definition:
                elements[element.id] = replace(stored, element=replace(stored.element, definition=definition))
        elif stored is None or stored.state == "announced":
            check_keys(known, element)
            is_new = not any(name in known.entities for name in element.concerned)
            is_new &= element.kind != "index" or element.name not in missing
            is_ready = is_new or (element.kind == "property" and not has_leases)
            is_checked = is_new or not (element.kind == "property" and _is_required(catalog, element))
            elements[element.id] = RecordedElement(element, "ready" if is_ready else "announced", 0, is_checked)
            forgotten.update(_later_generations(known, element))
        elif stored.is_maintained and stored.state != "closing":
            _check_lookup_store(stored.element, element)
            raise WrongTable(
                f"The table has another definition of the {element}, which is {stored.state}: "
                f"{_difference(stored.element.definition, element.definition)}. {redefinition_remedy(element)}"
            )
    if not elements and entities == known.entities and known is record:
        return record
    return replace(known, entities=entities).changed(*elements.values(), forgotten=frozenset(forgotten))


def _check_lookup_store(stored: Element, declared: Element) -> None:
    """Refuse to open a table without the store that keeps the mapping items of its lookups, or with another one."""
    if stored.is_apart_from(declared):
        own, other = (one.definition.get("store") for one in (declared, stored))
        place = "the table itself" if other is None else f"the lookup store {other}"
        here = "no lookup store" if own is None else f"the lookup store {own}"
        raise WrongTable(
            f"The mapping items of the {stored} are in {place}, and the table was opened with {here}. Open it with the "
            "same --lookup-store as the other servers. A table keeps all its lookups in one place: to move them, "
            "remove the old ones first with: shardql migrate MODULE:CATALOG --store URL --drop"
        )


def _is_required(catalog: Catalog, element: Element) -> bool:
    entity = catalog.entities[element.entity]
    return any(part.stored == element.name and entity.requires(part) for part in entity.properties.values())


def _difference(stored: Data, declared: Data) -> str:
    """Return what differs first: `sort is town text in the table, and created timestamp in the catalog`."""
    for name in sorted(declared, key=lambda name: isinstance(declared[name], str)):  # names of attributes follow
        one, two = (_described(data.get(name)) for data in (stored, declared))
        if name not in WITHOUT_EFFECT and one != two:
            return f"{name} is {one} in the table, and {two} in the catalog"
    return "the members of an enum are others, or in another order"


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        default = f" default {value['default']!r}" if "default" in value else ""
        flags = (f" {name}" for name in ("descending", "derived") if value.get(name))
        return f"{value['stored']} {value['codec']}{default}{''.join(flags)}"
    return ", ".join(map(_described, value)) or "nothing" if isinstance(value, list | tuple) else f"{value}"


def _proposed_elements(record: TableRecord, catalog: Catalog) -> Iterator[Element]:
    """Yield the declared elements, but versions of derived properties that the table has replaced."""
    for element in declared_elements(catalog).values():
        if differs(catalog.entities[element.entity]):
            continue
        if element.kind == "derived property" and element.entity in record.entities:
            recorded = (one for one in record.of_entity(element.entity) if one.element.kind == element.kind)
            in_force = versions_in_force(recorded).get(element.definition["stored"])
            if in_force is not None and version_of(in_force) > element.definition["version"]:
                continue
            if in_force is not None and version_of(in_force) < element.definition["version"]:
                _check_previous(catalog.entities[element.entity], element, version_of(in_force))
        yield element


def _check_previous(entity: EntitySpec, element: Element, in_force: int) -> None:
    """Refuse a new version of a derived property if this catalog cannot compute the one before."""
    stored, version = element.definition["stored"], element.definition["version"]
    part = next(part for part in entity.properties.values() if part.stored == stored)
    if version != in_force + 1 or part.previous is None:
        raise WrongTable(
            f"{entity.type_name}.{part.name} has version {version} in the catalog, and {in_force} in the table. "
            f"Declare derived(…, version={in_force + 1}, previous=…) with the function of version {in_force}, which "
            "applies until the table is migrated; or declare another property in addition."
        )


def _later_generations(record: TableRecord, element: Element) -> Iterator[str]:
    """Yield the announced shard generations after one that is proposed: their own catalog proposes them again."""
    if element.kind == "generation":
        for key, recorded in record.elements.items():
            other = recorded.element
            is_later = (other.kind, other.entity) == ("generation", element.entity) and int(other.name) > int(
                element.name
            )
            if is_later and recorded.state == "announced":
                yield key


# --- entities --------------------------------------------------------------------------------------------------


def entity_data(entity: EntitySpec) -> Data:
    """Return what a server must know of an entity that its catalog does not declare."""
    return {
        "typeName": entity.type_name,
        "ids": parts_data(entity.ids),
        "subIds": parts_data(entity.sub_ids),
        "created": None if entity.created is None else part_data(entity.created),
        "width": entity.space.width,
        "function": entity.space.function,
        "size": entity.space.generations[0].size,
    }


_KEY_PARTS = {
    "ids": "the id",
    "subIds": "the sub id",
    "width": "shards of width",
    "function": "the shard function",
    "size": "the size of the first shard generation",
}
"""what determines the keys of records"""


def _merged_entity(entity: EntitySpec, stored: Data, declared: Data) -> Data:
    """Return the data of an entity. Refuse another form of its record keys: these can never change."""
    for name, text in _KEY_PARTS.items():
        if _shape(stored[name]) != _shape(declared[name]):
            raise WrongTable(
                f"{entity.type_name} was stored with {text} {_shape(stored[name])}, and the catalog declares "
                f"{_shape(declared[name])}: this can never change. Declare another entity, or use a new table."
            )
    if not have_same_members(stored, declared):
        raise WrongTable(
            f"{entity.type_name} was stored with other members of an enum in its key: their order can never change. "
            "Append new members at the end."
        )
    return with_more_members(stored, declared)


def check_replayable(record: TableRecord, catalog: Catalog, served: str, new: str) -> None:
    """Refuse to build the next version of an entity if that cannot be done without a wrong answer."""
    entity, elements = catalog.entities[new], [*declared_elements(catalog).values(), *_elements(record)]
    for element in elements:
        if element.kind == "foreign key" and element.definition["parent"] in {served, new}:
            raise WrongTable(
                f"{entity.type_name} cannot be replayed: the {element} refers to it, and would refer to the records of "
                "the version before. Remove the foreign key first."
            )
        if element.kind == "lookup" and element.entity == served and element.definition.get("store"):
            raise WrongTable(f"{entity.type_name} cannot be replayed: its lookups are in a second store.")
    if served not in record.entities:
        return
    stored, declared = record.entities[served], entity_data(entity)
    is_same = all(_shape(stored[name]) == _shape(declared[name]) for name in _KEY_PARTS)
    old, added = (
        {one.digest for one in elements if (one.kind, one.entity) == ("generation", name)} for name in (served, new)
    )
    if not is_same or old != added:
        raise WrongTable(
            f"{entity.type_name} has other ids or shards than the version that servers use, and a replay cannot change "
            "them. Declare those of that version, or another entity."
        )


def _elements(record: TableRecord) -> Iterator[Element]:
    return (recorded.element for recorded in record.elements.values())


def _shape(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ", ".join(f"{part['stored']} {part['codec']}" for part in value) or "of no property"
    return value if isinstance(value, str) else int(value)


# --- keys of indexes -------------------------------------------------------------------------------------------


def check_keys(record: TableRecord, added: Element) -> None:
    """Refuse an index whose keys or physical index would conflict with those of another index of the table.

    Announced indexes are only proposals: check them again before one of them is built.
    """
    if added.kind != "index":
        return
    own = dict(key_attributes(added))
    for recorded in record.elements.values():
        other = recorded.element
        if other.kind != "index" or recorded.state == "announced" or other.id == added.id:
            continue
        for attribute, composition in key_attributes(other) if other.entity == added.entity else ():
            if own.get(attribute, composition) != composition:
                raise WrongTable(
                    f"The {added} stores {attribute} as {own[attribute]}, and the {other} of the table "
                    f"stores it as {composition}. {redefinition_remedy(added)}"
                )
        if other.name == added.name:
            _check_shared_index(added, other)


def _check_shared_index(added: Element, other: Element) -> None:
    """Refuse to share a physical index with another entity, unless both agree on it."""
    for name in ("hashAttribute", "rangeAttribute", "rangeType", "projection"):
        needed, found = added.definition[name], other.definition[name]
        if needed != found:
            raise WrongTable(
                f"The {added} needs a physical index with {name} {needed!r}, and the {other} of the table uses it with "
                f"{found!r}. Declare another name= or slot= for one of them."
            )
    if added.definition["hashEntity"] == other.definition["hashEntity"]:
        raise WrongTable(
            f"The {added} and the {other} of the table have hash keys of {added.definition['hashEntity']!r} in one "
            "physical index. Declare another name= or slot= for one of them."
        )


def key_attributes(index: Element) -> Iterator[tuple[str, str]]:
    """Return the attributes of an index's entries, and how each is composed."""
    data = index.definition
    like_parent = " like its parent" if data["isShardedLikeParent"] else "" if data["isSharded"] else " unsharded"
    hashed = [f"{data['hashEntity']}{like_parent}", *(f"{part['stored']} {part['codec']}" for part in data["hash"])]
    yield data["hashAttribute"], ", ".join(hashed)
    if not data["isRaw"]:
        parts = [*data["sort"], *data["tieBreaker"]]
        sort = (f"{part['stored']} {part['codec']}{' desc' if part.get('descending') else ''}" for part in parts)
        yield data["rangeAttribute"], ", ".join(sort)


# --- tables of the earlier format ------------------------------------------------------------------------------


def taken_over(record: TableRecord, earlier: Item, catalog: Catalog) -> TableRecord:
    """Return the record for a table of the earlier format, which knows no elements."""
    indexes = earlier.get("indexes")
    formats: Mapping[str, Any] = {} if indexes is None else {"indexes": indexes}
    entities = {
        name: {**space, **{key: by_entity[name] for key, by_entity in formats.items() if name in by_entity}}
        for name, space in earlier["spaces"].items()
    }
    return adopted(replace(record, earlier=entities), catalog).changed()


def adopted(record: TableRecord, catalog: Catalog) -> TableRecord:
    """Return the record with the entities of the catalog that a record of the earlier format knew.

    What the catalog declares of them counts as ready, but unchecked: earlier releases served it so. New indexes, whose
    names are not recorded, and versions of derived properties are left to `proposed`.
    """
    known = {name: record.earlier[name] for name in record.earlier if name in catalog.entities}
    if not known:
        return record
    formats = {name: data["indexes"] for name, data in known.items() if "indexes" in data}
    for problem in changed_index_entries(formats, catalog):
        raise WrongTable(problem)
    entities = dict(record.entities)
    elements: list[Element] = []
    for name, data in known.items():
        entity = catalog.entities[name]
        first, *later = data["generations"]
        own = {"width": data["width"], "function": data["function"], "size": first["size"]}
        entities[name] = {**entity_data(entity), **own}
        if later and entity.created is None:
            raise WrongTable(
                f"{entity.type_name} was stored with several shard generations, and the catalog declares no Created "
                "property: declare the one that it was stored with."
            )
        created = None if entity.created is None else part_data(entity.created)
        elements += [
            Element("generation", name, f"{number}", {**growth, "created": created})
            for number, growth in enumerate(later, 1)
        ]
        elements += _served(entity, catalog, data.get("indexes"))
    recorded = {
        one.id: RecordedElement(one, "ready", record.epoch + 1, is_checked=one.kind == "property") for one in elements
    }
    rest = {name: data for name, data in record.earlier.items() if name not in known}
    return replace(record, entities=entities, elements={**record.elements, **recorded}, earlier=rest)


def _served(entity: EntitySpec, catalog: Catalog, formats: Collection[str] | None) -> Iterator[Element]:
    """Yield the declared elements of an entity that earlier releases maintained. They recorded their indexes only."""
    for element in declared_elements(catalog).values():
        if element.entity != entity.name or element.kind == "generation":
            continue
        if element.kind == "derived property":
            stored = element.definition["stored"]
            yield derived_element(entity.name, stored, 1)
        elif element.kind != "index" or formats is None or element.name in formats:
            yield element
