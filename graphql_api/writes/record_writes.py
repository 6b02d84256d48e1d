"""The writes by which a transaction changes or deletes a record, and keeps its history consistent."""

from collections.abc import Sequence
from typing import Any

from graphql_api.clock import Clock
from graphql_api.model import Entity, EntitySpec, decode_record, value_of
from graphql_api.storage import Delete, Item, Put, Store, TransactionWrite
from graphql_api.writes.history.creation_value import creation_mismatch, history_shard_writes
from graphql_api.writes.history.current_record import current_record_after, current_record_writes
from graphql_api.writes.history.history_head import HistoryHead, read_last_entry
from graphql_api.writes.item_keys import item_key, to_current_item, to_item
from graphql_api.writes.optimistic_concurrency import expect_unchanged, new_write_id, with_new_write_id
from graphql_api.writes.snapshot import Snapshot, single_copy_writes


async def plan_record_writes(
    store: Store, entity: EntitySpec, snapshot: Snapshot, record: Entity, tenant: str | None, clock: Clock
) -> tuple[list[TransactionWrite], Item]:
    """Return the writes that store a record, and the item that owns its constraint items afterwards.

    All writes have the condition that the snapshot is unchanged.
    """
    item = to_item(entity, record, tenant, new_write_id())
    id_values = [value_of(record, part.name) for part in entity.ids]
    stored_entry = snapshot.base if snapshot.history is None else snapshot.history.latest_state
    mismatch = creation_mismatch(entity, stored_entry, id_values, record)
    if mismatch is not None:
        raise mismatch
    if snapshot.history is not None:
        current_record = current_record_after(entity, snapshot.history, record, tenant)
        assert current_record is not None, "a history with an entry has a current record"
        entry = Put(item, expect_unchanged(snapshot.items[item_key(item)]))
        return [entry, *current_record_writes(snapshot.history, current_record)], current_record
    writes = single_copy_writes(snapshot, item)
    if snapshot.record is None and entity.sub_ids:
        writes += await _history_writes(store, entity, snapshot, record, tenant, clock)
    return writes, item


async def _history_writes(
    store: Store, entity: EntitySpec, snapshot: Snapshot, record: Entity, tenant: str | None, clock: Clock
) -> list[TransactionWrite]:
    """Return the writes by which a new entry continues its history, and stays in the same shard."""
    if snapshot.base is not None:
        # The previous entry is written too, so that only one of several concurrent entries can continue it.
        return [Put(with_new_write_id(snapshot.base), expect_unchanged(snapshot.base))]
    if len(entity.space.generations) == 1:
        return []
    id_values = [value_of(record, part.name) for part in entity.ids]
    return await history_shard_writes(store, entity, id_values, record, tenant, clock())


async def plan_record_deletion(
    store: Store, entity: EntitySpec, snapshot: Snapshot, key: Sequence[Any], tenant: str | None, clock: Clock
) -> tuple[list[TransactionWrite], Item | None]:
    """Return the writes that delete a record, and the current record of its history afterwards.

    There are no writes if no item is stored. `key`: the values of the whole primary key.
    """
    writes: list[TransactionWrite] = [Delete(item_key(item), expect_unchanged(item)) for item in snapshot.stored_items]
    if snapshot.history is None or not writes:
        return writes, None
    current_record = await _current_record_without(store, entity, snapshot.history, key, tenant, clock)
    return [*writes, *current_record_writes(snapshot.history, current_record)], current_record


async def _current_record_without(
    store: Store, entity: EntitySpec, head: HistoryHead, key: Sequence[Any], tenant: str | None, clock: Clock
) -> Item | None:
    """Return the current record after the deletion of an entry."""
    id_values, (sub_id,) = key[: len(entity.ids)], key[len(entity.ids) :]
    assert entity.current is not None, "only entities with current records have a history head"
    if head.last_sub_id != sub_id:
        return current_record_after(entity, head, None, tenant)
    previous = await read_last_entry(store, entity, id_values, tenant, clock(), without={entity.current, sub_id})
    if previous is None:
        return None
    return to_current_item(entity, decode_record(entity, previous), tenant, new_write_id())
