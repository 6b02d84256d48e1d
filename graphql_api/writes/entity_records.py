"""The records of one entity and tenant in a store, as every write reads and builds them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import InvalidValue, PropertyName
from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Entity,
    EntitySpec,
    PropertySpec,
    default_attribute,
    stored_value,
    unready_error,
    value_of,
)
from graphql_api.storage import AttributeValue, Check, Delete, Expect, Item, Key, Put, Store, TransactionWrite
from graphql_api.writes.item_keys import (
    INTERNAL_ATTRIBUTES,
    NOTHING,
    item_key,
    possible_keys,
    to_current_item,
    to_item,
)
from graphql_api.writes.record_builder import current_time_value
from graphql_api.writes.transactions import expect_unchanged, new_write_id, with_new_write_id

StoredItems = Mapping[Key, Item | None]
"""the stored item at each of some keys"""


@dataclass(frozen=True, slots=True)
class EntityRecords:
    """The records of one entity and tenant in a store."""

    store: Store
    entity: EntitySpec
    tenant: str | None
    clock: Clock

    def keys(self, values: Sequence[Any]) -> list[Key]:
        """Return every key that a record can have, by the values of its whole primary key."""
        return possible_keys(self.entity, values, self.tenant)

    async def read(self, keys: Iterable[Key], known: StoredItems | None = None) -> StoredItems:
        """Return the stored items at these keys, which are read if they are not among the known ones."""
        known = {} if known is None else known
        unknown = [key for key in dict.fromkeys(keys) if key not in known]
        items = await self.store.get_many(unknown, consistent=True) if unknown else ()
        return {**known, **dict(zip(unknown, items, strict=True))}

    def visible(self, items: Iterable[Item | None]) -> Item | None:
        """Return the visible item of one record, if any. `items` are those at all of its possible keys."""
        return self.entity.visible_item(items, self.clock())

    def item(self, record: Entity, old: Item | None = None) -> Item:
        """Return the item of a record, under a new write id. It keeps what only other catalogs declare of `old`."""
        recorded = self.entity.recorded
        if recorded is None or (old is None and not (recorded.inherited or recorded.unkept_properties)):
            return to_item(self.entity, record, self.tenant, new_write_id())
        kept = {**unknown_attributes(self.entity, old), **dict(self._inherited_attributes(old))}
        item = to_item(self.entity, record, self.tenant, new_write_id(), kept)
        self._check_kept(item, NOTHING if old is None else old)
        return item

    def _check_kept(self, item: Item, old: Item) -> None:
        """Refuse values of properties that other servers would erase, because their copy of the record lacks them."""
        statuses = {} if self.entity.recorded is None else self.entity.recorded.unkept_properties
        for part in self.entity.properties.values() if statuses else ():
            status = statuses.get(part.stored)
            if status is not None and part.function is None:
                unset = default_attribute(self.entity, part)
                if item.get(part.stored) not in (unset, old.get(part.stored)):
                    use = "A value of {entity}.{property} needs"
                    names = {"entity": self.entity.type_name, "property": PropertyName(part.name)}
                    raise unready_error(status, use, **names, argument=PropertyName(part.name))

    def current_item(self, entry: Entity, item: Item) -> Item:
        """Return the item of the current record that is a copy of an entry with this item, under a new write id."""
        return to_current_item(self.entity, entry, self.tenant, new_write_id(), unknown_attributes(self.entity, item))

    def _inherited_attributes(self, old: Item | None) -> Iterator[tuple[str, AttributeValue]]:
        """Yield what the server sets at each write because other catalogs declare it."""
        for role, part in () if self.entity.recorded is None else self.entity.recorded.inherited:
            codec = part.column.codec
            if role == "version":
                yield part.stored, codec.store(_version_of(part, old) + 1)
            else:
                yield part.stored, codec.store(current_time_value(part, self.clock()))


def _version_of(part: PropertySpec, item: Item | None) -> int:
    with suppress(InvalidValue):  # Another application wrote the value.
        version = None if item is None else stored_value(part, item)
        return version if isinstance(version, int) else 0
    return 0


def unknown_attributes(entity: EntitySpec, item: Item | None) -> Item:
    """Return the attributes of a stored record that this catalog does not know: properties of other catalogs."""
    if item is None or entity.recorded is None:
        return NOTHING
    known = entity.known_attributes
    return {name: value for name, value in item.items() if name not in known and name not in INTERNAL_ATTRIBUTES}


def values_of(record: Entity, parts: Iterable[PropertySpec]) -> list[Any]:
    """Return the values of these properties of a record."""
    return [value_of(record, part.name) for part in parts]


def item_at(key: Key, attributes: Mapping[str, AttributeValue]) -> Item:
    """Return an item with these attributes at a key, under a new write id."""
    return with_new_write_id({HASH_ATTRIBUTE: key.hash, RANGE_ATTRIBUTE: key.range, **attributes})


def single_copy_writes(stored: StoredItems, item: Item | None) -> list[TransactionWrite]:
    """Return the writes that store a record at one of its keys, or at none, if the items at all are unchanged."""
    target = None if item is None else item_key(item)
    writes: list[TransactionWrite] = []
    for key, old in stored.items():
        if item is not None and key == target:
            writes.append(Put(item, expect_unchanged(old)))
        elif old is not None:
            writes.append(Delete(key, expect_unchanged(old)))
        elif target is None or stored[target] is None:
            # A concurrent writer must not store the record in another shard generation.
            writes.append(Check(key, Expect(absent=True)))
    return writes
