"""Write entries of histories in batches, each together with the current record of its history."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from graphql_api.errors import CreationChanged, ShardQLError
from graphql_api.model import Entity, value_of
from graphql_api.storage import Check, Item, Put, TransactionWrite, record_size
from graphql_api.writes.commands import PutRecord
from graphql_api.writes.constraints import build_constraint_writes
from graphql_api.writes.display_names import record_name
from graphql_api.writes.entity_records import EntityRecords, StoredItems, single_copy_writes, values_of
from graphql_api.writes.item_keys import encode_id, item_key, write_key
from graphql_api.writes.lookup_mappings import mapping_writes
from graphql_api.writes.preconditions import check_not_current
from graphql_api.writes.record_builder import record_to_put
from graphql_api.writes.snapshot import (
    HistoryHead,
    check_creation_of_history,
    check_new_generation,
    current_record_after,
    history_shard_writes,
    read_current_items,
    read_history_head,
)
from graphql_api.writes.transactions import commit_transaction, expect_unchanged, retry_on_conflict

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

    records: EntityRecords
    id_values: Sequence[Any]
    problems: dict[int, ShardQLError]
    """of the batch, by position"""
    current_items: StoredItems | None = None
    """as they were read for the first transaction"""
    entries: dict[Any, _Entry] = field(default_factory=dict)
    """what is not written yet, by sub id"""

    def add(self, position: int, record: Entity, item: Item, sub_id: Any) -> None:
        """Add a record, in place of an earlier one with its key."""
        earlier = self.entries.pop(sub_id, None)
        self.entries[sub_id] = _Entry(record, item, [position] if earlier is None else [*earlier.positions, position])

    async def write(self, semaphore: asyncio.Semaphore) -> None:
        """Write all entries. A current record is written last, and only if the history has no entries."""
        async with semaphore:
            current_record = self.entries.pop(self.records.entity.written_current, None)
            # Each entry may also remove and store a mapping item of every lookup.
            limit = max(1, MAX_ENTRIES // (1 + len(self.records.entity.written_lookups)))
            while self.entries:
                entries, size = dict[Any, _Entry](), 0
                for sub_id, entry in self.entries.items():
                    size += record_size(entry.item)
                    if entries and (len(entries) == limit or size > MAX_BYTES):
                        break
                    entries[sub_id] = entry
                problem = await self._write_entries([*entries.values()])
                if problem is not None and not problem.retryable and len(entries) > 1:
                    limit = 1  # An invalid entry must not fail the others: write them one by one.
                    continue
                for sub_id in entries:
                    del self.entries[sub_id]
            if current_record is not None:
                await self._write_entries([current_record], is_current=True)

    async def _write_entries(self, entries: Sequence[_Entry], *, is_current: bool = False) -> ShardQLError | None:
        """Write entries, or the current record of the batch, in one transaction. Return the error."""
        name = record_name(self.records.entity, self.id_values)
        positions = [position for entry in entries for position in entry.positions]
        try:
            rejected = await retry_on_conflict(partial(self._attempt, entries, is_current), name)
        except ShardQLError as problem:
            self.problems |= dict.fromkeys(positions, problem)
            return problem
        for position in positions:
            self.problems.pop(position, None)
        self.problems |= rejected
        return None

    async def _attempt(self, entries: Sequence[_Entry], is_current: bool) -> dict[int, ShardQLError]:
        """Write the valid entries against the current state. Return the errors of the others, by position."""
        current_items, self.current_items = self.current_items, None
        head = await read_history_head(self.records, self.id_values, current_items)
        entries, stored = await self._merge_with_stored(entries)
        accepted, rejected = self._split_by_creation(head, () if is_current else entries)
        sub_id = self.records.entity.sub_ids[0].name
        newest = max(accepted, key=lambda entry: value_of(entry.record, sub_id), default=None)
        if newest is None:
            current_record = current_record_after(self.records, head, None)
        else:
            current_record = current_record_after(self.records, head, newest.record, newest.item)
        if is_current and head.last_sub_id is None:
            current_record = entries[0].item
        elif newest is None and not (is_current and head.last_entry is not None):
            return rejected  # There is nothing to write.
        conditions = {key: expect_unchanged(item) for key, item in stored.items()}
        guards: list[TransactionWrite] = []
        if accepted and head.has_no_current_item and self.records.entity.guards_first_entries:
            guards = await history_shard_writes(self.records, accepted[0].record)
            conditions |= {write.key: write.expect for write in guards if isinstance(write, Check)}
        writes: list[TransactionWrite] = [Put(entry.item, conditions.get(item_key(entry.item))) for entry in accepted]
        keys = {write_key(write) for write in writes}
        writes += [write for write in guards if write_key(write) not in keys]
        writes += single_copy_writes(head.current_items, current_record)
        replaced = [*stored.values(), *head.current_items.values()]
        writes += mapping_writes(self.records.entity, replaced, writes, self.records.tenant)
        constraint_owners = [item for item in head.current_items.values() if item is not None]
        writes += await build_constraint_writes(self.records, constraint_owners, current_record)
        await commit_transaction(self.records.store, writes)
        return rejected

    async def _merge_with_stored(self, entries: Sequence[_Entry]) -> tuple[list[_Entry], StoredItems]:
        """Return the entries with what only other catalogs declare of the stored ones, and these.

        They are not read if no other catalog declares more.
        """
        if not self.records.entity.puts_need_stored_record:
            return [*entries], {}
        stored = await self.records.read([item_key(entry.item) for entry in entries])
        merged = []
        for entry in entries:
            old = self.records.visible([stored[item_key(entry.item)]])
            check_new_generation(self.records.entity, entry.record, old)
            merged.append(replace(entry, item=self.records.item(entry.record, old)))
        return merged, stored

    def _split_by_creation(
        self, head: HistoryHead, entries: Sequence[_Entry]
    ) -> tuple[list[_Entry], dict[int, ShardQLError]]:
        """Return the entries that belong in the shard of their history, and the errors of the others, by position."""
        accepted: list[_Entry] = []
        rejected: dict[int, ShardQLError] = {}
        for entry in entries:
            stored = head.latest_state if head.latest_state is not None or not accepted else accepted[0].item
            try:
                check_creation_of_history(self.records.entity, stored, entry.record)
            except CreationChanged as problem:
                rejected |= dict.fromkeys(entry.positions, problem)
            else:
                accepted.append(entry)
        return accepted, rejected


async def put_history_entries(records: EntityRecords, commands: Sequence[PutRecord]) -> list[ShardQLError | None]:
    """Write each entry with the current record of its history. Return the error of each command, or None.

    A restored batch also contains current records. One is written only if its history has no entries.
    """
    entity, now, histories = records.entity, records.clock(), dict[str, _HistoryEntries]()
    problems: dict[int, ShardQLError] = {}
    for position, command in enumerate(commands):
        try:
            record = record_to_put(command, now)
            item = records.item(record)
            sub_id = value_of(record, entity.sub_ids[0].name)
            if not command.restoring:
                check_not_current(entity, [sub_id])
            id_values = values_of(record, entity.ids)
            records.keys([*id_values, entity.written_current])  # The current record needs a key too.
        except ShardQLError as problem:
            problems[position] = problem
            continue
        history = histories.setdefault(encode_id(entity, id_values), _HistoryEntries(records, id_values, problems))
        history.add(position, record, item, sub_id)
    current_items = await read_current_items(records, [history.id_values for history in histories.values()])
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_HISTORIES)
    async with asyncio.TaskGroup() as tasks:
        for history, items in zip(histories.values(), current_items, strict=True):
            history.current_items = items
            tasks.create_task(history.write(semaphore))
    return [problems.get(position) for position in range(len(commands))]
