"""Applies writes to the store, and reads records by key."""

from collections.abc import Iterable, Sequence
from typing import Any

from graphql_api.catalog.entity import Entity
from graphql_api.catalog.items import from_item, has_expired
from graphql_api.catalog.specs import EntitySpec
from graphql_api.errors import ShardQLError
from graphql_api.mutations.creation import creation_changes
from graphql_api.mutations.histories import put_entries
from graphql_api.mutations.item_keys import item_of, key_of, keys_of
from graphql_api.mutations.tries import new_write_id
from graphql_api.mutations.update import delete_entry
from graphql_api.store.port import Store
from graphql_api.store.values import Delete, Item, Put


async def put_records(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    tenant: str | None,
    *,
    now: float,
    restoring: bool = False,
) -> list[ShardQLError | None]:
    """Writes each record in place of what is at its key, and tells for each whether it failed.

    Of several records with one key the last one counts. `restoring`: current records may be among them.
    """
    if entity.current is not None:
        return await put_entries(store, entity, records, tenant, now=now, restoring=restoring)
    results: list[ShardQLError | None] = [None] * len(records)
    items: dict[int, Item] = {}
    for at, record in enumerate(records):
        try:
            items[at] = item_of(entity, record, tenant, new_write_id())
        except ShardQLError as problem:
            results[at] = problem
    if len(entity.space.generations) > 1:
        for at, changed in (await creation_changes(store, entity, records, items, tenant, now)).items():
            results[at] = changed
            del items[at]
    last = {key_of(item): at for at, item in items.items()}
    written = [at for at, item in items.items() if last[key_of(item)] == at]
    if written:
        answers = await store.write([Put(items[at]) for at in written])
        outcome = dict(zip(written, answers, strict=True))
        for at, item in items.items():
            results[at] = outcome[last[key_of(item)]]
    return results


def living_record(entity: EntitySpec, items: Iterable[Item | None], now: float) -> Entity | None:
    """The record among the items at all keys that it can have, unless it has expired."""
    living = (item for item in items if item is not None and not has_expired(entity, item, now))
    return next((from_item(entity, item) for item in living), None)


async def delete_record(
    store: Store, entity: EntitySpec, values: Sequence[Any], tenant: str | None, *, now: float
) -> None:
    """Removes the record with these values of its primary key, if there is one."""
    if entity.current is not None:
        await delete_entry(store, entity, values, tenant, now=now)
        return
    problems = await store.write([Delete(key) for key in keys_of(entity, values, tenant)])
    for problem in problems:
        if problem is not None:
            raise problem
