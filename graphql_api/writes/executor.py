"""Execute commands: read a snapshot, and write on the condition that it is unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import (
    AlreadyExists,
    InvalidRecord,
    ItemTooLarge,
    PropertyName,
    RecordNotFound,
    ShardQLError,
    StoreUnavailable,
)
from graphql_api.model import Entity, EntitySpec, decode_record, value_of
from graphql_api.storage import Item, Key, Put, Store, TransactionWrite, check_record_size
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update, is_idempotent
from graphql_api.writes.constraints.constraint_writes import build_constraint_writes, read_parents
from graphql_api.writes.constraints.counters import assign_numbers, needs_numbers, set_missing_numbers
from graphql_api.writes.constraints.delete_intent import check_unreferenced, place_delete_intent, remove_delete_intent
from graphql_api.writes.display_names import record_name
from graphql_api.writes.history.creation_value import omits_creation_value, with_creation_value_of
from graphql_api.writes.idempotency import IdempotencyGuard, idempotency_guard
from graphql_api.writes.item_keys import item_key, possible_keys
from graphql_api.writes.optimistic_concurrency import retry_on_conflict
from graphql_api.writes.preconditions import (
    check_command,
    check_creation_unchanged,
    check_immutable,
    check_update_keeps_creation,
    check_version,
)
from graphql_api.writes.record_builder import build_record
from graphql_api.writes.record_writes import plan_record_deletion, plan_record_writes
from graphql_api.writes.snapshot import Snapshot, read_snapshot
from graphql_api.writes.transactions import commit_transaction


async def execute_command(
    store: Store,
    command: Command,
    tenant: str | None,
    *,
    clock: Clock,
    subject: str | None = None,
    ttl_attribute: str | None = None,
    restoring: bool = False,
) -> Entity | None:
    """Execute a command. Return the record as it was written, or the record that was deleted.

    `ttl_attribute`: the attribute by which the engine deletes expired items. `restoring`: the record was exported from
    another table, and keeps the values that a server has set there.
    """
    check_command(command)
    idempotency = idempotency_guard(
        store, command, tenant=tenant, subject=subject, now=clock(), ttl_attribute=ttl_attribute
    )
    execution = _CommandExecution(store, command, tenant, clock, idempotency, restoring)
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
class _CommandExecution:
    """The execution of one command, over all of its attempts."""

    store: Store
    command: Command
    tenant: str | None
    clock: Clock
    idempotency: IdempotencyGuard | None
    restoring: bool
    new_record: Entity | None = field(default=None, init=False)
    """of a create: built once, so that every attempt has the same generated id and numbers"""
    assigned_numbers: dict[str, int] = field(default_factory=dict, init=False)
    """the numbers that counters assigned to the record"""
    known_parents: Mapping[Key, Item | None] | None = field(default=None, init=False)
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
        if isinstance(self.command, Create | Replace):
            values = [self.command.values.get(part.name, "") for part in self.entity.primary_key]
        else:
            values = [*self.command.key]
        return record_name(self.entity, values)

    async def attempt(self) -> Entity | None:
        """Execute the command against the current state, or replay the response under its idempotency key."""
        if self.idempotency is None:
            return await self._execute()
        return await self.idempotency.attempt(self._execute)

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
            record = build_record(self.entity, command.values, None, self.clock())
            await self._check_allowed(None, record)
            await self._assign_numbers(record)
            self.new_record = record
        record = self.new_record
        key = self._primary_key_values(record)
        snapshot = await self._read_snapshot(key, may_skip=True)
        if snapshot.record is not None:
            remedies = "update it, put it, or create it under another id" if key else "update it or put it"
            raise AlreadyExists(
                f"{record_name(self.entity, key)} already exists: {remedies}.",
                argument=PropertyName(self.entity.primary_key[0].name) if key else None,
            )
        await self._check_allowed_on_history(snapshot, record)
        return await self._write(snapshot, self._with_history_creation(command, snapshot, record))

    async def _update(self, command: Update) -> Entity:
        snapshot = await self._read_snapshot(command.key)
        old = None if snapshot.base is None else decode_record(self.entity, snapshot.base)
        if old is None:
            name = record_name(self.entity, self._id_values(command.key) if self.entity.sub_ids else command.key)
            remedies = "create it by put, or check its id" if self.entity.primary_key else "create it by put"
            raise RecordNotFound(f"{name} does not exist: {remedies}.")
        # A caller without the right to change the record must not learn whether the change is valid.
        await self._check_allowed(old, None)
        check_version(self.entity, self.display_name, command.expected_version, snapshot.base, old)
        values = {part.name: value_of(old, part.name) for part in self.entity.properties.values() if not part.function}
        values |= zip((part.name for part in self.entity.primary_key), command.key, strict=True)
        record = build_record(self.entity, {**values, **command.changes}, old, self.clock())
        check_update_keeps_creation(command, old, record)
        check_immutable(self.entity, self.display_name, old, record)
        await self._check_allowed(old, record)
        if needs_numbers(self.entity, old, record):
            await self._assign_numbers(record)
        return await self._write(snapshot, record)

    async def _replace(self, command: Replace) -> Entity:
        values = {**command.values, **self.assigned_numbers}
        new = build_record(self.entity, values, None, self.clock(), restoring=self.restoring)
        if None in self._primary_key_values(new):  # A counter assigns a part of the key, so the record is new.
            await self._check_allowed(None, new)
            await self._assign_numbers(new)
        snapshot = await self._read_snapshot(self._primary_key_values(new))
        old = self._decode_old(command, snapshot.record)
        if old is not None:
            await self._check_allowed(old, None)
        check_version(self.entity, self.display_name, command.expected_version, snapshot.record, old)
        record = new
        if old is not None:
            record = build_record(self.entity, command.values, old, self.clock(), restoring=self.restoring)
            if not self.restoring:
                check_immutable(self.entity, self.display_name, old, record)
                check_creation_unchanged(self.entity, old, record)
        record = self._with_history_creation(command, snapshot, record)
        await self._check_allowed(old, record)
        await self._check_allowed_on_history(snapshot, record)
        if old is None or self.restoring or needs_numbers(self.entity, old, record):
            await self._assign_numbers(record)
        else:
            # The number of the record may be greater than the counter, if it is older than the counter.
            await assign_numbers(self.store, self.entity, record, self.tenant)
        return await self._write(snapshot, record)

    async def _remove(self, command: Remove) -> Entity | None:
        snapshot = await self._read_snapshot(command.key)
        old = self._decode_old(command, snapshot.record)
        if snapshot.record is not None:
            await self._check_allowed(old, None)
            check_version(self.entity, self.display_name, command.expected_version, snapshot.record, old)
            if self.entity.children:
                snapshot = await self._with_delete_intent(command.key, snapshot, snapshot.record)
        writes, current_record = await plan_record_deletion(
            self.store, self.entity, snapshot, command.key, self.tenant, self.clock
        )
        if writes:
            writes += await self._constraint_writes(snapshot, current_record)
        await self._commit(writes, old)
        self.intended_delete = None
        return old

    async def _with_delete_intent(self, key: Sequence[Any], snapshot: Snapshot, record: Item) -> Snapshot:
        """Place a delete intent on the record, unless other records reference it. Return the new snapshot.

        References are checked twice: before, to avoid needless writes, and after, when no new ones can appear.
        """
        await check_unreferenced(self.store, self.entity, key, self.tenant, self.clock())
        marked = self.intended_delete = await place_delete_intent(self.store, record, self.clock())
        await check_unreferenced(self.store, self.entity, key, self.tenant, self.clock())
        return replace(snapshot, items={**snapshot.items, item_key(marked): marked}, record=marked)

    async def withdraw_delete_intent(self) -> None:
        """Remove the delete intent of this execution from a record that was not deleted."""
        if self.intended_delete is not None:
            await remove_delete_intent(self.store, self.intended_delete)

    # --- reading -----------------------------------------------------------------------------------------------

    async def _read_snapshot(self, values: Sequence[Any], *, may_skip: bool = False) -> Snapshot:
        """Read the snapshot of a record.

        Creates skip the read on the first attempt (`may_skip`): the transaction detects an existing record.
        """
        continues_history = self._continues_history
        if may_skip and not self.has_read and self.entity.current is None and not continues_history:
            return Snapshot(dict.fromkeys(possible_keys(self.entity, values, self.tenant)), None)
        self.has_read = True
        return await read_snapshot(
            self.store, self.entity, values, self.tenant, self.clock(), continues_history=continues_history
        )

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

    @property
    def _continues_history(self) -> bool:
        """Return whether a new entry takes values from the last one.

        An update keeps all that it does not change. Creates and puts keep the creation value if they omit it and it
        selects the shard generation.
        """
        if isinstance(self.command, Create | Replace):
            if not self.entity.sub_ids or len(self.entity.space.generations) == 1:
                return False
            return omits_creation_value(self.entity, self.command.values)
        return isinstance(self.command, Update)

    def _with_history_creation(self, command: Create | Replace, snapshot: Snapshot, record: Entity) -> Entity:
        """Return a new entry with the creation value of its history, unless the command provides one."""
        if snapshot.record is not None or snapshot.base is None:
            return record
        if not omits_creation_value(self.entity, command.values):
            return record
        return with_creation_value_of(self.entity, record, snapshot.base)

    # --- access rules ------------------------------------------------------------------------------------------

    async def _check_allowed(self, old: Entity | None, new: Entity | None) -> None:
        if self.command.allow is not None:
            await self.command.allow(old, new)

    async def _check_allowed_on_history(self, snapshot: Snapshot, new: Entity) -> None:
        """Apply access rules to the latest state of the history, which a new entry replaces."""
        state = None if snapshot.history is None or snapshot.record is not None else snapshot.history.latest_state
        if state is not None and self.command.allow is not None:
            await self._check_allowed(decode_record(self.entity, state), new)

    # --- writing -----------------------------------------------------------------------------------------------

    async def _assign_numbers(self, record: Entity) -> None:
        """Assign missing numbers to the record. All attempts use the same numbers."""
        counters = self.entity.counters
        if not counters:
            return
        set_missing_numbers(record, self.assigned_numbers)
        # A group whose parent does not exist gets no counter.
        if self.entity.foreign_keys and not self.assigned_numbers:
            self.known_parents = await read_parents(self.store, self.entity, record, self.tenant)
        await assign_numbers(self.store, self.entity, record, self.tenant)
        self.assigned_numbers = {part.name: value_of(record, part.name) for part in counters}

    async def _write(self, snapshot: Snapshot, record: Entity) -> Entity:
        """Write the record, on the condition that the snapshot is unchanged."""
        writes, constraint_owner = await plan_record_writes(
            self.store, self.entity, snapshot, record, self.tenant, self.clock
        )
        writes += await self._constraint_writes(snapshot, constraint_owner)
        await self._commit(writes, record)
        return record

    async def _constraint_writes(self, snapshot: Snapshot, new_owner: Item | None) -> list[TransactionWrite]:
        known_parents, self.known_parents = self.known_parents, None
        return await build_constraint_writes(
            self.store,
            self.entity,
            snapshot.constraint_owners,
            new_owner,
            self.tenant,
            self.clock(),
            presumed_new=not self.has_read,
            known_parents=known_parents,
        )

    async def _commit(self, writes: Sequence[TransactionWrite], result: Entity | None) -> None:
        """Commit the writes, together with the response under the idempotency key."""
        self.has_read = True
        transaction = [*writes] if self.idempotency is None else [*writes, self.idempotency.response_write(result)]
        if not transaction:
            return
        try:
            await commit_transaction(self.store, transaction, is_idempotent=is_idempotent(self.command))
        except ItemTooLarge:
            for write in transaction:
                if isinstance(write, Put):
                    check_record_size(write.item, self.display_name)
            raise

    # --- keys --------------------------------------------------------------------------------------------------

    def _primary_key_values(self, record: Entity) -> list[Any]:
        return [value_of(record, part.name) for part in self.entity.primary_key]

    def _id_values(self, key: Sequence[Any]) -> Sequence[Any]:
        return key[: len(self.entity.ids)]
