"""Delete intents, and the check that no record references the one that is deleted.

A record with a delete intent accepts no new references: a writer that adds one requires in its transaction that there
is no intent. So a check for references stays valid as long as the intent is in place. The record is deleted only on
the condition that it still has this intent. The next writer removes an abandoned intent after a while. If the owner
of the intent was only slow, its delete fails on that condition and is repeated.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from graphql_api.codecs import KeyRange
from graphql_api.errors import ConditionFailed, ForeignKeyBroken, NameList, StoreError
from graphql_api.model import EntitySpec, ForeignKeySpec
from graphql_api.storage import Check, Delete, Item, Put, RangeRead, Store, resume_after
from graphql_api.writes.constraints import (
    constraint_keys,
    holder_of,
    load_key_part,
    owner_key,
    read_holders,
    references_hash_key,
    without_delete_intent,
)
from graphql_api.writes.display_names import property_name, record_name
from graphql_api.writes.entity_records import EntityRecords, StoredItems
from graphql_api.writes.item_keys import DELETE_INTENT, item_key
from graphql_api.writes.transactions import commit_transaction, expect_unchanged, retry_on_conflict, with_new_write_id

REFERENCE_PAGE_SIZE = 20
"""reference items that are read at once"""


async def place_delete_intent(records: EntityRecords, item: Item) -> Item:
    """Place a delete intent on a record. Return the record with it."""
    marked = {**with_new_write_id(item), DELETE_INTENT: int(records.clock() * 1000)}
    await commit_transaction(records.store, [Put(marked, expect_unchanged(item))])
    return marked


async def remove_delete_intent(store: Store, marked: Item) -> None:
    """Remove a delete intent, unless another writer has changed the record. If that fails, the next writer does."""

    async def attempt() -> None:
        with suppress(ConditionFailed):
            await commit_transaction(store, [Put(without_delete_intent(marked), expect_unchanged(marked))])

    with suppress(StoreError):
        await retry_on_conflict(attempt, "a delete intent")


async def check_unreferenced(records: EntityRecords, values: Sequence[Any], *, names_children: bool = True) -> None:
    """Raise an error if any record references this one. Delete reference items whose owner no longer does.

    `names_children`: whether the error may name that record, and its type.
    """
    store, parent, tenant, now = records.store, records.entity, records.tenant, records.clock()
    hash_text = references_hash_key(parent, values, tenant)
    read: RangeRead | None = RangeRead(None, hash_text, 0, KeyRange(), REFERENCE_PAGE_SIZE, consistent=True)
    while read is not None:
        (page,) = await store.read_ranges([read], want=REFERENCE_PAGE_SIZE)
        if isinstance(page, StoreError):
            raise page
        references = [row.item for row in page.rows]
        keys = [owner_key(reference) for reference in references]
        owners = await store.get_many(keys, consistent=True) if references else []
        for reference, owner in zip(references, owners, strict=True):
            child = _child_of(parent, reference)
            holders: StoredItems = {owner_key(reference): owner}
            if child is not None and child.current is not None:
                holders = await read_holders(store, child, owner_key(reference), tenant)
            stored = next(filter(None, holders.values()), None)
            holder = stored if child is None else holder_of(child, holders, now) or stored
            foreign_key = None if child is None else _find_foreign_key(child, reference, holder, tenant)
            if child is None or foreign_key is None or holder is None:
                # An application that does not know this foreign key deleted or changed the owner, or the foreign key
                # is no longer declared.
                unchanged = [Check(key, expect_unchanged(item)) for key, item in holders.items()]
                stale = Delete(item_key(reference), expect_unchanged(reference))
                await commit_transaction(store, [stale, *unchanged])
            elif child.is_visible(holder, now) and not names_children:
                raise _referenced_error(records, values)
            elif child.is_visible(holder, now):
                raise ForeignKeyBroken(
                    "{record} cannot be deleted: {child} references it by {properties}. Delete that record first, or "
                    "let it reference another one.",
                    record=record_name(parent, values),
                    child=record_name(child, [load_key_part(part, holder) for part in child.primary_key]),
                    properties=NameList(tuple(property_name(child, part) for part in foreign_key.by)),
                )
        read = None if page.scanned_to is None else resume_after(read, page.scanned_to, may_tie=False)


def _referenced_error(records: EntityRecords, values: Sequence[Any]) -> ForeignKeyBroken:
    """Return the error for a caller who may not read all records that can reference this one."""
    keys = [(child, key) for child in records.entity.children for key in child.foreign_keys]
    own = [(child, key) for child, key in keys if key.parent.name == records.entity.name]
    return ForeignKeyBroken(
        "{record} cannot be deleted: a record references it. References can be in {places}. You may not be allowed to "
        "read the record that does.",
        record=record_name(records.entity, values),
        places=NameList(tuple(property_name(child, part) for child, key in own for part in key.by), separator=" or "),
    )


def _child_of(parent: EntitySpec, reference: Item) -> EntitySpec | None:
    """Return the entity of a reference item's owner."""
    name, _, _ = item_key(reference).range.partition(".")
    return next((child for child in parent.children if child.name == name), None)


def _find_foreign_key(
    child: EntitySpec, reference: Item, owner: Item | None, tenant: str | None
) -> ForeignKeySpec | None:
    """Return the foreign key of a reference item, which may have been renamed since."""
    keys = {} if owner is None else constraint_keys(child, owner, tenant)
    for key, constraint in keys.items():
        if key.hash == item_key(reference).hash and isinstance(constraint, ForeignKeySpec):
            return constraint
    return None
