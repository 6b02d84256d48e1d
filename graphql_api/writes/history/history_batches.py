"""Write entries of histories in batches, each together with the current record of its history."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import ShardQLError
from graphql_api.model import Entity, EntitySpec, value_of
from graphql_api.storage import Item, Put, Store, TransactionWrite, record_size
from graphql_api.writes.constraints.constraint_writes import build_constraint_writes
from graphql_api.writes.display_names import record_name
from graphql_api.writes.history.creation_value import creation_mismatch
from graphql_api.writes.history.current_record import check_not_current, current_record_after, current_record_writes
from graphql_api.writes.history.history_head import CurrentItems, HistoryHead, build_history_head, read_current_items
from graphql_api.writes.item_keys import encode_id, possible_keys, to_item
from graphql_api.writes.optimistic_concurrency import new_write_id, retry_on_conflict
from graphql_api.writes.record_builder import with_update_time
from graphql_api.writes.transactions import commit_transaction

MAX_ENTRIES = 40
MAX_BYTES = 3 * 2**20
"""of the entries of one history in one transaction"""

MAX_CONCURRENT_HISTORIES = 16


@dataclass(frozen=True, slots=True)
class _Entry:
    """A record to write, and its positions in the batch. Of several records with one key the last one is written."""

    record: Entity
    item: Item
    positions: list[int]


@dataclass(slots=True)
class _HistoryEntries:
    """The records of a batch that belong to one id."""

    id_values: Sequence[Any]
    current_items: CurrentItems | None = None
    """as they were read for the first transaction"""
    entries: dict[str, _Entry] = field(default_factory=dict)
    """entries that are not written yet, by sub id"""
    current_record: _Entry | None = None
    """the current record, if the batch contains it: it is written only if the history has no entries"""

    def next_entries(self, limit: int) -> list[_Entry]:
        """Return the entries of the next transaction."""
        selected: list[_Entry] = []
        size = 0
        for entry in self.entries.values():
            size += record_size(entry.item)
            if selected and (len(selected) == limit or size > MAX_BYTES):
                break
            selected.append(entry)
        return selected


async def put_history_entries(
    store: Store,
    entity: EntitySpec,
    records: Sequence[Entity],
    tenant: str | None,
    *,
    clock: Clock,
    restoring: bool = False,
) -> list[ShardQLError | None]:
    """Write each entry with the current record of its history. Return the error of each record, or None.

    A restored batch also contains current records. One is written only if its history has no entries.
    """
    batch = _HistoryBatch(store, entity, tenant, clock, [None] * len(records))
    histories = batch.group_by_id(records, restoring=restoring)
    current_items = await read_current_items(store, entity, [history.id_values for history in histories], tenant)
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_HISTORIES)
    async with asyncio.TaskGroup() as tasks:
        for history, items in zip(histories, current_items, strict=True):
            history.current_items = items
            tasks.create_task(batch.write(history, semaphore))
    return batch.results


@dataclass(frozen=True, slots=True)
class _HistoryBatch:
    """A batch of entries and current records of one entity."""

    store: Store
    entity: EntitySpec
    tenant: str | None
    clock: Clock
    results: list[ShardQLError | None]
    """by position in the batch"""

    def group_by_id(self, records: Sequence[Entity], *, restoring: bool) -> list[_HistoryEntries]:
        """Group the records by id. Those that are invalid get their error as result."""
        entity, histories = self.entity, dict[str, _HistoryEntries]()
        for position, provided in enumerate(records):
            try:
                record = provided if restoring else with_update_time(entity, provided, self.clock())
                item = to_item(entity, record, self.tenant, new_write_id())
                sub_id = value_of(record, entity.sub_ids[0].name)
                if not restoring:
                    check_not_current(entity, [sub_id])
                id_values = [value_of(record, part.name) for part in entity.ids]
                possible_keys(entity, [*id_values, entity.current], self.tenant)  # The current record needs a key too.
            except ShardQLError as problem:
                self.results[position] = problem
                continue
            history = histories.setdefault(encode_id(entity, id_values), _HistoryEntries(id_values))
            if sub_id == entity.current:
                positions = [] if history.current_record is None else history.current_record.positions
                history.current_record = _Entry(record, item, [*positions, position])
            else:
                positions = history.entries.pop(sub_id).positions if sub_id in history.entries else []
                history.entries[sub_id] = _Entry(record, item, [*positions, position])
        return [*histories.values()]

    async def write(self, history: _HistoryEntries, semaphore: asyncio.Semaphore) -> None:
        """Write all records of one id."""
        async with semaphore:
            limit = MAX_ENTRIES
            while history.entries:
                entries = history.next_entries(limit)
                problem = await self._write_entries(history, entries)
                if problem is not None and not problem.retryable and len(entries) > 1:
                    limit = 1  # An invalid entry must not fail the others: write them one by one.
                    continue
                for entry in entries:
                    del history.entries[self._sub_id(entry.record)]
            if history.current_record is not None:
                await self._write_entries(history, [])

    async def _write_entries(self, history: _HistoryEntries, entries: Sequence[_Entry]) -> ShardQLError | None:
        """Write entries in one transaction, or the current record of the batch if there are none. Store the results."""
        written = entries or [entry for entry in [history.current_record] if entry is not None]
        rejected: dict[int, ShardQLError] = {}
        failure: ShardQLError | None = None
        try:
            name = record_name(self.entity, history.id_values)
            rejected = await retry_on_conflict(partial(self._attempt, history, entries), name)
        except ShardQLError as problem:
            failure = problem
        for position in [position for entry in written for position in entry.positions]:
            self.results[position] = rejected.get(position, failure)
        return failure

    async def _attempt(self, history: _HistoryEntries, entries: Sequence[_Entry]) -> dict[int, ShardQLError]:
        """Write the valid entries against the current state. Return the errors of the others, by position."""
        entity, current_items, history.current_items = self.entity, history.current_items, None
        if current_items is None:
            (current_items,) = await read_current_items(self.store, entity, [history.id_values], self.tenant)
        head = await build_history_head(self.store, entity, history.id_values, current_items, self.tenant, self.clock())
        accepted, rejected = self._split_by_creation(history, head, entries)
        newest = max((entry.record for entry in accepted), key=self._sub_id, default=None)
        current_record = current_record_after(entity, head, newest, self.tenant)
        if history.current_record is not None and not entries:
            if head.last_sub_id is not None and head.last_entry is None:
                return rejected
            current_record = history.current_record.item if head.last_sub_id is None else current_record
        elif newest is None:
            return rejected
        writes: list[TransactionWrite] = [Put(entry.item) for entry in accepted]
        constraint_owners = [item for item in head.current_items.values() if item is not None]
        writes += current_record_writes(head, current_record)
        writes += await build_constraint_writes(
            self.store, entity, constraint_owners, current_record, self.tenant, self.clock()
        )
        await commit_transaction(self.store, writes)
        return rejected

    def _split_by_creation(
        self, history: _HistoryEntries, head: HistoryHead, entries: Sequence[_Entry]
    ) -> tuple[list[_Entry], dict[int, ShardQLError]]:
        """Return the entries that belong in the shard of their history, and the errors of the others, by position."""
        accepted: list[_Entry] = []
        rejected: dict[int, ShardQLError] = {}
        for entry in entries:
            stored = head.latest_state if head.latest_state is not None or not accepted else accepted[0].item
            mismatch = creation_mismatch(self.entity, stored, history.id_values, entry.record)
            if mismatch is None:
                accepted.append(entry)
            else:
                rejected.update(dict.fromkeys(entry.positions, mismatch))
        return accepted, rejected

    def _sub_id(self, record: Entity) -> Any:
        return value_of(record, self.entity.sub_ids[0].name)
