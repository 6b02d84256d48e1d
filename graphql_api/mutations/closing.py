"""Removes a record that others may name by foreign keys: it is closed first, then looked at, then removed.

A record that is closed takes no new references: whoever wants to name it makes sure in their transaction that it has no
mark. So what is looked for after it was closed is all that there can be, until the mark is gone; and it is removed only
as long as it stands there with this very mark. A mark that somebody has left behind is taken off by the next one who
comes, after a while; if its owner is only slow, they find it gone and begin anew.
"""

from collections.abc import Sequence
from typing import Any

from graphql_api.catalog.specs import EntitySpec
from graphql_api.errors import ForeignKeyBroken, StoreError
from graphql_api.keys.ranges import KeyRange
from graphql_api.keys.segments import SEP, readable
from graphql_api.mutations.bindings import UNTIL, owner_of, references_key
from graphql_api.mutations.item_keys import key_of
from graphql_api.mutations.pairs import touched
from graphql_api.mutations.transaction import commit
from graphql_api.mutations.tries import unchanged
from graphql_api.store.port import Store
from graphql_api.store.resume import behind
from graphql_api.store.values import Delete, Item, Put, RangeRead

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


async def close(
    store: Store, parent: EntitySpec, values: Sequence[Any], item: Item, tenant: str | None, now: float
) -> Item:
    """Closes a record that nobody names, and gives it back as it stands then; refuses if somebody does."""
    await refuse_named(store, parent, values, tenant, now)
    closed = {**touched(item), CLOSING: int(now * 1000)}
    await commit(store, [Put(closed, unchanged(item))])
    try:
        await refuse_named(store, parent, values, tenant, now)
    except ForeignKeyBroken:
        await reopen(store, closed)
        raise
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
        found = [row.item for row in page.rows if not _is_over(row.item, now)]
        owners = await store.get_many([owner_of(item) for item in found], consistent=True) if found else []
        for item, owner in zip(found, owners, strict=True):
            if owner is not None:
                raise _named(parent, values, item)
            # Somebody has removed its owner who knows nothing of foreign keys.
            await commit(store, [Delete(key_of(item), unchanged(item))])
        read = None if page.scanned_to is None else behind(read, page.scanned_to, may_tie=False)


def _is_over(reference: Item, now: float) -> bool:
    return UNTIL in reference and bool(reference[UNTIL] <= now)


def _named(parent: EntitySpec, values: Sequence[Any], reference: Item) -> ForeignKeyBroken:
    by, _, child = key_of(reference).range.partition(SEP)
    return ForeignKeyBroken(
        f"{parent.type_name} {'/'.join(map(str, values))} cannot be removed: the record {readable(child)} names it by "
        f"{by}. Remove that first, or let it name another one."
    )
