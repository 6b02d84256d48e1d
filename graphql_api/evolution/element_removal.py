"""Remove what dropped elements have left in one stored item.

Values that callers have written stay: only what servers derived from them is removed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graphql_api.codecs import SEP, hash_key_parts, key_segment
from graphql_api.evolution.elements import Element, lookup_from_data
from graphql_api.evolution.entity_versions import stored_entity
from graphql_api.evolution.proposals import key_attributes
from graphql_api.evolution.repair_plan import TABLE_KEYS
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE
from graphql_api.storage import Delete, Item, Put, Write
from graphql_api.writes import CURRENT_OF, OWNER_EXPIRES, expect_unchanged, item_key, with_new_write_id


@dataclass(slots=True)
class _Remains:
    """What is removed from the items under one head of hash keys."""

    is_removed: bool = False
    """all of them are deleted"""
    attributes: set[str] = field(default_factory=set)
    ranges: set[str] = field(default_factory=set)
    """range keys of items that are deleted"""
    range_prefixes: set[str] = field(default_factory=set)
    current: set[tuple[str, str]] = field(default_factory=set)
    """stored names and values of the sub ids of current records"""
    values: set[tuple[tuple[tuple[str, str], ...], str]] = field(default_factory=set)
    """values in hash keys, and the beginnings of range keys, of items that are deleted"""

    def removes(self, values: tuple[tuple[str, str], ...], range_key: str) -> bool:
        """Return whether an item with these parts of its key is deleted."""
        if self.is_removed or range_key in self.ranges or range_key.startswith(tuple(self.range_prefixes)):
            return True
        return any(values == one and range_key.startswith(prefix) for one, prefix in self.values)


class ElementRemoval:
    """Removes the effects of elements that no server maintains any longer."""

    def __init__(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        self._by_head: dict[str, _Remains] = {}
        dropped = {recorded.element.id for recorded in elements}
        kept = [recorded for recorded in record.elements.values() if recorded.element.id not in dropped]
        for recorded in elements:
            used = {name for other in kept for name in _attributes_in_use(other, recorded.element.entity)}
            self._add(record, recorded, used | TABLE_KEYS)

    def _add(self, record: TableRecord, recorded: RecordedElement, used: set[str]) -> None:
        element = recorded.element
        entity, data = element.entity, element.definition
        match element.kind:
            case "index":
                self._head(entity).attributes |= {name for name, _ in key_attributes(element)} - used
            case "derived property":
                self._head(entity).attributes |= {data["stored"]} - used
            case "lookup":
                self._head(lookup_from_data(element).hash_entity).is_removed = True
            case "unique":
                self._head(f"{entity}~unique").ranges.add(element.name)
            case "foreign key":
                self._head(f"{data['parent']}~refs").range_prefixes.add(f"{entity}.{element.name}{SEP}")
            case "current record":
                (sub_id,) = record.entities[entity]["subIds"]
                self._head(entity).current.add((sub_id["stored"], data["subId"]))
            case "entity version":
                self._add_version(element)
            case "server-set":
                stored, _, role = element.name.rpartition(".")
                if role == "counter":
                    self._head(f"{entity}~counter").ranges.add(key_segment("counter", stored))
                elif role == "expiry":
                    # Otherwise the engine would delete constraint items of records that no longer expire.
                    for head in (f"{entity}~unique", *_reference_heads(record, entity), *_lookup_heads(record, entity)):
                        self._head(head).attributes |= {stored, OWNER_EXPIRES}

    def _add_version(self, version: Element) -> None:
        """Remove all records of a version, what they own, and the positions and dead letters of its projections."""
        name = stored_entity(version)
        for kind in ("", "~unique", "~counter", "~home"):
            self._head(f"{name}{kind}").is_removed = True
        for projected in version.definition.get("projections", ()):
            values = tuple((name, value) for name, value in projected["values"])
            self._head(projected["head"]).values.add((values, projected["prefix"]))

    def _head(self, head: str) -> _Remains:
        return self._by_head.setdefault(head, _Remains())

    def write_of(self, item: Item) -> Write | None:
        """Return the write that removes the effects on an item, if it is unchanged; None if there are none."""
        parts = hash_key_parts(item[HASH_ATTRIBUTE])
        remains = None if parts is None else self._by_head.get(parts.head)
        if parts is None or remains is None:
            return None
        range_key = item[RANGE_ATTRIBUTE]
        is_current = CURRENT_OF in item and any(item.get(name) == value for name, value in remains.current)
        if is_current or remains.removes(parts.values, range_key):
            return Delete(item_key(item), expect_unchanged(item))
        if remains.attributes.isdisjoint(item):
            return None
        rest = {name: value for name, value in item.items() if name not in remains.attributes}
        return Put(with_new_write_id(rest), expect_unchanged(item))


def _attributes_in_use(recorded: RecordedElement, entity: str) -> Iterator[str]:
    """Yield the attributes of an entity's records that an element needs."""
    element = recorded.element
    if element.entity != entity:
        return
    if element.kind == "index":
        yield from (name for name, _ in key_attributes(element))
    elif element.kind == "property":
        yield element.name
    elif element.kind == "derived property":
        yield element.definition["stored"]
    elif element.kind == "server-set":
        yield element.definition["parts"][0]["stored"]


def _reference_heads(record: TableRecord, entity: str) -> Iterator[str]:
    for recorded in record.of_entity(entity):
        if recorded.element.kind == "foreign key":
            yield f"{recorded.element.definition['parent']}~refs"


def _lookup_heads(record: TableRecord, entity: str) -> Iterator[str]:
    for recorded in record.of_entity(entity):
        if recorded.element.kind == "lookup" and recorded.element.entity == entity:
            yield lookup_from_data(recorded.element).hash_entity
