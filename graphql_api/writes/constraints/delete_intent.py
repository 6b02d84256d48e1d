"""Removes a record that others may name by foreign keys: it is closed first, then looked at, then removed.

A record that is closed takes no new references: whoever wants to name it makes sure in their transaction that it has no
mark. So what is looked for after it was closed is all that there can be, until the mark is gone; and it is removed only
as long as it stands there with this very mark. A mark that somebody has left behind is taken off by the next one who
comes, after a while; if its owner is only slow, they find it gone and begin anew.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.codecs import SEP, KeyRange
from graphql_api.errors import ForeignKeyBroken, InvalidValue, StoreError
from graphql_api.model import EntitySpec, PropertySpec, has_expired
from graphql_api.storage import Check, Delete, Item, Key, Put, RangeRead, Store, behind
from graphql_api.writes.constraints.constraint_items import bound_keys, owner_of, references_key
from graphql_api.writes.display_names import record_name
from graphql_api.writes.item_keys import key_of
from graphql_api.writes.optimistic_concurrency import touched, unchanged
from graphql_api.writes.transactions import commit

CLOSING = "_closing"
"""attribute of a record that is being removed: the millisecond at which that began"""

PATIENCE = 2.0
"""seconds after which a mark is taken for left behind; if that is wrong, it costs another attempt and nothing else"""

AT_A_TIME = 20
"""references looked at"""


def closed_at(item: Item) -> float | None:
    """The second since which a record is being removed, if it is."""
    return float(item[CLOSING]) / 1000 if CLOSING in item else None


def is_abandoned(item: Item, now: float) -> bool:
    """Whether nobody will remove a closed record any more; a clock that is ahead of the other one's errs as well."""
    since = closed_at(item)
    return since is not None and abs(now - since) > PATIENCE


def opened(item: Item) -> Item:
    """A closed record as it was before, under the name of another write."""
    return touched({name: value for name, value in item.items() if name != CLOSING})


async def close(store: Store, item: Item, now: float) -> Item:
    """Closes a record, and gives it back as it stands then."""
    closed = {**touched(item), CLOSING: int(now * 1000)}
    await commit(store, [Put(closed, unchanged(item))])
    return closed


async def reopen(store: Store, closed: Item) -> None:
    """Takes the mark off; where that fails, whoever comes next does it."""
    try:
        await commit(store, [Put(opened(closed), unchanged(closed))])
    except StoreError:
        return


async def refuse_named(store: Store, parent: EntitySpec, values: Sequence[Any], tenant: str | None, now: float) -> None:
    """Refuses if any record names this one; clears away what was left behind by records that are gone."""
    everything = RangeRead(None, references_key(parent, values, tenant), 0, KeyRange(), AT_A_TIME, consistent=True)
    read: RangeRead | None = everything
    while read is not None:
        (page,) = await store.read_ranges([read], want=AT_A_TIME)
        if isinstance(page, StoreError):
            raise page
        found = [row.item for row in page.rows]
        owners = await store.get_many([owner_of(item) for item in found], consistent=True) if found else []
        for item, owner in zip(found, owners, strict=True):
            by = _named_by(parent, item, owner, tenant)
            if by is None or owner is None:
                # Its owner went away, or names another one, by the hand of somebody who knows nothing of this foreign
                # key; or nobody declares that any more.
                left_behind = Check(owner_of(item), unchanged(owner))
                await commit(store, [Delete(key_of(item), unchanged(item)), left_behind])
            elif not has_expired(by[0], owner, now):
                raise _named(parent, values, *by, owner)
        read = None if page.scanned_to is None else behind(read, page.scanned_to, may_tie=False)


def _named_by(
    parent: EntitySpec, reference: Item, owner: Item | None, tenant: str | None
) -> tuple[EntitySpec, Key] | None:
    """How the owner of a reference names the record, as it stands now: its entity, and the key of its reference.

    That may be another one: a foreign key can have got another name.
    """
    name, _, _ = key_of(reference).range.partition(".")
    child = next((child for child in parent.children if child.name == name), None)
    if child is None or owner is None:
        return None
    keys = (key for key in bound_keys(child, owner, tenant) if key.hash == key_of(reference).hash)
    return next(((child, key) for key in keys), None)


def _named(
    parent: EntitySpec, values: Sequence[Any], child: EntitySpec, reference: Key, owner: Item
) -> ForeignKeyBroken:
    """What is told of one record that is in the way: whoever is told knows it by the values of its key."""
    named_by, _, _ = reference.range.partition(SEP)
    _, _, name = named_by.partition(".")
    foreign_key = next(one for one in child.foreign_keys if one.name == name)
    key = [_loaded(part, owner) for part in child.primary]
    parts = " and ".join(f"{child.type_name}.{part.name}" for part in foreign_key.by)
    return ForeignKeyBroken(
        f"{record_name(parent, values)} cannot be removed: {record_name(child, key)} names it by {parts}. Remove that "
        "first, or let it name another one."
    )


def _loaded(part: PropertySpec, item: Item) -> Any:
    """A part of a record's key, as it stands if somebody else wrote it."""
    stored = item.get(part.stored)
    try:
        return part.column.codec.load(stored)
    except InvalidValue:
        return stored
