"""The state that a write depends on, read before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.model import EntitySpec, visible_item
from graphql_api.storage import Check, Delete, Expect, Item, Key, Put, Store, TransactionWrite
from graphql_api.writes.history.history_head import HistoryHead, read_history_head, read_last_entry
from graphql_api.writes.item_keys import item_key, possible_keys
from graphql_api.writes.optimistic_concurrency import expect_unchanged

StoredItems = Mapping[Key, Item | None]
"""the stored item at every key that a record can have"""


@dataclass(slots=True)
class Snapshot:
    """What was stored of a record and its history before a write."""

    items: StoredItems
    record: Item | None
    """the item of the record, unless it has expired"""
    history: HistoryHead | None = None
    """for entities with current records"""
    base: Item | None = None
    """the item that the write starts from: the record itself, or the last entry of its history"""

    @property
    def stored_items(self) -> list[Item]:
        """Return all stored items of the record, expired or not."""
        return [item for item in self.items.values() if item is not None]

    @property
    def constraint_owners(self) -> list[Item]:
        """Return the stored items that own constraint items. In a history only the current record owns any."""
        if self.history is None:
            return self.stored_items
        return [item for item in self.history.current_items.values() if item is not None]


async def read_snapshot(
    store: Store,
    entity: EntitySpec,
    values: Sequence[Any],
    tenant: str | None,
    now: float,
    *,
    continues_history: bool,
) -> Snapshot:
    """Read the record with these values of its primary key, and the part of its history that the write depends on.

    `continues_history`: a new entry takes values from the last one.
    """
    ids = values[: len(entity.ids)]
    keys = possible_keys(entity, values, tenant)
    items = dict(zip(keys, await store.get_many(keys, consistent=True), strict=True))
    record = visible_item(entity, items.values(), now)
    snapshot = Snapshot(items, record, base=record)
    if entity.current is not None:
        snapshot.history = await read_history_head(store, entity, ids, tenant, now)
        snapshot.base = snapshot.history.latest_state if record is None else record
    elif record is None and entity.sub_ids and continues_history:
        snapshot.base = await read_last_entry(store, entity, ids, tenant, now)
    return snapshot


def single_copy_writes(snapshot: Snapshot, item: Item) -> list[TransactionWrite]:
    """Return the writes that put a record at its key, and ensure that no other key holds it."""
    target = item_key(item)
    writes: list[TransactionWrite] = []
    for key, stored in snapshot.items.items():
        if key == target:
            writes.append(Put(item, expect_unchanged(stored)))
        elif stored is not None:
            writes.append(Delete(key, expect_unchanged(stored)))
        elif snapshot.record is None:
            writes.append(Check(key, Expect(absent=True)))
    return writes
