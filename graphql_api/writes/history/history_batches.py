"""Writes entries of histories together with their current records: never one without the other."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec, value_of
from graphql_api.storage import Item, Put, Store, TogetherWrite, record_size
from graphql_api.writes.constraints.constraint_writes import binding_writes
from graphql_api.writes.display_names import record_name
from graphql_api.writes.history.current_record import current_after, current_writes, moved, refuse_current
from graphql_api.writes.history.history_head import Currents, Head, head_of, read_currents
from graphql_api.writes.item_keys import encoded_id, item_of, keys_of
from graphql_api.writes.optimistic_concurrency import in_some_tries, new_write_id
from graphql_api.writes.record_builder import renewed
from graphql_api.writes.transactions import commit

MAX_ENTRIES = 40
MAX_BYTES = 3 * 2**20
"""of the entries of one history that are written together"""

AT_ONCE = 16
"""histories"""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A record to write, and its places in the batch: of several with one key the last one counts."""

    record: Entity
    item: Item
    rows: list[int]


@dataclass(slots=True)
class _History:
    """What a batch has of one id."""

    values: Sequence[Any]
    currents: Currents | None = None
    """as they were read before the first write"""
    entries: dict[str, _Entry] = field(default_factory=dict)
    """by sub id"""
    given: _Entry | None = None
    """the current record itself: it counts while there is no entry that would decide"""

    def some(self, most: int) -> list[_Entry]:
        """The entries that are written next."""
        found: list[_Entry] = []
        size = 0
        for entry in self.entries.values():
            size += record_size(entry.item)
            if found and (len(found) == most or size > MAX_BYTES):
                break
            found.append(entry)
        return found


async def put_entries(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    tenant: str | None,
    *,
    clock: Clock,
    restoring: bool = False,
) -> list[ShardQLError | None]:
    """Writes each entry, and with it the current record of its id; tells for each whether it failed.

    When a table is restored the current records come too: one counts where its id has no entries.
    """
    batch = _Batch(store, entity, tenant, clock, [None] * len(records))
    histories = batch.read(records, restoring=restoring)
    currents = await read_currents(store, entity, [history.values for history in histories], tenant)
    room = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for history, found in zip(histories, currents, strict=True):
            history.currents = found
            group.create_task(batch.write(history, room))
    return batch.results


@dataclass(frozen=True, slots=True)
class _Batch:
    store: Store
    entity: EntitySpec
    tenant: str | None
    clock: Clock
    results: list[ShardQLError | None]
    """by place"""

    def read(self, records: Sequence[Entity], *, restoring: bool) -> list[_History]:
        """The batch by ids, without the records that can be none."""
        entity, found = self.entity, dict[str, _History]()
        for row, given in enumerate(records):
            try:
                record = given if restoring else renewed(entity, given, self.clock())
                item = item_of(entity, record, self.tenant, new_write_id())
                sub = value_of(record, entity.sub_ids[0].name)
                if not restoring:
                    refuse_current(entity, [sub])
                values = [value_of(record, part.name) for part in entity.ids]
                keys_of(entity, [*values, entity.current], self.tenant)  # The current record needs a key as well.
            except ShardQLError as problem:
                self.results[row] = problem
                continue
            history = found.setdefault(encoded_id(entity, values), _History(values))
            if sub == entity.current:
                rows = [] if history.given is None else history.given.rows
                history.given = _Entry(record, item, [*rows, row])
            else:
                rows = history.entries.pop(sub).rows if sub in history.entries else []
                history.entries[sub] = _Entry(record, item, [*rows, row])
        return [*found.values()]

    async def write(self, history: _History, room: asyncio.Semaphore) -> None:
        """Writes all that the batch has of one id."""
        async with room:
            most = MAX_ENTRIES
            while history.entries:
                some = history.some(most)
                problem = await self._write_some(history, some)
                if problem is not None and not problem.retryable and len(some) > 1:
                    most = 1  # One of them is wrong, and the others are not: each by itself.
                    continue
                for entry in some:
                    del history.entries[value_of(entry.record, self.entity.sub_ids[0].name)]
            if history.given is not None:
                await self._write_some(history, [])

    async def _write_some(self, history: _History, entries: Sequence[_Entry]) -> ShardQLError | None:
        """Writes entries, or where there are none the current record that was given; notes what came of it."""
        told = entries or [entry for entry in [history.given] if entry is not None]
        outcome: dict[int, ShardQLError] = {}
        problem: ShardQLError | None = None
        try:
            name = record_name(self.entity, history.values)
            outcome = await in_some_tries(partial(self._attempt, history, entries), name)
        except ShardQLError as met:
            problem = met
        for row in [row for entry in told for row in entry.rows]:
            self.results[row] = outcome.get(row, problem)
        return problem

    async def _attempt(self, history: _History, entries: Sequence[_Entry]) -> dict[int, ShardQLError]:
        """Writes what may be written as things stand; tells what may not, by its place."""
        entity, currents, history.currents = self.entity, history.currents, None
        if currents is None:
            (currents,) = await read_currents(self.store, entity, [history.values], self.tenant)
        head = await head_of(self.store, entity, history.values, currents, self.tenant, self.clock())
        right, wrong = self._of_one_creation(history, head, entries)
        newest = max((entry.record for entry in right), key=self._sub_id, default=None)
        becomes = current_after(entity, head, newest, self.tenant)
        if history.given is not None and not entries:
            if head.last is not None and head.entry is None:
                return wrong
            becomes = history.given.item if head.last is None else becomes
        elif newest is None:
            return wrong
        writes: list[TogetherWrite] = [Put(entry.item) for entry in right]
        bound = [item for item in head.currents.values() if item is not None]
        writes += current_writes(head, becomes)
        writes += await binding_writes(self.store, entity, bound, becomes, self.tenant, self.clock())
        await commit(self.store, writes)
        return wrong

    def _of_one_creation(
        self, history: _History, head: Head, entries: Sequence[_Entry]
    ) -> tuple[list[_Entry], dict[int, ShardQLError]]:
        """The entries that lie where their id does, and what is wrong with the others."""
        right: list[_Entry] = []
        wrong: dict[int, ShardQLError] = {}
        for entry in entries:
            state = head.state if head.state is not None or not right else right[0].item
            problem = moved(self.entity, state, history.values, entry.record)
            if problem is None:
                right.append(entry)
            else:
                wrong.update(dict.fromkeys(entry.rows, problem))
        return right, wrong

    def _sub_id(self, record: Entity) -> Any:
        return value_of(record, self.entity.sub_ids[0].name)
