"""The current record of a history, and how writes of entries change it (docs/history.md).

The current record is a copy of the entry with the greatest sub id, stored under a reserved sub id. It names that entry,
so entries may be written in any order. Every write to the history also writes the current record, on the condition that
it is unchanged since it was read.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.errors import InvalidRecord, PropertyName
from graphql_api.model import Entity, EntitySpec, decode_record, value_of
from graphql_api.storage import Check, Delete, Expect, Item, Put, TransactionWrite
from graphql_api.writes.history.history_head import HistoryHead
from graphql_api.writes.item_keys import item_key, to_current_item
from graphql_api.writes.optimistic_concurrency import expect_unchanged, new_write_id, with_new_write_id


def current_record_after(
    entity: EntitySpec, head: HistoryHead, newest: Entity | None, tenant: str | None
) -> Item | None:
    """Return the current record after a write of entries, of which `newest` has the greatest sub id."""
    if newest is not None:
        sub_id = value_of(newest, entity.sub_ids[0].name)
        if head.last_sub_id is None or sub_id >= head.last_sub_id:
            return to_current_item(entity, newest, tenant, new_write_id())
    if head.last_entry is not None:
        return to_current_item(entity, decode_record(entity, head.last_entry), tenant, new_write_id())
    return None if head.current_record is None else with_new_write_id(head.current_record)


def current_record_writes(head: HistoryHead, current_record: Item | None) -> list[TransactionWrite]:
    """Return the writes that replace or delete the current record, on the condition that it is as it was read."""
    target = None if current_record is None else item_key(current_record)
    writes: list[TransactionWrite] = []
    for key, stored in head.current_items.items():
        if current_record is not None and key == target:
            writes.append(Put(current_record, expect_unchanged(stored)))
        elif stored is not None:
            writes.append(Delete(key, expect_unchanged(stored)))
        elif target is None or head.current_items[target] is None:
            # A concurrent writer must not begin the history in another generation.
            writes.append(Check(key, Expect(absent=True)))
    return writes


def check_not_current(entity: EntitySpec, sub_id_values: Sequence[Any]) -> None:
    """Reject direct writes and deletes of a current record."""
    if entity.current is not None and entity.current in sub_id_values:
        name = PropertyName(entity.sub_ids[0].name)
        raise InvalidRecord(
            "{entity}.{property} is {current!r}, which names the current record. That follows the entries: write the "
            "entry under its own {property}.",
            entity=entity.type_name,
            property=name,
            current=entity.current,
            argument=name,
        )
