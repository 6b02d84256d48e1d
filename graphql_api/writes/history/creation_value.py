"""The creation value of an id. It selects the shard generation of its records, so it never changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import hash_key, key_segment
from graphql_api.errors import CreationChanged, PropertyName
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, EntitySpec, is_expired, value_of
from graphql_api.storage import Check, Item, Key, Put, Store, TransactionWrite
from graphql_api.writes.display_names import format_value, record_name
from graphql_api.writes.history.history_head import read_last_entry
from graphql_api.writes.item_keys import WRITE_ID, encode_id, item_key, possible_keys
from graphql_api.writes.optimistic_concurrency import expect_unchanged, new_write_id
from graphql_api.writes.record_builder import record_values, validate_record


def creation_changed_error(entity: EntitySpec, id_values: Sequence[Any], stored: Any, provided: Any) -> CreationChanged:
    """Return the error for a record whose creation value differs from that of its id."""
    assert entity.created is not None, "a creation value was read"
    return CreationChanged(
        "{record} was created at {stored}, which determines its shard and cannot become {provided}: leave {property} "
        "unchanged.",
        record=record_name(entity, id_values),
        stored=format_value(entity.created, stored),
        provided=format_value(entity.created, provided),
        property=PropertyName(entity.created.name),
        argument=PropertyName(entity.created.name),
    )


def omits_creation_value(entity: EntitySpec, provided: Mapping[str, Any]) -> bool:
    """Return whether the values of a whole record omit its creation value. An explicit null counts as a value."""
    created = entity.created
    if created is None:
        return False
    return provided.get(created.name) is None and not (created.nullable and created.name in provided)


def with_creation_value_of(entity: EntitySpec, record: Entity, entry: Item) -> Entity:
    """Return the record with the creation value of a stored entry of its history, if that has one."""
    created = entity.created
    if created is None or created.stored not in entry:
        return record
    value = created.column.codec.load(entry[created.stored])
    return validate_record(entity, {**record_values(entity, record), created.name: value})


def creation_mismatch(
    entity: EntitySpec, stored_entry: Item | None, id_values: Sequence[Any], record: Entity
) -> CreationChanged | None:
    """Return the error for an entry that would lie in another shard than the stored entry of its history, if any."""
    created = entity.created
    if created is None or len(entity.space.generations) == 1:
        return None
    if stored_entry is None or created.stored not in stored_entry:
        return None
    stored, provided = created.column.codec.load(stored_entry[created.stored]), value_of(record, created.name)
    return None if stored == provided else creation_changed_error(entity, id_values, stored, provided)


async def find_creation_changes(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    items: Mapping[int, Item],
    tenant: str | None,
    now: float,
) -> dict[int, CreationChanged]:
    """Return errors for the records of a batch whose creation value differs from that of their id, by position.

    Such a record would be stored in a second shard.
    """
    assert entity.created is not None, "catalog validation requires a creation property for several generations"
    ids = {position: [getattr(records[position], part.name) for part in entity.ids] for position in items}
    own_ids = {position: encode_id(entity, values) for position, values in ids.items()}
    id_values = {own_ids[position]: values for position, values in ids.items()}
    stored = await _read_creation_values(store, entity, id_values, tenant, now)
    changes = {}
    for position, own_id in own_ids.items():
        created = getattr(records[position], entity.created.name)
        if stored.setdefault(own_id, created) != created:
            changes[position] = creation_changed_error(entity, ids[position], stored[own_id], created)
    return changes


async def history_shard_writes(
    store: Store, entity: EntitySpec, ids: Sequence[Any], record: Entity, tenant: str | None, now: float
) -> list[TransactionWrite]:
    """Return the writes that keep all entries of an id in one shard, also against concurrent first entries.

    The entries of an id have no common item. If another entry exists, the transaction requires that it still does. If
    none exists, all writers of a first entry write one shared item, so only one of them succeeds.
    """
    assert entity.created is not None, "catalog validation requires a creation property for several generations"
    first_entry_key = Key(hash_key(f"{entity.name}~home", "", (), tenant), key_segment("id", encode_id(entity, ids)))
    # Read before the entries, so that a first entry that is written in between causes a conflict.
    (first_entry_item,) = await store.get_many([first_entry_key], consistent=True)
    other = await read_last_entry(store, entity, ids, tenant, now)
    if other is None:
        item = {
            HASH_ATTRIBUTE: first_entry_key.hash,
            RANGE_ATTRIBUTE: first_entry_key.range,
            WRITE_ID: new_write_id(),
        }
        return [Put(item, expect_unchanged(first_entry_item))]
    if entity.created.stored in other:
        stored = entity.created.column.codec.load(other[entity.created.stored])
        provided = value_of(record, entity.created.name)
        if stored != provided:
            raise creation_changed_error(entity, ids, stored, provided)
    return [Check(item_key(other), expect_unchanged(other))]


async def _read_creation_values(
    store: Store, entity: EntitySpec, ids: Mapping[str, Sequence[Any]], tenant: str | None, now: float
) -> dict[str, Any]:
    """Return the creation values of those ids that have records. Other properties of the records may be invalid."""
    if entity.sub_ids:
        # All entries of an id have the same creation value.
        items_by_id = [
            (own_id, await read_last_entry(store, entity, values, tenant, now)) for own_id, values in ids.items()
        ]
    else:
        keys = [(own_id, key) for own_id, values in ids.items() for key in possible_keys(entity, values, tenant)]
        items = await store.get_many([key for _, key in keys], consistent=True)
        items_by_id = [(own_id, item) for (own_id, _), item in zip(keys, items, strict=True)]
    assert entity.created is not None, "catalog validation requires a creation property for several generations"
    created = entity.created
    return {
        own_id: created.column.codec.load(item[created.stored])
        for own_id, item in items_by_id
        if item is not None and created.stored in item and not is_expired(entity, item, now)
    }
