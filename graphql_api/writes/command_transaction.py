"""Execute one command by a transaction: read a snapshot, and write on the condition that it is unchanged."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.errors import (
    AlreadyExists,
    ForeignKeyBroken,
    InvalidRecord,
    ItemTooLarge,
    NotUnique,
    PropertyName,
    RecordNotFound,
    ShardQLError,
    StoreUnavailable,
)
from graphql_api.model import Entity, EntitySpec, decode_record, value_of
from graphql_api.storage import Item, Put, check_record_size
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update, is_idempotent, key_values
from graphql_api.writes.constraints import build_constraint_writes, read_parents
from graphql_api.writes.counters import assign_numbers, needs_numbers, set_missing_numbers
from graphql_api.writes.delete_intents import check_unreferenced, place_delete_intent, remove_delete_intent
from graphql_api.writes.display_names import record_name
from graphql_api.writes.entity_records import EntityRecords, StoredItems, values_of
from graphql_api.writes.idempotency import IdempotencyGuard, IdempotentRequest
from graphql_api.writes.item_keys import item_key
from graphql_api.writes.lookup_mappings import mapping_writes
from graphql_api.writes.preconditions import check_command, check_creation_unchanged, check_immutable, check_version
from graphql_api.writes.record_builder import build_record, omits_creation_value, record_values, validate_record
from graphql_api.writes.snapshot import PlannedWrites, Snapshot, read_snapshot, stored_creation_value
from graphql_api.writes.transactions import commit_transaction, retry_on_conflict


async def execute_transaction(
    records: EntityRecords,
    command: Command,
    subject: str | None,
    ttl_attribute: str | None,
    planned: Entity | None = None,
) -> Entity | None:
    """Execute a command by a transaction. Return the record as it was written, or the record that was deleted.

    `subject`: owner of idempotency keys. `ttl_attribute`: the attribute by which the engine deletes expired items.
    `planned`: the record of a create that was sent without a read, and was not written.
    """
    check_command(command)
    key, guard = command.idempotency_key, None
    if key is not None:
        request = IdempotentRequest(key, [command])
        guard = IdempotencyGuard(request, records.store, records.tenant, subject, records.clock(), ttl_attribute)
    execution = CommandExecution(records, command, guard)
    execution.new_record, execution.has_read = planned, planned is not None
    try:
        result = await retry_on_conflict(execution.attempt, execution.display_name)
    except ShardQLError as problem:
        # With an unknown outcome the delete intent stays, and is abandoned after a while.
        if not isinstance(problem, StoreUnavailable):
            await execution.withdraw_delete_intent()
        raise
    await execution.withdraw_delete_intent()
    return result


@dataclass(slots=True)
class CommandExecution:
    """The execution of one command, over all of its attempts."""

    records: EntityRecords
    command: Command
    idempotency: IdempotencyGuard | None = None
    place_delete_intent: Callable[[EntityRecords, Item], Awaitable[Item]] = place_delete_intent
    new_record: Entity | None = field(default=None, init=False)
    """of a create: built once, so that every attempt has the same generated id and numbers"""
    assigned_numbers: dict[str, int] = field(default_factory=dict, init=False)
    """the numbers that counters assigned to the record"""
    known_parents: StoredItems | None = field(default=None, init=False)
    """the referenced records, as they were read for the first attempt"""
    has_read: bool = field(default=False, init=False)
    intended_delete: Item | None = field(default=None, init=False)
    """the record with the delete intent of this execution, until it is deleted"""

    @property
    def entity(self) -> EntitySpec:
        return self.command.entity

    @property
    def display_name(self) -> str:
        """Return the name of the record in errors."""
        return record_name(self.entity, key_values(self.command, missing=""))

    async def attempt(self) -> Entity | None:
        """Execute the command against the current state, or replay the response under its idempotency key."""
        if self.idempotency is None:
            return await self._execute()
        (result,) = await self.idempotency.attempt(self._execute_as_only_one)
        return result

    async def _execute_as_only_one(self) -> list[Entity | None]:
        return [await self._execute()]

    async def _execute(self) -> Entity | None:
        match self.command:
            case Create():
                return await self._create(self.command)
            case Update():
                return await self._update(self.command)
            case Replace():
                return await self._replace(self.command)
            case Remove():
                return await self._remove(self.command)

    # --- commands ----------------------------------------------------------------------------------------------

    async def _create(self, command: Create) -> Entity:
        if self.new_record is None:
            record = build_record(self.entity, command.values, None, self.records.clock())
            await self._check_allowed(None, record)
            await self._check_references(None, record)
            await self._assign_numbers(record)
            self.new_record = record
        record = self.new_record
        key = values_of(record, self.entity.primary_key)
        snapshot = await self._read_snapshot(key)
        if snapshot.record is not None:
            remedies = "update it, put it, or create it under another id" if key else "update it or put it"
            raise AlreadyExists(
                f"{record_name(self.entity, key)} already exists: {remedies}.",
                argument=PropertyName(self.entity.primary_key[0].name) if key else None,
            )
        await self._check_allowed_on_history(snapshot, record)
        return await self._write(snapshot, self._with_creation_of_history(command, snapshot, record))

    async def _update(self, command: Update) -> Entity:
        snapshot = await self._read_snapshot(command.key)
        old = None if snapshot.base is None else decode_record(self.entity, snapshot.base)
        if old is None:
            raise self._not_found(command)
        # A caller without the right to change the record must not learn whether the change is valid.
        await self._check_allowed(old, None)
        check_version(self.entity, self.display_name, command.expected_version, snapshot.base, old)
        values = {part.name: value_of(old, part.name) for part in self.entity.properties.values() if not part.function}
        values |= zip((part.name for part in self.entity.primary_key), command.key, strict=True)
        record = build_record(self.entity, {**values, **command.changes}, old, self.records.clock())
        check_creation_unchanged(command, old, record)
        check_immutable(self.entity, self.display_name, old, record)
        await self._check_allowed(old, record)
        await self._check_references(old, record)
        if needs_numbers(self.entity, old, record):
            await self._assign_numbers(record)
        return await self._write(snapshot, record)

    def _not_found(self, command: Update) -> RecordNotFound:
        if self.entity.sub_ids and command.continues_preceding:
            return RecordNotFound(
                f"{self.display_name} does not exist, and has no entry before it: put an entry first."
            )
        name = record_name(self.entity, command.key[: len(self.entity.ids)])
        remedies = "create it by put, or check its id" if self.entity.primary_key else "create it by put"
        return RecordNotFound(f"{name} does not exist: {remedies}.")

    async def _replace(self, command: Replace) -> Entity:
        restoring, clock = command.restoring, self.records.clock
        values = {**command.values, **self.assigned_numbers}
        record = build_record(self.entity, values, None, clock(), restoring=restoring)
        if None in values_of(record, self.entity.primary_key):
            # A counter assigns a part of the key, so the record is new.
            await self._check_allowed(None, record)
            await self._check_references(None, record)
            await self._assign_numbers(record)
        snapshot = await self._read_snapshot(values_of(record, self.entity.primary_key))
        old = self._decode_old(command, snapshot.record)
        if old is not None:
            await self._check_allowed(old, None)
        check_version(self.entity, self.display_name, command.expected_version, snapshot.record, old)
        if old is not None:
            record = build_record(self.entity, command.values, old, clock(), restoring=restoring)
            if not restoring:
                check_immutable(self.entity, self.display_name, old, record)
                check_creation_unchanged(command, old, record)
        record = self._with_creation_of_history(command, snapshot, record)
        await self._check_allowed(old, record)
        await self._check_allowed_on_history(snapshot, record)
        await self._check_references(old, record)
        if old is None or restoring or needs_numbers(self.entity, old, record):
            await self._assign_numbers(record)
        else:
            # The number of the record may be greater than the counter, if it is older than the counter.
            await assign_numbers(self.records, record)
        return await self._write(snapshot, record)

    async def _remove(self, command: Remove) -> Entity | None:
        snapshot = await self._read_snapshot(command.key)
        old = self._decode_old(command, snapshot.record)
        if snapshot.record is not None:
            await self._check_allowed(old, None)
            check_version(self.entity, self.display_name, command.expected_version, snapshot.record, old)
            if self.entity.children:
                # Checked before, to avoid needless writes, and after, when no new references can appear.
                readable = command.readable_children
                names_children = readable is None or all(child.name in readable for child in self.entity.children)
                await check_unreferenced(self.records, command.key, names_children=names_children)
                marked = self.intended_delete = await self.place_delete_intent(self.records, snapshot.record)
                await check_unreferenced(self.records, command.key, names_children=names_children)
                snapshot = replace(snapshot, items={**snapshot.items, item_key(marked): marked}, record=marked)
        planned = await snapshot.plan_deletion(command.key)
        try:
            await self._commit(snapshot, planned, old)
        except (ForeignKeyBroken, NotUnique) as problem:
            problem.rephrase(
                "Deleting {entry} would make the entry before it current. {problem} Or delete earlier entries first.",
                entry=self.display_name,
            )
            raise
        self.intended_delete = None
        return old

    async def withdraw_delete_intent(self) -> None:
        """Remove the delete intent of this execution from a record that was not deleted."""
        if self.intended_delete is not None:
            await remove_delete_intent(self.records.store, self.intended_delete)

    # --- reading -----------------------------------------------------------------------------------------------

    async def _read_snapshot(self, key: Sequence[Any]) -> Snapshot:
        """Read the snapshot. Creates skip the read on the first attempt: the transaction detects an existing record."""
        command, entity = self.command, self.entity
        continues = isinstance(command, Update)
        if isinstance(command, Create | Replace) and entity.sub_ids and len(entity.space.generations) > 1:
            # The creation value selects the shard generation. If it is omitted, it is that of the last entry.
            continues = omits_creation_value(entity, command.values)
        if isinstance(command, Create) and not (self.has_read or continues or entity.written_current is not None):
            return Snapshot(self.records, dict.fromkeys(self.records.keys(key)))
        self.has_read = True
        preceding = isinstance(command, Update) and command.continues_preceding
        return await read_snapshot(self.records, key, continues_history=continues, continues_preceding=preceding)

    def _decode_old(self, command: Replace | Remove, item: Item | None) -> Entity | None:
        """Return the stored record. One that no longer fits its entity counts as absent, unless access rules apply."""
        if item is None:
            return None
        try:
            return decode_record(self.entity, item)
        except InvalidRecord:
            if command.allow is not None:
                raise
            return None

    def _with_creation_of_history(self, command: Create | Replace, snapshot: Snapshot, record: Entity) -> Entity:
        """Return a new entry with the creation value of its history, unless the command provides one."""
        is_continued = snapshot.record is None and omits_creation_value(self.entity, command.values)
        value = stored_creation_value(self.entity, snapshot.base) if is_continued else None
        if value is None or self.entity.created is None:
            return record
        return validate_record(self.entity, {**record_values(self.entity, record), self.entity.created.name: value})

    # --- access rules ------------------------------------------------------------------------------------------

    async def _check_allowed(self, old: Entity | None, new: Entity | None) -> None:
        if self.command.allow is not None:
            await self.command.allow(old, new)

    async def _check_references(self, old: Entity | None, new: Entity) -> None:
        """Apply access rules to the records that the new record references, before a counter of a parent is used."""
        command = self.command
        if not isinstance(command, Remove) and command.allow_references is not None:
            await command.allow_references(old, new)

    async def _check_allowed_on_history(self, snapshot: Snapshot, new: Entity) -> None:
        """Apply access rules to the latest state of the history, which a new entry replaces."""
        history = None if snapshot.record is not None else snapshot.history
        if history is not None and history.latest_state is not None and self.command.allow is not None:
            await self._check_allowed(decode_record(self.entity, history.latest_state), new)

    # --- writing -----------------------------------------------------------------------------------------------

    async def _assign_numbers(self, record: Entity) -> None:
        """Assign missing numbers to the record. All attempts use the same numbers."""
        counters = self.entity.counters
        if not counters:
            return
        set_missing_numbers(self.entity, record, self.assigned_numbers)
        # A group whose parent does not exist gets no counter.
        if self.entity.foreign_keys and not self.assigned_numbers:
            self.known_parents = await read_parents(self.records, record)
        await assign_numbers(self.records, record)
        self.assigned_numbers = {part.name: value_of(record, part.name) for part in counters}

    async def _write(self, snapshot: Snapshot, record: Entity) -> Entity:
        planned = await snapshot.plan_write(record, continues_base=isinstance(self.command, Update))
        await self._commit(snapshot, planned, record)
        return record

    async def _commit(self, snapshot: Snapshot, planned: PlannedWrites, result: Entity | None) -> None:
        """Commit writes with those of constraint items, and with the response under the idempotency key."""
        writes, owner = planned
        if writes:
            writes += mapping_writes(self.entity, snapshot.stored_items, writes, self.records.tenant)
            known, self.known_parents = self.known_parents, None
            writes += await build_constraint_writes(
                self.records, snapshot.constraint_owners, owner, presumed_new=not self.has_read, known_parents=known
            )
        self.has_read = True
        if self.idempotency is not None:
            writes.append(self.idempotency.response_write([result]))
        if not writes:
            return
        try:
            await commit_transaction(self.records.store, writes, is_idempotent=is_idempotent(self.command))
        except ItemTooLarge:
            for write in writes:
                if isinstance(write, Put):
                    check_record_size(write.item, self.display_name)
            raise
