"""Puts records in bulk, and carries out commands one by one."""

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
from graphql_api.writes.executor import carry_out
from graphql_api.writes.history.creation_value import creation_changes
from graphql_api.writes.history.history_batches import put_entries
from graphql_api.writes.item_keys import item_of, key_of, keys_of
from graphql_api.writes.optimistic_concurrency import new_write_id
from graphql_api.writes.record_builder import given_values, renewed
from graphql_api.writes.write_coalescer import Together

T = TypeVar("T")

AT_ONCE = 100
"""records that are written by a transaction each; a few are sent for all of them (`together`)"""


async def put_records(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    tenant: str | None,
    *,
    clock: Clock,
    restoring: bool = False,
) -> list[ShardQLError | None]:
    """Writes each record in place of what is at its key, and tells for each whether it failed.

    Of several records with one key the last one counts. `restoring`: they come out of another table, current records
    may be among them, and what a server has set there stays.
    """
    if entity.current is not None:
        return await put_entries(store, entity, records, tenant, clock=clock, restoring=restoring)
    if entity.is_constrained:
        return await _put_each(store, entity, records, tenant, clock=clock, restoring=restoring)
    now = clock()
    results: list[ShardQLError | None] = [None] * len(records)
    items: dict[int, Item] = {}
    for at, record in enumerate(records):
        try:
            written_as = record if restoring else renewed(entity, record, now)
            items[at] = item_of(entity, written_as, tenant, new_write_id())
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


async def _put_each(
    store: Store, entity: EntitySpec, records: Sequence[Entity], tenant: str | None, *, clock: Clock, restoring: bool
) -> list[ShardQLError | None]:
    """Writes each record by a transaction of its own, which looks at what it depends on."""

    async def put(record: Entity) -> Entity | None:
        command = Replace(entity, given_values(entity, record))
        return await carry_out(together, command, tenant, clock=clock, restoring=restoring)

    if len(records) > 1:
        with suppress(ShardQLError):  # Who is concerned by it is told so by the write of the record.
            await raise_counters(store, entity, [one for one in records if isinstance(one, entity.model)], tenant)
    keys = [_key_in(entity, vars(record)) if isinstance(record, entity.model) else None for record in records]
    async with Together(store) as together:
        answers = await in_turns(put, records, keys)
    return [answer if isinstance(answer, ShardQLError) else None for answer in answers]


async def apply_each(
    carry: Callable[[Command], Awaitable[Entity | None]], commands: Sequence[Command]
) -> list[Entity | ShardQLError | None]:
    """What becomes of each command; those of one record are carried out in their order, others at the same time."""
    return await in_turns(carry, commands, [_named_by(command) for command in commands])


async def in_turns(
    do: Callable[[T], Awaitable[Entity | None]], each: Sequence[T], keys: Sequence[Hashable]
) -> list[Entity | ShardQLError | None]:
    """What each comes to: those with one key one after the other, others at the same time; None is no key.

    Where one fails for the moment, those behind it are left for later as well: it comes again, and then before them.
    """
    answers: list[Entity | ShardQLError | None] = [None] * len(each)
    lines: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        lines.setdefault((at,) if key is None else key, []).append(at)
    room = asyncio.Semaphore(AT_ONCE)

    async def go(line: Sequence[int]) -> None:
        late: ShardQLError | None = None
        async with room:
            for at in line:
                try:
                    answers[at] = _left_for_later(late) if late is not None else await do(each[at])
                except ShardQLError as problem:
                    answers[at] = problem
                    late = problem if problem.retryable else None

    async with asyncio.TaskGroup() as group:
        for line in lines.values():
            group.create_task(go(line))
    return answers


def _left_for_later(problem: ShardQLError) -> ShardQLError:
    """What is told of a write behind one of the same record that failed for the moment."""
    later = for_one_of_several(problem)
    later.message = f"It is left for later, since a write of the same record before it has failed: {problem.message}"
    later.args = (later.message,)
    return later


def _named_by(command: Command) -> Hashable:
    """The record that a command is about, if that is known before it is carried out."""
    entity = command.entity
    if isinstance(command, Create | Replace):
        return _key_in(entity, command.values)
    return (entity.name, *map(str, command.key[: len(entity.ids)]))


def _key_in(entity: EntitySpec, values: Any) -> Hashable:
    ids = [values.get(part.name) for part in entity.ids]
    return None if None in ids else (entity.name, *map(str, ids))


async def delete_unbound(store: Store, entity: EntitySpec, values: Sequence[Any], tenant: str | None) -> None:
    """Removes the record with these values of its primary key, which nothing else depends on, if there is one."""
    problems = await store.write([Delete(key) for key in keys_of(entity, values, tenant)])
    for problem in problems:
        if problem is not None:
            raise problem
