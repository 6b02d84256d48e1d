"""What stands of a history before it is written to: its current record, and its last entry."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.codecs import Eq, range_of
from graphql_api.errors import StoreError
from graphql_api.model import EntitySpec, has_expired, living
from graphql_api.storage import Item, Key, RangeRead, Store, behind
from graphql_api.writes.item_keys import CURRENT_OF, encoded_id, hash_keys_of, keys_of

Currents = Mapping[Key, Item | None]
"""what stands at each key that a current record may have, one for each generation of shards"""


@dataclass(frozen=True, slots=True)
class Head:
    """One id of an entity with current records, as it was read.

    Whatever is written to an entry writes the current record too, if only to name the write there: so nothing that is
    known here can have changed if that record has not.
    """

    currents: Currents
    current: Item | None
    """the current record, unless it has expired"""
    entry: Item | None
    """the last entry; looked for only where the current record does not say which one it is equal to"""
    last: str | None
    """sub id of the last entry; None: there is none"""

    @property
    def state(self) -> Item | None:
        """The latest state of the id."""
        return self.current if self.entry is None else self.entry


async def read_currents(
    store: Store, entity: EntitySpec, ids: Sequence[Sequence[Any]], tenant: str | None
) -> list[Currents]:
    """What stands at the keys of the current records of several ids."""
    keys = [keys_of(entity, [*values, entity.current], tenant) for values in ids]
    found = iter(await store.get_many([key for each in keys for key in each], consistent=True))
    return [{key: next(found) for key in each} for each in keys]


async def head_of(
    store: Store, entity: EntitySpec, values: Sequence[Any], currents: Currents, tenant: str | None, now: float
) -> Head:
    """The head of an id, of which the current record has been looked for."""
    current = living(entity, currents.values(), now)
    if current is not None and CURRENT_OF in current:
        return Head(currents, current, None, current[CURRENT_OF])
    assert entity.current is not None, "heads are read where current records are declared"
    entry = await last_entry(store, entity, values, tenant, now, without={entity.current})
    return Head(currents, current, entry, None if entry is None else entry[entity.sub_ids[0].stored])


async def read_head(store: Store, entity: EntitySpec, values: Sequence[Any], tenant: str | None, now: float) -> Head:
    """The head of one id."""
    (currents,) = await read_currents(store, entity, [values], tenant)
    return await head_of(store, entity, values, currents, tenant, now)


async def last_entry(
    store: Store,
    entity: EntitySpec,
    values: Sequence[Any],
    tenant: str | None,
    now: float,
    *,
    without: Collection[str] = (),
) -> Item | None:
    """The last entry of an id that has not expired, leaving out some by their only sub id."""
    of_this_id = range_of(entity.indexes["by_id"].columns, [Eq(value) for value in values])
    hash_keys = hash_keys_of(entity, encoded_id(entity, values), tenant)
    reads = [
        # Going on downwards an engine may have to look at the row once more that it ended with.
        RangeRead(None, hash_key, ordinal, of_this_id, limit=len(without) + 2, descending=True, consistent=True)
        for ordinal, hash_key in enumerate(hash_keys)
    ]
    stored = entity.sub_ids[0].stored
    found: list[tuple[Any, Item]] = []
    while reads:
        left = []
        answers = await store.read_ranges(reads, want=sum(read.limit for read in reads))
        for read, answer in zip(reads, answers, strict=True):
            if isinstance(answer, StoreError):
                raise answer
            rows = [row for row in answer.rows if not has_expired(entity, row.item, now)]
            last = next((row for row in rows if row.item.get(stored) not in without), None)
            if last is not None:
                found.append((last.value, last.item))
            elif answer.scanned_to is not None:
                rest = behind(read, answer.scanned_to, may_tie=False)
                left += [rest] if rest is not None else []
        reads = left
    return max(found, key=lambda one: one[0])[1] if found else None
