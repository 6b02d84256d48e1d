"""Delete records that other records may reference: place a delete intent, check for references, delete.

A record with a delete intent accepts no new references: a writer that adds one requires in its transaction that there
is no intent. So a check for references stays valid as long as the intent is in place. The record is deleted only on the
condition that it still has this intent. The next writer removes an abandoned intent after a while. If the owner of the
intent was only slow, its delete fails on that condition and is repeated.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.codecs import SEP, KeyRange
from graphql_api.errors import ForeignKeyBroken, InvalidValue, NameList, StoreError
from graphql_api.model import EntitySpec, PropertySpec, is_expired
from graphql_api.storage import Check, Delete, Item, Key, Put, RangeRead, Store, resume_after
from graphql_api.writes.constraints.constraint_items import constraint_keys, owner_key, references_hash_key
from graphql_api.writes.display_names import property_name, record_name
from graphql_api.writes.item_keys import item_key
from graphql_api.writes.optimistic_concurrency import expect_unchanged, with_new_write_id
from graphql_api.writes.transactions import commit_transaction

DELETE_INTENT = "_closing"
"""attribute of a record that is being deleted: the millisecond at which the delete began"""

ABANDONED_AFTER_SECONDS = 2.0
"""Older delete intents count as abandoned. If the owner is still active, its delete needs another attempt."""

REFERENCE_PAGE_SIZE = 20
"""reference items that are read at once"""


def delete_intent_time(item: Item) -> float | None:
    """Return the second at which the delete of a record began; None without a delete intent."""
    return float(item[DELETE_INTENT]) / 1000 if DELETE_INTENT in item else None


def is_abandoned(item: Item, now: float) -> bool:
    """Return whether a delete intent is abandoned. A time in the future counts too, since clocks differ."""
    since = delete_intent_time(item)
    return since is not None and abs(now - since) > ABANDONED_AFTER_SECONDS


def without_delete_intent(item: Item) -> Item:
    """Return a record without its delete intent, under a new write id."""
    return with_new_write_id({name: value for name, value in item.items() if name != DELETE_INTENT})


async def place_delete_intent(store: Store, item: Item, now: float) -> Item:
    """Place a delete intent on a record. Return the record with it."""
    marked = {**with_new_write_id(item), DELETE_INTENT: int(now * 1000)}
    await commit_transaction(store, [Put(marked, expect_unchanged(item))])
    return marked


async def remove_delete_intent(store: Store, marked: Item) -> None:
    """Remove a delete intent. If that fails, the next writer removes it."""
    try:
        await commit_transaction(store, [Put(without_delete_intent(marked), expect_unchanged(marked))])
    except StoreError:
        return


async def check_unreferenced(
    store: Store, parent: EntitySpec, values: Sequence[Any], tenant: str | None, now: float
) -> None:
    """Raise an error if any record references this one. Delete reference items whose owner no longer does."""
    reference_range = RangeRead(
        None, references_hash_key(parent, values, tenant), 0, KeyRange(), REFERENCE_PAGE_SIZE, consistent=True
    )
    read: RangeRead | None = reference_range
    while read is not None:
        (page,) = await store.read_ranges([read], want=REFERENCE_PAGE_SIZE)
        if isinstance(page, StoreError):
            raise page
        references = [row.item for row in page.rows]
        keys = [owner_key(reference) for reference in references]
        owners = await store.get_many(keys, consistent=True) if references else []
        for reference, owner in zip(references, owners, strict=True):
            referenced_by = _referencing_key(parent, reference, owner, tenant)
            if referenced_by is None or owner is None:
                # An application that does not know this foreign key deleted or changed the owner, or the foreign key
                # is no longer declared.
                owner_unchanged = Check(owner_key(reference), expect_unchanged(owner))
                stale = Delete(item_key(reference), expect_unchanged(reference))
                await commit_transaction(store, [stale, owner_unchanged])
            elif not is_expired(referenced_by[0], owner, now):
                raise _still_referenced(parent, values, *referenced_by, owner)
        read = None if page.scanned_to is None else resume_after(read, page.scanned_to, may_tie=False)


def _referencing_key(
    parent: EntitySpec, reference: Item, owner: Item | None, tenant: str | None
) -> tuple[EntitySpec, Key] | None:
    """Return the entity of a reference item's owner, and the key of the item by which it references the parent now.

    That key may differ from the key of the reference item, if the foreign key was renamed.
    """
    name, _, _ = item_key(reference).range.partition(".")
    child = next((child for child in parent.children if child.name == name), None)
    if child is None or owner is None:
        return None
    keys = (key for key in constraint_keys(child, owner, tenant) if key.hash == item_key(reference).hash)
    return next(((child, key) for key in keys), None)


def _still_referenced(
    parent: EntitySpec, values: Sequence[Any], child: EntitySpec, reference: Key, owner: Item
) -> ForeignKeyBroken:
    """Return the error for a record that is referenced. It names the referencing record by its primary key."""
    foreign_key_name, _, _ = reference.range.partition(SEP)
    _, _, name = foreign_key_name.partition(".")
    foreign_key = next(declared for declared in child.foreign_keys if declared.name == name)
    child_key = [_load_key_part(part, owner) for part in child.primary_key]
    return ForeignKeyBroken(
        "{record} cannot be deleted: {child} references it by {properties}. Delete that record first, or let it "
        "reference another one.",
        record=record_name(parent, values),
        child=record_name(child, child_key),
        properties=NameList(tuple(property_name(child, part) for part in foreign_key.by)),
    )


def _load_key_part(part: PropertySpec, item: Item) -> Any:
    """Return a part of a record's key; the stored value, if another application wrote one that does not fit."""
    stored = item.get(part.stored)
    try:
        return part.column.codec.load(stored)
    except InvalidValue:
        return stored
