"""Put records in bulk, and execute several commands, each independently of the others."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from graphql_api.clock import Clock
from graphql_api.errors import ShardQLError, for_one_of_several
from graphql_api.model import Entity, EntitySpec
from graphql_api.storage import Delete, Item, Put, Store
from graphql_api.writes.commands import Command, Create, Replace
from graphql_api.writes.constraints.counters import raise_counters
from graphql_api.writes.executor import execute_command
from graphql_api.writes.history.creation_value import find_creation_changes
from graphql_api.writes.history.history_batches import put_history_entries
from graphql_api.writes.item_keys import item_key, possible_keys, to_item
from graphql_api.writes.optimistic_concurrency import new_write_id
from graphql_api.writes.record_builder import record_values, with_update_time
from graphql_api.writes.write_coalescer import WriteCoalescer

T = TypeVar("T")

MAX_CONCURRENT_TRANSACTIONS = 100
"""of one batch; the write coalescer sends several of them as one"""


async def put_records(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    tenant: str | None,
    *,
    clock: Clock,
    restoring: bool = False,
) -> list[ShardQLError | None]:
    """Create or replace each record. Return the error of each record, or None.

    Of several records with one key the last one is written. `restoring`: the records were exported from another table,
    may include current records, and keep the values that a server has set there.
    """
    if entity.current is not None:
        return await put_history_entries(store, entity, records, tenant, clock=clock, restoring=restoring)
    if entity.is_constrained:
        return await _put_constrained(store, entity, records, tenant, clock=clock, restoring=restoring)
    now = clock()
    results: list[ShardQLError | None] = [None] * len(records)
    items: dict[int, Item] = {}
    for position, record in enumerate(records):
        try:
            new_record = record if restoring else with_update_time(entity, record, now)
            items[position] = to_item(entity, new_record, tenant, new_write_id())
        except ShardQLError as problem:
            results[position] = problem
    if len(entity.space.generations) > 1:
        changes = await find_creation_changes(store, entity, records, items, tenant, now)
        for position, change in changes.items():
            results[position] = change
            del items[position]
    last_position = {item_key(item): position for position, item in items.items()}
    written = [position for position, item in items.items() if last_position[item_key(item)] == position]
    if written:
        outcomes = await store.write([Put(items[position]) for position in written])
        outcome_at = dict(zip(written, outcomes, strict=True))
        for position, item in items.items():
            results[position] = outcome_at[last_position[item_key(item)]]
    return results


async def _put_constrained(
    store: Store, entity: EntitySpec, records: Sequence[Entity], tenant: str | None, *, clock: Clock, restoring: bool
) -> list[ShardQLError | None]:
    """Put each record in a transaction of its own, with its constraint items."""

    async def put(record: Entity) -> Entity | None:
        command = Replace(entity, record_values(entity, record))
        return await execute_command(coalescer, command, tenant, clock=clock, restoring=restoring)

    if len(records) > 1:
        with suppress(ShardQLError):  # The write of an affected record reports the error.
            valid = [record for record in records if isinstance(record, entity.model)]
            await raise_counters(store, entity, valid, tenant)
    keys = [_id_in(entity, vars(record)) if isinstance(record, entity.model) else None for record in records]
    async with WriteCoalescer(store) as coalescer:
        results = await run_grouped_by_key(put, records, keys)
    return [result if isinstance(result, ShardQLError) else None for result in results]


async def apply_each(
    execute: Callable[[Command], Awaitable[Entity | None]], commands: Sequence[Command]
) -> list[Entity | ShardQLError | None]:
    """Execute commands concurrently, but those of one record in order. Return their results in input order."""
    return await run_grouped_by_key(execute, commands, [_target_of(command) for command in commands])


async def run_grouped_by_key(
    run: Callable[[T], Awaitable[Entity | None]], items: Sequence[T], keys: Sequence[Hashable]
) -> list[Entity | ShardQLError | None]:
    """Run items concurrently, but sequentially per key. Return results in input order. None means no key.

    After a retryable error the remaining items with the same key are skipped with that error, so that a retry keeps
    their order.
    """
    results: list[Entity | ShardQLError | None] = [None] * len(items)
    groups: dict[Hashable, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault((position,) if key is None else key, []).append(position)
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_TRANSACTIONS)

    async def run_group(positions: Sequence[int]) -> None:
        failure: ShardQLError | None = None
        async with semaphore:
            for position in positions:
                try:
                    results[position] = await run(items[position]) if failure is None else _skipped_after(failure)
                except ShardQLError as problem:
                    results[position] = problem
                    failure = problem if problem.retryable else None

    async with asyncio.TaskGroup() as tasks:
        for positions in groups.values():
            tasks.create_task(run_group(positions))
    return results


def _skipped_after(failure: ShardQLError) -> ShardQLError:
    """Return the error of a write that was skipped, because an earlier one of the same record failed."""
    skipped = for_one_of_several(failure)
    skipped.rephrase("Skipped, because an earlier write of the same record failed: {problem}")
    return skipped


def _target_of(command: Command) -> Hashable:
    """Return a key for the record that a command writes; None if its id is not known before the execution."""
    entity = command.entity
    if isinstance(command, Create | Replace):
        return _id_in(entity, command.values)
    return (entity.name, *map(str, command.key[: len(entity.ids)]))


def _id_in(entity: EntitySpec, values: Any) -> Hashable:
    id_values = [values.get(part.name) for part in entity.ids]
    return None if None in id_values else (entity.name, *map(str, id_values))


async def delete_unconstrained(store: Store, entity: EntitySpec, values: Sequence[Any], tenant: str | None) -> None:
    """Delete the record with these values of its primary key, if it exists. No other item may depend on it."""
    problems = await store.write([Delete(key) for key in possible_keys(entity, values, tenant)])
    for problem in problems:
        if problem is not None:
            raise problem
