"""Mapping items of lookups: written in the transaction of their records, whose conditions also protect them.

A mapping item belongs to one record, since its key contains that of the record. So its writes need no condition of
their own, and a transaction reads no mapping items: the stored record shows which ones there are.
"""

from collections.abc import Iterable, Sequence

from graphql_api.codecs import hash_key_parts
from graphql_api.errors import KeyTooLong, PropertyName, about
from graphql_api.model import OWNER, EntitySpec, mapping_key
from graphql_api.storage import Check, Delete, Item, Key, Put, TransactionWrite
from graphql_api.writes.constraints import OWNER_EXPIRES
from graphql_api.writes.entity_records import item_at
from graphql_api.writes.item_keys import is_same_item, item_key, write_key


def mapping_items(entity: EntitySpec, item: Item, tenant: str | None, *, is_old: bool = False) -> dict[Key, Item]:
    """Return the mapping items of a stored record, by their keys.

    `is_old`: leave out values that are too long, which are older than the lookup, so that they can be corrected.
    """
    items: dict[Key, Item] = {}
    for lookup in entity.written_lookups:
        try:
            with about(PropertyName(lookup.hash[0].input_names[0])):
                key = mapping_key(lookup, item, tenant)
        except KeyTooLong:
            # Only another catalog declares an unknown property. `shardql migrate` reports the record.
            if is_old or any(entity.properties.get(part.name) is not part for part in lookup.hash):
                continue
            raise
        if key is not None:
            items[key] = item_at(key, _attributes(entity, item))
    return items


def _attributes(entity: EntitySpec, item: Item) -> Item:
    expires = None if entity.ttl is None else item.get(entity.ttl.stored)
    expiry = {} if entity.ttl is None or expires is None else {OWNER_EXPIRES: expires, entity.ttl.stored: expires}
    return {OWNER: [*item_key(item)], **expiry}


def mapping_writes(
    entity: EntitySpec, stored: Iterable[Item | None], writes: Sequence[TransactionWrite], tenant: str | None
) -> list[TransactionWrite]:
    """Return the writes of mapping items that belong in a transaction of records.

    `stored`: the items that the transaction replaces or deletes, and that it requires to be unchanged.
    """
    if not entity.written_lookups:
        return []
    before = {item_key(item): item for item in stored if item is not None}
    changes = [write for write in writes if not isinstance(write, Check) and _is_record(entity, write_key(write))]
    old: dict[Key, Item] = {}
    new: dict[Key, Item] = {}
    for write in changes:
        replaced = before.get(write_key(write))
        old |= {} if replaced is None else mapping_items(entity, replaced, tenant, is_old=True)
        new |= mapping_items(entity, write.item, tenant) if isinstance(write, Put) else {}
    added = [Put(item) for key, item in new.items() if key not in old or not is_same_item(old[key], item)]
    return [*added, *(Delete(key) for key in old if key not in new)]


def _is_record(entity: EntitySpec, key: Key) -> bool:
    place = hash_key_parts(key.hash)
    return place is not None and place.head == entity.name
