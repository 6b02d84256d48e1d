"""Create records in batches, without a read: transactions on the condition that there is no record yet.

A record whose condition fails, and every record that needs a read or a decision of its own, is left to the execution of
single commands. So this path only has to know what it can do.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from graphql_api.clock import Clock
from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    OutcomeUnknown,
    SchemaChanged,
    ShardQLError,
    for_one_of_several,
)
from graphql_api.model import Entity
from graphql_api.storage import MAX_TRANSACTION_WRITES, Expect, Item, Key, Put, Store, TransactionWrite
from graphql_api.writes.commands import AnyCommand, Create
from graphql_api.writes.constraints import constraint_items
from graphql_api.writes.entity_records import EntityRecords, single_copy_writes, values_of
from graphql_api.writes.item_keys import item_key, write_key
from graphql_api.writes.lookup_mappings import mapping_writes
from graphql_api.writes.preconditions import check_command
from graphql_api.writes.record_builder import build_record
from graphql_api.writes.snapshot import check_new_generation
from graphql_api.writes.transactions import commit_transaction


@dataclass(frozen=True, slots=True)
class PlannedCreation:
    """A new record, and the writes that create it if it does not exist."""

    record: Entity
    writes: Mapping[Key, TransactionWrite]


def can_be_planned(command: AnyCommand) -> bool:
    """Return whether a command is a create that nothing else decides: no rule, key, counter, parent or history."""
    if not isinstance(command, Create) or command.idempotency_key is not None:
        return False
    entity, has_rules = command.entity, command.allow is not None or command.allow_references is not None
    return not (has_rules or entity.counters or entity.foreign_keys or entity.sub_ids)


def plan_creation(records: EntityRecords, command: Create) -> PlannedCreation:
    """Return the writes of a create that depends on nothing that is stored."""
    entity = records.entity
    check_command(command)
    record = build_record(entity, command.values, None, records.clock())
    item, keys = _item_and_keys(records, record)
    check_new_generation(entity, record, None)
    writes = single_copy_writes(dict.fromkeys(keys), item)
    writes += mapping_writes(entity, (), writes, records.tenant)
    writes += [Put(each.item, _ABSENT) for each in constraint_items(entity, item, records.tenant).values()]
    return PlannedCreation(record, {write_key(write): write for write in writes})


def _item_and_keys(records: EntityRecords, record: Entity) -> tuple[Item, Sequence[Key]]:
    """Return the item of a new record, and every key that the record can have."""
    entity = records.entity
    if len(entity.space.generations) == 1:
        with suppress(ShardQLError):
            item = records.item(record)
            return item, [item_key(item)]
    keys = records.keys(values_of(record, entity.primary_key))  # Its errors have priority.
    return records.item(record), keys


_ABSENT = Expect(absent=True)


@dataclass(slots=True)
class CreationBatch:
    """Creates of a batch, which are sent in as few transactions as possible."""

    store: Store
    tenant: str | None
    clock: Clock
    results: dict[int, Entity | ShardQLError | None] = field(default_factory=dict)
    """by position in the batch"""
    planned: dict[int, PlannedCreation] = field(default_factory=dict)
    """by position; those without a result failed for a reason of their own, or were left out"""
    _groups: list[dict[int, PlannedCreation]] = field(default_factory=list)
    _records: dict[int, EntityRecords] = field(default_factory=dict)
    """by the identity of the entity"""
    _keys: set[Key] = field(default_factory=set)
    _size: int = 0
    """writes of the last group"""

    def add(self, position: int, command: Create) -> None:
        """Plan a command. One that writes what an earlier one of the batch writes is left out."""
        entity = command.entity
        records = self._records.get(id(entity))
        if records is None:
            records = self._records[id(entity)] = EntityRecords(self.store, entity, self.tenant, self.clock)
        try:
            planned = plan_creation(records, command)
        except ShardQLError as problem:
            self.results[position] = problem
            return
        self.planned[position] = planned
        if not self._keys.isdisjoint(planned.writes):
            return
        self._keys |= planned.writes.keys()
        self._size += len(planned.writes)
        if not self._groups or self._size > MAX_TRANSACTION_WRITES:
            self._groups.append({})
            self._size = len(planned.writes)
        self._groups[-1][position] = planned

    async def commit(self) -> None:
        """Send all transactions. Creates that fail for a reason of their own have no result then."""
        if len(self._groups) == 1:
            await self._commit(self._groups[0])
        else:
            await asyncio.gather(*map(self._commit, self._groups))

    async def _commit(self, group: dict[int, PlannedCreation]) -> None:
        while group:
            writes = {key: write for planned in group.values() for key, write in planned.writes.items()}
            try:
                await commit_transaction(self.store, [*writes.values()], is_idempotent=False)
            except ConditionFailed as failed:
                keys = [*writes]
                existing = {keys[position] for position in failed.failures}
                group = {at: one for at, one in group.items() if existing.isdisjoint(one.writes)} if existing else {}
                continue
            except ShardQLError as problem:
                if _concerns_all(problem, len(group)):
                    self.results |= {position: for_one_of_several(problem) for position in group}
                return
            self.results |= {position: planned.record for position, planned in group.items()}
            return


def _concerns_all(problem: ShardQLError, count: int) -> bool:
    """Return whether the error of a transaction is that of each of its creates, which alone would have no other."""
    if isinstance(problem, OutcomeUnknown | SchemaChanged):
        return True
    # Nothing was written, and another create may be the reason.
    return count == 1 and problem.retryable and not isinstance(problem, Conflict)
