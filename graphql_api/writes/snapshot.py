"""The state that a write depends on, read before it, and the writes that change it while it is unchanged.

The head of a history is its current record and its last entry (docs/how-to/history.md). The current record is a copy of
the entry with the greatest sub id, stored under a reserved sub id. It names that entry, so entries may be written in
any order. Every write to the history also writes the current record, if only its write id, on the condition that it is
unchanged since it was read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphql_api.codecs import Eq, encoded_range, hash_key, key_segment
from graphql_api.errors import CreationChanged, StoreError
from graphql_api.model import Entity, EntitySpec, decode_record, value_of
from graphql_api.storage import Check, Delete, Item, Key, Put, RangeRead, TransactionWrite, resume_after
from graphql_api.writes.entity_records import EntityRecords, StoredItems, item_at, single_copy_writes, values_of
from graphql_api.writes.item_keys import CURRENT_OF, NOTHING, encode_id, item_key, possible_hash_keys
from graphql_api.writes.preconditions import creation_changed_error, creation_too_late_error
from graphql_api.writes.transactions import expect_unchanged, with_new_write_id

PlannedWrites = tuple[list[TransactionWrite], Item | None]
"""writes of one transaction, and the item that owns the constraint items of the record afterwards"""


# --- the head of a history --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryHead:
    """The head of one history of an entity with current records. It is unchanged as long as the current record is."""

    current_items: StoredItems
    """at each key that the current record can have, one for each shard generation"""
    current_record: Item | None
    """the current record, unless it is invisible"""
    last_entry: Item | None
    """the last entry; read only if the current record does not name the entry that it is a copy of"""
    last_sub_id: str | None
    """sub id of the last entry; None if there is no entry"""

    @property
    def has_no_current_item(self) -> bool:
        """Return whether no current record is stored, visible or not: then writers of entries share no item."""
        return all(item is None for item in self.current_items.values())

    @property
    def latest_state(self) -> Item | None:
        """Return the item with the latest state of the history."""
        return self.current_record if self.last_entry is None else self.last_entry


async def read_current_items(records: EntityRecords, ids: Sequence[Sequence[Any]]) -> list[StoredItems]:
    """Read the items at the keys of the current records of several ids."""
    keys = [records.keys([*id_values, records.entity.written_current]) for id_values in ids]
    items = await records.read(key for keys_of_id in keys for key in keys_of_id)
    return [{key: items[key] for key in keys_of_id} for keys_of_id in keys]


async def read_history_head(
    records: EntityRecords, id_values: Sequence[Any], current_items: StoredItems | None = None
) -> HistoryHead:
    """Read the head of a history: its current items unless provided, and its last entry if they do not name it."""
    if current_items is None:
        (current_items,) = await read_current_items(records, [id_values])
    current_record = records.visible(current_items.values())
    if current_record is not None and CURRENT_OF in current_record:
        return HistoryHead(current_items, current_record, None, current_record[CURRENT_OF])
    entry = await read_last_entry(records, id_values, without={records.entity.written_current})
    last_sub_id = None if entry is None else entry[records.entity.sub_ids[0].stored]
    return HistoryHead(current_items, current_record, entry, last_sub_id)


def _sub_ids_of_current(entity: EntitySpec) -> Collection[str]:
    """Return the sub id of current records: they are no entries, also while they are dropped or built for others."""
    return () if entity.current is None else {entity.current}


async def read_last_entry(
    records: EntityRecords,
    id_values: Sequence[Any],
    *,
    without: Collection[str | None] = (),
    before: str | None = None,
) -> Item | None:
    """Read the last visible entry of an id. Entries with the sub ids of `without` are skipped.

    `before`: read the last one before this range key.
    """
    entity, now, sub_id = records.entity, records.clock(), records.entity.sub_ids[0].stored
    id_range = encoded_range(entity.indexes["by_id"].columns, [Eq(value) for value in id_values])
    if before is not None:
        id_range = replace(id_range, high=before, high_open=True)
    hash_keys = possible_hash_keys(entity, encode_id(entity, id_values), records.tenant)
    reads = [
        # One row more than can be skipped: an engine that resumes in descending order may read its last row again.
        RangeRead(None, hash_key, ordinal, id_range, limit=len(without) + 2, descending=True, consistent=True)
        for ordinal, hash_key in enumerate(hash_keys)
    ]
    last_rows: list[tuple[Any, Item]] = []
    while reads:
        resumed: list[RangeRead | None] = []
        answers = await records.store.read_ranges(reads, want=sum(read.limit for read in reads))
        for read, answer in zip(reads, answers, strict=True):
            if isinstance(answer, StoreError):
                raise answer
            rows = (row for row in answer.rows if entity.is_visible(row.item, now))
            last = next((row for row in rows if row.item.get(sub_id) not in without), None)
            if last is not None:
                last_rows.append((last.value, last.item))
            elif answer.scanned_to is not None:
                resumed.append(resume_after(read, answer.scanned_to, may_tie=False))
        reads = [read for read in resumed if read is not None]
    return max(last_rows, key=lambda row: row[0])[1] if last_rows else None


def current_record_after(
    records: EntityRecords, head: HistoryHead, newest: Entity | None, newest_item: Item = NOTHING
) -> Item | None:
    """Return the current record after a write of entries, of which `newest` has the greatest sub id."""
    if newest is not None:
        sub_id = value_of(newest, records.entity.sub_ids[0].name)
        if head.last_sub_id is None or sub_id >= head.last_sub_id:
            return records.current_item(newest, newest_item)
    if head.last_entry is not None:
        return records.current_item(decode_record(records.entity, head.last_entry), head.last_entry)
    return None if head.current_record is None else with_new_write_id(head.current_record)


# --- the creation value of an id; it selects the shard generation of its records, so it never changes ---


def check_creation_of_history(entity: EntitySpec, stored_entry: Item | None, record: Entity) -> None:
    """Reject an entry that would lie in another shard than the stored entry of its history, if any."""
    stored = stored_creation_value(entity, stored_entry) if len(entity.space.generations) > 1 else None
    provided = None if entity.created is None else value_of(record, entity.created.name)
    if stored is not None and stored != provided:
        raise creation_changed_error(entity, record, stored, provided)


def check_new_generation(entity: EntitySpec, record: Entity, stored: Item | None) -> None:
    """Reject a new record that belongs to a shard generation which is being built."""
    if entity.recorded is None or entity.created is None:
        return
    created = value_of(record, entity.created.name)
    for since, status in entity.recorded.new_generations:
        if created is not None and created >= since and stored_creation_value(entity, stored) != created:
            raise creation_too_late_error(entity, record, created, since, status)


async def find_creation_changes(records: EntityRecords, batch: Mapping[int, Entity]) -> dict[int, CreationChanged]:
    """Return errors, by position, for the records of a batch that would be stored in a second shard of their id."""
    entity = records.entity
    assert entity.created is not None, "catalog validation requires a creation property for several generations"
    ids = {position: values_of(record, entity.ids) for position, record in batch.items()}
    own_ids = {position: encode_id(entity, values) for position, values in ids.items()}
    values_by_id = {own_ids[position]: values for position, values in ids.items()}
    if entity.sub_ids:
        # All entries of an id have the same creation value.
        current = _sub_ids_of_current(entity)
        items = {
            own_id: await read_last_entry(records, values, without=current) for own_id, values in values_by_id.items()
        }
    else:
        keys = {own_id: records.keys(values) for own_id, values in values_by_id.items()}
        stored = await records.read(key for keys_of_id in keys.values() for key in keys_of_id)
        items = {own_id: records.visible(map(stored.get, keys_of_id)) for own_id, keys_of_id in keys.items()}
    known = {own_id: stored_creation_value(entity, item) for own_id, item in items.items()}
    changes = {}
    for position, record in batch.items():
        own_id, created = own_ids[position], value_of(record, entity.created.name)
        if known[own_id] is None:
            known[own_id] = created
        elif known[own_id] != created:
            changes[position] = creation_changed_error(entity, record, known[own_id], created)
    return changes


async def history_shard_writes(records: EntityRecords, record: Entity) -> list[TransactionWrite]:
    """Return the writes that keep all entries of an id in one shard, also against concurrent first entries.

    The entries of an id have no common item. If another entry exists, the transaction requires that it still does. If
    none exists, all writers of a first entry write one shared item, so only one of them succeeds. While current records
    are built or closed, writers that keep them do so too.
    """
    entity = records.entity
    id_values = values_of(record, entity.ids)
    id_segment = key_segment("id", encode_id(entity, id_values))
    first_entry_key = Key(hash_key(f"{entity.name}~home", "", (), records.tenant), id_segment)
    # Read before the entries, so that a first entry that is written in between causes a conflict.
    first_entry_items = await records.read([first_entry_key])
    other = await read_last_entry(records, id_values, without=_sub_ids_of_current(entity))
    if other is None:
        return [Put(item_at(first_entry_key, {}), expect_unchanged(first_entry_items[first_entry_key]))]
    check_creation_of_history(entity, other, record)
    return [Check(item_key(other), expect_unchanged(other))]


def stored_creation_value(entity: EntitySpec, item: Item | None) -> Any:
    """Return the creation value in a stored item; None if it has none. Other properties may be invalid."""
    stored = None if entity.created is None or item is None else item.get(entity.created.stored)
    return None if entity.created is None or stored is None else entity.created.column.codec.load(stored)


# --- snapshots --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Snapshot:
    """What was stored of a record and its history before a write."""

    records: EntityRecords
    items: StoredItems
    """at every key that the record can have"""
    record: Item | None = None
    """the item of the record, unless it is invisible"""
    history: HistoryHead | None = None
    """for entities with current records"""
    base: Item | None = None
    """the item that the write starts from: the record itself, or the last entry of its history"""

    @property
    def constraint_owners(self) -> list[Item]:
        """Return the stored items that own constraint items. In a history only the current record owns any."""
        items = self.items if self.history is None else self.history.current_items
        return [item for item in items.values() if item is not None]

    @property
    def stored_items(self) -> list[Item | None]:
        """Return all items that a write of the record may replace."""
        current_items = () if self.history is None else self.history.current_items.values()
        return [*self.items.values(), *current_items, self.base]

    async def plan_write(self, record: Entity, *, continues_base: bool) -> PlannedWrites:
        """Return the writes that store a record, and keep its history consistent.

        `continues_base`: a new entry of a history takes over what the last one has.
        """
        item = self.records.item(record, self.base if continues_base else self.record)
        entity, history = self.records.entity, self.history
        check_new_generation(entity, record, self.record)
        check_creation_of_history(entity, self.base if history is None else history.latest_state, record)
        if history is not None:
            current_record = current_record_after(self.records, history, record, item)
            writes: list[TransactionWrite] = [Put(item, expect_unchanged(self.items[item_key(item)]))]
            writes += single_copy_writes(history.current_items, current_record)
            if self.record is None and history.has_no_current_item and entity.guards_first_entries:
                writes += await history_shard_writes(self.records, record)
            return writes, current_record
        writes = single_copy_writes(self.items, item)
        if self.record is None and entity.sub_ids:
            if self.base is not None:
                # The previous entry is written too, so that only one of several concurrent entries can continue it.
                writes.append(Put(with_new_write_id(self.base), expect_unchanged(self.base)))
            elif len(entity.space.generations) > 1:
                writes += await history_shard_writes(self.records, record)
        return writes, item

    async def plan_deletion(self, key: Sequence[Any]) -> PlannedWrites:
        """Return the writes that delete the record of a primary key, if stored, and keep its history consistent."""
        stored = [item for item in self.items.values() if item is not None]
        writes: list[TransactionWrite] = [Delete(item_key(item), expect_unchanged(item)) for item in stored]
        if self.history is None or not writes:
            return writes, None
        history, (*id_values, sub_id) = self.history, key
        if history.last_sub_id == sub_id:
            entry = await read_last_entry(
                self.records, id_values, without={self.records.entity.written_current, sub_id}
            )
            history = replace(history, current_record=None, last_entry=entry)
        current_record = current_record_after(self.records, history, None)
        return [*writes, *single_copy_writes(history.current_items, current_record)], current_record


async def read_snapshot(
    records: EntityRecords, key: Sequence[Any], *, continues_history: bool, continues_preceding: bool = False
) -> Snapshot:
    """Read the record with these values of its primary key, and the part of its history that the write depends on.

    `continues_history`: a new entry takes values from the last one; `continues_preceding`: from the one before it.
    """
    entity, id_values = records.entity, key[: len(records.entity.ids)]
    keys = records.keys(key)
    items = await records.read(keys)
    record = base = records.visible(items.values())
    history = None if entity.written_current is None else await read_history_head(records, id_values)
    if record is None and history is not None and not continues_preceding:
        base = history.latest_state
    elif record is None and entity.sub_ids and continues_history:
        before = keys[0].range if continues_preceding else None
        base = await read_last_entry(records, id_values, without=_sub_ids_of_current(entity), before=before)
    return Snapshot(records, items, record, history, base)
