"""The creation value of an id decides where its records live, and so never changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphql_api.codecs import hash_key, segment
from graphql_api.errors import CreationChanged
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, EntitySpec, has_expired, value_of
from graphql_api.storage import Check, Item, Key, Put, Store, TogetherWrite
from graphql_api.writes.display_names import record_name, value_told
from graphql_api.writes.history.history_head import last_entry
from graphql_api.writes.item_keys import WRITE_ID, encoded_id, key_of, keys_of
from graphql_api.writes.optimistic_concurrency import new_write_id, unchanged


def creation_changed(entity: EntitySpec, id_values: Sequence[Any], stored: Any, given: Any) -> CreationChanged:
    """What is told of a record that would get another creation value than its id has."""
    assert entity.created is not None, "a creation value was read"
    return CreationChanged(
        f"{record_name(entity, id_values)} was created at {value_told(entity.created, stored)}, which decides where it "
        f"lives, and cannot become {value_told(entity.created, given)}: keep {entity.created.name} as it is.",
        argument=entity.created.name,
    )


async def creation_changes(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    items: Mapping[int, Item],
    tenant: str | None,
    now: float,
) -> dict[int, CreationChanged]:
    """Which of the records would give their id another creation value than it has, and so a second home."""
    assert entity.created is not None, "the catalog's rules give every growing entity a creation property"
    ids = {at: [getattr(records[at], part.name) for part in entity.ids] for at in items}
    own_ids = {at: encoded_id(entity, values) for at, values in ids.items()}
    stored = await _stored_creations(store, entity, {own_ids[at]: values for at, values in ids.items()}, tenant, now)
    changes = {}
    for at, own_id in own_ids.items():
        created = getattr(records[at], entity.created.name)
        if stored.setdefault(own_id, created) != created:
            changes[at] = creation_changed(entity, ids[at], stored[own_id], created)
    return changes


async def history_home(
    store: Store, entity: EntitySpec, ids: Sequence[Any], record: Entity, tenant: str | None, now: float
) -> list[TogetherWrite]:
    """What makes sure that a new entry lies where the others of its id do, also if somebody else begins the history.

    There is no item that all entries share. Where there is another entry, that must still be there; where there is
    none, all who begin a history write one item, so that of several only one can be right about it.
    """
    assert entity.created is not None, "the catalog's rules give every growing entity a creation property"
    home = Key(hash_key(f"{entity.name}~home", "", (), tenant), segment("id", encoded_id(entity, ids)))
    (stands,) = await store.get_many([home], consistent=True)  # Whoever begins the history after this is noticed.
    other = await last_entry(store, entity, ids, tenant, now)
    if other is None:
        item = {HASH_ATTRIBUTE: home.hash, RANGE_ATTRIBUTE: home.range, WRITE_ID: new_write_id()}
        return [Put(item, unchanged(stands))]
    if entity.created.stored in other:
        stored, given = (
            entity.created.column.codec.load(other[entity.created.stored]),
            value_of(record, entity.created.name),
        )
        if stored != given:
            raise creation_changed(entity, ids, stored, given)
    return [Check(key_of(other), unchanged(other))]


async def _stored_creations(
    store: Store, entity: EntitySpec, ids: Mapping[str, Sequence[Any]], tenant: str | None, now: float
) -> dict[str, Any]:
    """The creation values of those of the ids that have records; whatever else those hold is no matter here."""
    if entity.sub_ids:
        # The creation value is the same in all entries of an id.
        found = [(own_id, await last_entry(store, entity, values, tenant, now)) for own_id, values in ids.items()]
    else:
        keys = [(own_id, key) for own_id, values in ids.items() for key in keys_of(entity, values, tenant)]
        items = await store.get_many([key for _, key in keys], consistent=True)
        found = [(own_id, item) for (own_id, _), item in zip(keys, items, strict=True)]
    assert entity.created is not None, "the catalog's rules give every growing entity a creation property"
    created = entity.created
    return {
        own_id: created.column.codec.load(item[created.stored])
        for own_id, item in found
        if item is not None and created.stored in item and not has_expired(entity, item, now)
    }
