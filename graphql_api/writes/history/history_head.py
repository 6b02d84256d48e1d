"""The head of a history, read before a write: its current record and its last entry."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import Eq, encoded_range
from graphql_api.errors import StoreError
from graphql_api.model import EntitySpec, is_expired, visible_item
from graphql_api.storage import Item, Key, RangeRead, Store, resume_after
from graphql_api.writes.item_keys import CURRENT_OF, encode_id, possible_hash_keys, possible_keys

CurrentItems = Mapping[Key, Item | None]
"""the stored item at each key that a current record can have, one for each shard generation"""


@dataclass(frozen=True, slots=True)
class HistoryHead:
    """The head of one history of an entity with current records.

    Every write of an entry also writes the current record, if only its write id. So the head is unchanged as long as
    the current record is.
    """

    current_items: CurrentItems
    current_record: Item | None
    """the current record, unless it has expired"""
    last_entry: Item | None
    """the last entry; read only if the current record does not name the entry that it is a copy of"""
    last_sub_id: str | None
    """sub id of the last entry; None if there is no entry"""

    @property
    def latest_state(self) -> Item | None:
        """Return the item with the latest state of the history."""
        return self.current_record if self.last_entry is None else self.last_entry


async def read_current_items(
    store: Store, entity: EntitySpec, ids: Sequence[Sequence[Any]], tenant: str | None
) -> list[CurrentItems]:
    """Read the items at the keys of the current records of several ids."""
    keys = [possible_keys(entity, [*id_values, entity.current], tenant) for id_values in ids]
    items = iter(await store.get_many([key for keys_of_id in keys for key in keys_of_id], consistent=True))
    return [{key: next(items) for key in keys_of_id} for keys_of_id in keys]


async def build_history_head(
    store: Store,
    entity: EntitySpec,
    id_values: Sequence[Any],
    current_items: CurrentItems,
    tenant: str | None,
    now: float,
) -> HistoryHead:
    """Return the head of a history whose current items were read. Read the last entry if they do not name it."""
    current_record = visible_item(entity, current_items.values(), now)
    if current_record is not None and CURRENT_OF in current_record:
        return HistoryHead(current_items, current_record, None, current_record[CURRENT_OF])
    assert entity.current is not None, "only entities with current records have a history head"
    entry = await read_last_entry(store, entity, id_values, tenant, now, without={entity.current})
    last_sub_id = None if entry is None else entry[entity.sub_ids[0].stored]
    return HistoryHead(current_items, current_record, entry, last_sub_id)


async def read_history_head(
    store: Store, entity: EntitySpec, id_values: Sequence[Any], tenant: str | None, now: float
) -> HistoryHead:
    """Read the head of one history."""
    (current_items,) = await read_current_items(store, entity, [id_values], tenant)
    return await build_history_head(store, entity, id_values, current_items, tenant, now)


async def read_last_entry(
    store: Store,
    entity: EntitySpec,
    id_values: Sequence[Any],
    tenant: str | None,
    now: float,
    *,
    without: Collection[str] = (),
) -> Item | None:
    """Read the last entry of an id that has not expired. Entries with the sub ids of `without` are skipped."""
    id_range = encoded_range(entity.indexes["by_id"].columns, [Eq(value) for value in id_values])
    hash_keys = possible_hash_keys(entity, encode_id(entity, id_values), tenant)
    reads = [
        # One row more than can be skipped: an engine that resumes in descending order may read its last row again.
        RangeRead(None, hash_key, ordinal, id_range, limit=len(without) + 2, descending=True, consistent=True)
        for ordinal, hash_key in enumerate(hash_keys)
    ]
    sub_id = entity.sub_ids[0].stored
    last_rows: list[tuple[Any, Item]] = []
    while reads:
        resumed: list[RangeRead] = []
        answers = await store.read_ranges(reads, want=sum(read.limit for read in reads))
        for read, answer in zip(reads, answers, strict=True):
            if isinstance(answer, StoreError):
                raise answer
            rows = [row for row in answer.rows if not is_expired(entity, row.item, now)]
            last = next((row for row in rows if row.item.get(sub_id) not in without), None)
            if last is not None:
                last_rows.append((last.value, last.item))
            elif answer.scanned_to is not None:
                rest = resume_after(read, answer.scanned_to, may_tie=False)
                resumed += [rest] if rest is not None else []
        reads = resumed
    return max(last_rows, key=lambda row: row[0])[1] if last_rows else None
