"""Carries out the write of one record: reads what it depends on, and writes on the condition that all of it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import (
    AlreadyExists,
    InvalidRecord,
    ItemTooLarge,
    RecordNotFound,
    ShardQLError,
    StoreUnavailable,
)
from graphql_api.model import Entity, EntitySpec, from_item, living, value_of
from graphql_api.storage import Delete, Item, Key, Put, Store, TogetherWrite, refuse_large
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update, may_repeat
from graphql_api.writes.constraints.constraint_writes import binding_writes, parents_of
from graphql_api.writes.constraints.counters import give_numbers, needs_numbers, put_numbers
from graphql_api.writes.constraints.delete_intent import close, refuse_named, reopen
from graphql_api.writes.display_names import record_name
from graphql_api.writes.history.creation_value import creation_changed, history_home
from graphql_api.writes.history.current_record import current_after, current_writes, moved
from graphql_api.writes.history.history_head import Head, last_entry, read_head
from graphql_api.writes.idempotency import Once, once
from graphql_api.writes.item_keys import current_item, item_of, key_of, keys_of
from graphql_api.writes.optimistic_concurrency import in_some_tries, new_write_id, touched, unchanged
from graphql_api.writes.preconditions import check_command, check_created, check_immutable, check_version
from graphql_api.writes.record_builder import draft, given_values, validated
from graphql_api.writes.snapshot import Reading, in_place
from graphql_api.writes.transactions import commit


async def carry_out(
    store: Store,
    command: Command,
    tenant: str | None,
    *,
    clock: Clock,
    subject: str | None = None,
    ttl_attribute: str | None = None,
    restoring: bool = False,
) -> Entity | None:
    """Does what is asked for; gives back the record as it was written, or the one that was removed.

    `ttl_attribute`: by which the table's engine removes what has expired. `restoring`: the record comes out of another
    table, with what a server has set there.
    """
    check_command(command)
    answers = once(store, command, tenant=tenant, subject=subject, now=clock(), ttl_attribute=ttl_attribute)
    writing = _Writing(store, command, tenant, clock, answers, restoring)
    try:
        answer = await in_some_tries(writing.attempt, writing.name)
    except ShardQLError as problem:
        if not isinstance(problem, StoreUnavailable):  # Then nobody knows, and the mark grows old by itself.
            await writing.reopen()
        raise
    await writing.reopen()
    return answer


@dataclass(slots=True)
class _Writing:
    """One command, until it is carried out."""

    store: Store
    command: Command
    tenant: str | None
    clock: Clock
    answers: Once | None
    restoring: bool
    created: Entity | None = field(default=None, init=False)
    """what is created: made once, with its id and its numbers, however often it is tried"""
    numbers: dict[str, int] = field(default_factory=dict, init=False)
    """those that were taken for the record"""
    parents: Mapping[Key, Item | None] | None = field(default=None, init=False)
    """those that the record names, as they were read for the first try"""
    has_looked: bool = field(default=False, init=False)
    closed: Item | None = field(default=None, init=False)
    """the record that is to be removed, with the mark that says so, until it is gone"""

    @property
    def entity(self) -> EntitySpec:
        return self.command.entity

    @property
    def name(self) -> str:
        """The record as errors speak of it."""
        if isinstance(self.command, Create | Replace):
            parts = [self.command.values.get(part.name, "") for part in self.entity.primary]
        else:
            parts = [*self.command.key]
        return record_name(self.entity, parts)

    async def attempt(self) -> Entity | None:
        """Carries it out as things stand, unless that was done before under the same idempotency key."""
        if self.answers is None:
            return await self._attempt()
        return await self.answers.attempt(self._attempt)

    async def _attempt(self) -> Entity | None:
        match self.command:
            case Create():
                return await self._create(self.command)
            case Update():
                return await self._update(self.command)
            case Replace():
                return await self._replace(self.command)
            case Remove():
                return await self._remove(self.command)

    # --- what is asked for -------------------------------------------------------------------------------------

    async def _create(self, command: Create) -> Entity:
        if self.created is None:
            record = draft(self.entity, command.values, None, self.clock())
            await self._guard(None, record)
            await self._number(record)
            self.created = record
        record = self.created
        found = await self._read(self._key_of(record), may_presume=True)
        if found.living is not None:
            raise AlreadyExists(
                f"{record_name(self.entity, self._key_of(record))} exists already: change it by an update, or put it"
                f"{', or create one with another id' if self.entity.primary else ''}.",
                argument=self.entity.primary[0].name if self.entity.primary else None,
            )
        await self._guard_history(found, record)
        return await self._written(found, self._begun(found, record))

    async def _update(self, command: Update) -> Entity:
        found = await self._read(command.key)
        old = None if found.base is None else from_item(self.entity, found.base)
        if old is None:
            name = record_name(self.entity, self._ids(command.key) if self.entity.sub_ids else command.key)
            look = ", or look at its id" if self.entity.primary else ""
            raise RecordNotFound(f"There is no {name} to change: write it by put{look}.")
        await self._guard(old, None)  # Who may not change it is not told what is wrong with the change.
        check_version(self.entity, self.name, command.expected_version, found.base, old)
        values = {part.name: value_of(old, part.name) for part in self.entity.properties.values() if not part.function}
        values |= zip((part.name for part in self.entity.primary), command.key, strict=True)
        record = draft(self.entity, {**values, **command.changes}, old, self.clock())
        self._check_creation(command, old, record)
        check_immutable(self.entity, self.name, old, record)
        await self._guard(old, record)
        if needs_numbers(self.entity, old, record):
            await self._number(record)
        return await self._written(found, record)

    async def _replace(self, command: Replace) -> Entity:
        given = draft(self.entity, {**command.values, **self.numbers}, None, self.clock(), restoring=self.restoring)
        if self._lacks_key(given):  # Nothing can stand where a number is still missing.
            await self._guard(None, given)
            await self._number(given)
        found = await self._read(self._key_of(given))
        old = self._old(command, found.living)
        if old is not None:
            await self._guard(old, None)
        check_version(self.entity, self.name, command.expected_version, found.living, old)
        record = given
        if old is not None:
            record = draft(self.entity, command.values, old, self.clock(), restoring=self.restoring)
            if not self.restoring:
                check_immutable(self.entity, self.name, old, record)
                check_created(self.entity, old, record)
        record = self._begun(found, record)
        await self._guard(old, record)
        await self._guard_history(found, record)
        if old is None or self.restoring or needs_numbers(self.entity, old, record):
            await self._number(record)
        else:
            await give_numbers(self.store, self.entity, record, self.tenant)  # Its own may be from before the counter.
        return await self._written(found, record)

    async def _remove(self, command: Remove) -> Entity | None:
        found = await self._read(command.key)
        old = self._old(command, found.living)
        if found.living is not None:
            await self._guard(old, None)
            check_version(self.entity, self.name, command.expected_version, found.living, old)
            if self.entity.children:
                found = await self._closed(command.key, found, found.living)
        writes: list[TogetherWrite] = [Delete(key_of(item), unchanged(item)) for item in found.stored]
        becomes = None
        if found.head is not None and writes:
            becomes = await self._current_without(found.head, command.key)
            writes += current_writes(found.head, becomes)
        if writes:
            writes += await self._bindings(found, becomes)
        await self._commit(writes, old)
        self.closed = None
        return old

    async def _closed(self, key: Sequence[Any], found: Reading, stands: Item) -> Reading:
        """What stands there with the mark on it, of a record that nobody names; refuses if somebody does."""
        await refuse_named(self.store, self.entity, key, self.tenant, self.clock())
        closed = self.closed = await close(self.store, stands, self.clock())
        await refuse_named(self.store, self.entity, key, self.tenant, self.clock())
        return replace(found, standing={**found.standing, key_of(closed): closed}, living=closed)

    async def reopen(self) -> None:
        """Takes the mark off what was not removed after all."""
        if self.closed is not None:
            await reopen(self.store, self.closed)

    # --- reading -----------------------------------------------------------------------------------------------

    async def _read(self, values: Sequence[Any], *, may_presume: bool = False) -> Reading:
        """What stands at the record's keys, and of its history what it depends on.

        The first time nobody looks whether what is to be created is there: the transaction finds out.
        """
        entity = self.entity
        keys = keys_of(entity, values, self.tenant)
        if may_presume and not self.has_looked and entity.current is None and not self._goes_on:
            return Reading(dict.fromkeys(keys), None)
        self.has_looked = True
        standing = dict(zip(keys, await self.store.get_many(keys, consistent=True), strict=True))
        stands = living(entity, standing.values(), self.clock())
        reading = Reading(standing, stands, base=stands)
        if entity.current is not None:
            reading.head = await read_head(self.store, entity, self._ids(values), self.tenant, self.clock())
            reading.base = reading.head.state if stands is None else stands
        elif stands is None and entity.sub_ids and self._goes_on:
            reading.base = await last_entry(self.store, entity, self._ids(values), self.tenant, self.clock())
        return reading

    def _old(self, command: Replace | Remove, item: Item | None) -> Entity | None:
        """The record that stands there; one that fits no longer may be replaced by whoever may write everything."""
        if item is None:
            return None
        try:
            return from_item(self.entity, item)
        except InvalidRecord:
            if command.allow is not None:
                raise
            return None

    @property
    def _goes_on(self) -> bool:
        """Whether a new entry has something of the entry before it: an update all that it does not change.

        One that is created or put has its creation value, where that decides where the whole history lies.
        """
        if isinstance(self.command, Create | Replace):
            return len(self.entity.space.generations) > 1 and bool(self.entity.sub_ids) and self._lacks_creation
        return isinstance(self.command, Update)

    @property
    def _lacks_creation(self) -> bool:
        """Whether a whole record comes without its creation value."""
        created = self.entity.created
        if created is None or not isinstance(self.command, Create | Replace):
            return False
        given = self.command.values
        return given.get(created.name) is None and not (created.nullable and created.name in given)

    def _begun(self, found: Reading, record: Entity) -> Entity:
        """The record as one more entry of its history, which began when that did unless something else is said."""
        created, state = self.entity.created, found.base
        if created is None or found.living is not None or state is None or created.stored not in state:
            return record
        if not self._lacks_creation:
            return record
        began = created.column.codec.load(state[created.stored])
        return validated(self.entity, {**given_values(self.entity, record), created.name: began})

    def _check_creation(self, command: Update, old: Entity, new: Entity) -> None:
        """Refuses another creation value; null is one, although a record keeps the one that it has."""
        created = self.entity.created
        if created is None or created.name not in command.changes:
            return
        stored, given = value_of(old, created.name), value_of(new, created.name)
        if stored != given or (command.changes[created.name] is None and stored is not None):
            given = command.changes[created.name]
            raise creation_changed(self.entity, self._ids(command.key), stored, given)

    # --- what must hold ----------------------------------------------------------------------------------------

    async def _guard(self, old: Entity | None, new: Entity | None) -> None:
        if self.command.allow is not None:
            await self.command.allow(old, new)

    async def _guard_history(self, found: Reading, new: Entity) -> None:
        """Shows what a further entry takes the place of as the current record."""
        state = None if found.head is None or found.living is not None else found.head.state
        if state is not None and self.command.allow is not None:
            await self._guard(from_item(self.entity, state), new)

    # --- writing -----------------------------------------------------------------------------------------------

    async def _number(self, record: Entity) -> None:
        """Gives a record the numbers that it lacks, once for all tries."""
        counters = self.entity.counters
        if not counters:
            return
        put_numbers(record, self.numbers)
        if self.entity.foreign_keys and not self.numbers:  # A group that is not there gets no counter.
            self.parents = await parents_of(self.store, self.entity, record, self.tenant)
        await give_numbers(self.store, self.entity, record, self.tenant)
        self.numbers = {part.name: value_of(record, part.name) for part in counters}

    async def _written(self, found: Reading, record: Entity) -> Entity:
        """Writes the record where all of this stands."""
        entity = self.entity
        item = item_of(entity, record, self.tenant, new_write_id())
        values = self._ids(self._key_of(record))
        state = found.base if found.head is None else found.head.state
        problem = moved(entity, state, values, record)
        if problem is not None:
            raise problem
        becomes, writes = item, list[TogetherWrite]()
        if found.head is not None:
            writes.append(Put(item, unchanged(found.standing[key_of(item)])))
            after = current_after(entity, found.head, record, self.tenant)
            assert after is not None, "a history to which an entry is written has a last one"
            writes += current_writes(found.head, after)
            becomes = after
        else:
            writes += in_place(found, item)
            if found.living is None and entity.sub_ids:
                writes += await self._beside_others(found, record)
        writes += await self._bindings(found, becomes)
        await self._commit(writes, record)
        return record

    async def _beside_others(self, found: Reading, record: Entity) -> list[TogetherWrite]:
        """What a new entry needs so that its id goes on from the one it was made of, and stays in one place."""
        if found.base is not None:
            # Of two that go on from the same entry only one can: it is written too.
            return [Put(touched(found.base), unchanged(found.base))]
        if len(self.entity.space.generations) == 1:
            return []
        ids = self._ids(self._key_of(record))
        return await history_home(self.store, self.entity, ids, record, self.tenant, self.clock())

    async def _bindings(self, found: Reading, new: Item | None) -> list[TogetherWrite]:
        parents, self.parents = self.parents, None
        return await binding_writes(
            self.store,
            self.entity,
            found.bound,
            new,
            self.tenant,
            self.clock(),
            presumed_new=not self.has_looked,
            parents_known=parents,
        )

    async def _current_without(self, head: Head, values: Sequence[Any]) -> Item | None:
        """The current record once an entry is gone."""
        entity, (sub_id,) = self.entity, values[len(self.entity.ids) :]
        assert entity.current is not None, "only entries beside current records are removed this way"
        if head.last != sub_id:
            return current_after(entity, head, None, self.tenant)
        leaving = {entity.current, sub_id}
        before = await last_entry(self.store, entity, self._ids(values), self.tenant, self.clock(), without=leaving)
        return None if before is None else current_item(entity, from_item(entity, before), self.tenant, new_write_id())

    async def _commit(self, writes: Sequence[TogetherWrite], answer: Entity | None) -> None:
        self.has_looked = True
        together = [*writes] if self.answers is None else [*writes, self.answers.put(answer)]
        if not together:
            return
        try:
            await commit(self.store, together, may_repeat=may_repeat(self.command))
        except ItemTooLarge:
            for write in together:
                if isinstance(write, Put):
                    refuse_large(write.item, self.name)
            raise

    # --- keys --------------------------------------------------------------------------------------------------

    def _key_of(self, record: Entity) -> list[Any]:
        return [value_of(record, part.name) for part in self.entity.primary]

    def _lacks_key(self, record: Entity) -> bool:
        return None in self._key_of(record)

    def _ids(self, values: Sequence[Any]) -> Sequence[Any]:
        return values[: len(self.entity.ids)]
