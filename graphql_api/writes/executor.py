"""Execute commands. The executor decides how each one reaches the store: the path with the fewest reads and writes."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import SchemaChanged, ShardQLError, for_one_of_several
from graphql_api.model import Entity
from graphql_api.storage import Delete, Key, Put, Store, Write
from graphql_api.writes.combined_write import CombinedWrite, ResultCheck, WriteCompanion
from graphql_api.writes.command_transaction import execute_transaction
from graphql_api.writes.commands import AnyCommand, Command, Create, PutRecord, Remove, Replace, key_values
from graphql_api.writes.counters import raise_counters
from graphql_api.writes.creation_batches import CreationBatch, can_be_planned
from graphql_api.writes.entity_records import EntityRecords
from graphql_api.writes.history_batches import put_history_entries
from graphql_api.writes.idempotency import IdempotencyGuard, IdempotentRequest
from graphql_api.writes.item_keys import write_key
from graphql_api.writes.preconditions import unwritable_error
from graphql_api.writes.record_builder import record_to_put, record_values
from graphql_api.writes.snapshot import find_creation_changes
from graphql_api.writes.staged_store import StagedStore
from graphql_api.writes.write_coalescer import WriteCoalescer

CommandResult = Entity | ShardQLError | None
"""the record as it was written, the record that was deleted, or the error"""

MAX_CONCURRENT_TRANSACTIONS = 100
"""of one batch; the write coalescer sends several of them as one"""


@dataclass(frozen=True, slots=True)
class CommandExecutor:
    """Executes commands for one tenant."""

    store: Store
    tenant: str | None
    clock: Clock
    subject: str | None = None
    """owner of idempotency keys"""
    ttl_attribute: str | None = None
    """the attribute by which the engine deletes expired items"""

    async def execute(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        """Execute commands independently, but those of one record in order. Return their results in input order."""
        results: list[CommandResult] = []
        for (write, _), group in groupby(commands, self._path):
            results += await write([*group])
            stopped = next((result for result in results if isinstance(result, SchemaChanged)), None)
            if stopped is not None:
                # What follows may depend on a stopped command, and is executed again with it.
                return results + [for_one_of_several(stopped)] * (len(commands) - len(results))
        return results

    def _path(self, command: AnyCommand) -> tuple[Callable[[list[Any]], Coroutine[Any, Any, list[CommandResult]]], str]:
        """Return the method that applies a command, and the entity if it needs commands of one entity."""
        entity = command.entity
        if entity.write_blocker is not None:
            return self._refuse, entity.name
        match command:
            case PutRecord(expected_version=None, idempotency_key=None) if not command.lacks_creation_value:
                if entity.written_current is not None:
                    return self._put_history_entries, entity.name
                # In a transaction, no concurrent writer can store the id in the shard of another generation.
                is_placed = command.in_bulk or len(entity.space.generations) == 1
                if not entity.is_constrained and is_placed and not entity.puts_need_stored_record:
                    return self._write_plainly, entity.name
            case Remove(expected_version=None, idempotency_key=None, allow=None, returns_record=False):
                if not (entity.is_constrained or entity.children or entity.written_current is not None):
                    return self._write_plainly, entity.name
        return self._run_transactions, ""

    async def _refuse(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        return [unwritable_error(command.entity) for command in commands]

    async def execute_together(
        self,
        commands: Sequence[Command],
        idempotency_key: str | None,
        staged: StagedStore,
        check_result: ResultCheck,
        companion: WriteCompanion | None = None,
    ) -> list[CommandResult]:
        """Execute commands all or none. Return their results, or the error of all of them.

        With an idempotency key, the `companion` is the guard of that key.
        """
        try:
            if idempotency_key is not None:
                request = IdempotentRequest(idempotency_key, commands, is_combined=True)
                companion = IdempotencyGuard(
                    request, self.store, self.tenant, self.subject, self.clock(), self.ttl_attribute
                )
            write = CombinedWrite(staged, commands, self.tenant, self.clock, companion, check_result)
            return [*await write.run()]
        except ShardQLError as problem:
            return [problem] * len(commands)

    # --- plain writes ------------------------------------------------------------------------------------------

    async def _write_plainly(self, commands: Sequence[PutRecord | Remove]) -> list[CommandResult]:
        """Write without reads and conditions, by one call. Of several commands for one key the last one is applied."""
        records = EntityRecords(self.store, commands[0].entity, self.tenant, self.clock)
        results: list[CommandResult] = [None] * len(commands)
        writes: dict[int, list[Write]] = {}
        now = self.clock()
        for position, command in enumerate(commands):
            try:
                if isinstance(command, Remove):
                    writes[position] = [Delete(key) for key in records.keys(command.key)]
                else:
                    writes[position] = [Put(records.item(record_to_put(command, now)))]
            except ShardQLError as problem:
                results[position] = problem
        if len(records.entity.space.generations) > 1:
            puts = {at: put.record for at in writes if isinstance(put := commands[at], PutRecord)}
            for position, change in (await find_creation_changes(records, puts)).items():
                results[position] = change
                del writes[position]
        keys = {position: [*map(write_key, of_command)] for position, of_command in writes.items()}
        last_writes: dict[Key, Write] = {}
        for position, of_command in writes.items():
            last_writes |= zip(keys[position], of_command, strict=True)
        outcomes = await self.store.write([*last_writes.values()]) if last_writes else ()
        outcome_of = dict(zip(last_writes, outcomes, strict=True))
        if any(outcomes):
            for position, of_command_keys in keys.items():
                results[position] = next(filter(None, map(outcome_of.__getitem__, of_command_keys)), None)
        return results

    async def _put_history_entries(self, commands: Sequence[PutRecord]) -> list[CommandResult]:
        records = EntityRecords(self.store, commands[0].entity, self.tenant, self.clock)
        return [*await put_history_entries(records, commands)]

    # --- transactions ------------------------------------------------------------------------------------------

    async def _run_transactions(self, commands: Sequence[AnyCommand]) -> list[CommandResult]:
        """Run a transaction for each command. Concurrent ones are coalesced."""
        records = _positions_by_record(commands)
        creations = CreationBatch(self.store, self.tenant, self.clock)
        for positions in records:
            command = commands[positions[0]]
            if len(positions) == 1 and isinstance(command, Create) and can_be_planned(command):
                creations.add(positions[0], command)
        await creations.commit()
        left = [positions for positions in records if positions[0] not in creations.results]
        if left:
            await self._run_separately(commands, left, creations)
        return [creations.results[position] for position in range(len(commands))]

    async def _run_separately(
        self, commands: Sequence[AnyCommand], records: Sequence[Sequence[int]], creations: CreationBatch
    ) -> None:
        """Run a transaction for each command of these records, and add their results."""
        if len(commands) == 1:
            await self._run_in_order(self.store, commands, records[0], creations)
            return
        with suppress(ShardQLError):  # The write of an affected record reports the error.
            await raise_counters(self.store, [put for put in commands if isinstance(put, PutRecord)], self.tenant)
        semaphore = asyncio.Semaphore(MAX_CONCURRENT_TRANSACTIONS)

        async def run(positions: Sequence[int]) -> None:
            async with semaphore:
                await self._run_in_order(coalescer, commands, positions, creations)

        async with WriteCoalescer(self.store) as coalescer, asyncio.TaskGroup() as tasks:
            for positions in records:
                tasks.create_task(run(positions))

    async def _run_in_order(
        self, store: Store, commands: Sequence[AnyCommand], positions: Sequence[int], creations: CreationBatch
    ) -> None:
        """Run the commands of one record in order.

        After a retryable error the remaining ones are skipped with that error, so that a retry keeps their order.
        """
        failure: ShardQLError | None = None
        for position in positions:
            if failure is not None:
                creations.results[position] = skipped = for_one_of_several(failure)
                skipped.rephrase("Skipped, because an earlier write of the same record failed: {problem}")
                continue
            planned = creations.planned.get(position)
            result = await self._run_transaction(store, commands[position], None if planned is None else planned.record)
            creations.results[position] = result
            is_stopped = isinstance(result, SchemaChanged)
            failure = result if isinstance(result, ShardQLError) and (result.retryable or is_stopped) else None

    async def _run_transaction(self, store: Store, command: AnyCommand, planned: Entity | None = None) -> CommandResult:
        """Run the transaction of a command. `planned`: the record of a create that has failed without a read."""
        try:
            if isinstance(command, PutRecord):
                values = record_values(command.entity, command.record)
                version, key = command.expected_version, command.idempotency_key
                command = Replace(command.entity, values, version, key, restoring=command.restoring)
            records = EntityRecords(store, command.entity, self.tenant, self.clock)
            return await execute_transaction(records, command, self.subject, self.ttl_attribute, planned)
        except ShardQLError as problem:
            return problem


def _positions_by_record(commands: Sequence[AnyCommand]) -> list[list[int]]:
    """Return the positions of the commands of each record. One whose id is not known yet is like no other one."""
    groups: dict[Hashable, list[int]] = {}
    for position, command in enumerate(commands):
        id_values = key_values(command)[: len(command.entity.ids)]
        record = position if None in id_values else (command.entity.name, *map(str, id_values))
        groups.setdefault(record, []).append(position)
    return [*groups.values()]
