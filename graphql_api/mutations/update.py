"""Changes what stands: an update keeps what is not given, and a deletion leaves a right current record behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from graphql_api.catalog.entity import Entity
from graphql_api.catalog.items import from_item, has_expired
from graphql_api.catalog.markers import value_of
from graphql_api.catalog.specs import EntitySpec
from graphql_api.errors import InvalidRecord, InvalidValue, RecordNotFound, UnknownArgument, nearest
from graphql_api.mutations.creation import creation_changed
from graphql_api.mutations.heads import last_entry, read_head
from graphql_api.mutations.item_keys import current_item, item_of, key_of, keys_of
from graphql_api.mutations.pairs import current_after, current_writes, history_name, refuse_current, touched
from graphql_api.mutations.tries import in_some_tries, new_write_id, unchanged
from graphql_api.store.port import Store
from graphql_api.store.values import Delete, Item, Key, Put, TogetherWrite


async def update_record(
    store: Store,
    entity: EntitySpec,
    values: Sequence[Any],
    changes: Mapping[str, Any],
    tenant: str | None,
    *,
    now: float,
) -> Entity:
    """Changes the record with this primary key; under a new sub id the last entry goes on as another one."""
    refuse_current(entity, values[len(entity.ids) :])
    _check_names(entity, changes)
    update = _Update(store, entity, values, changes, tenant, now)
    return await in_some_tries(update.attempt, history_name(entity, values[: len(entity.ids)]))


async def delete_entry(
    store: Store, entity: EntitySpec, values: Sequence[Any], tenant: str | None, *, now: float
) -> None:
    """Removes an entry; if it was the last one, the current record becomes the one before, or goes with it."""
    refuse_current(entity, values[len(entity.ids) :])
    ids, (sub_id,) = values[: len(entity.ids)], values[len(entity.ids) :]

    async def attempt() -> None:
        head = await read_head(store, entity, ids, tenant, now)
        standing = await _standing(store, entity, values, tenant)
        stands = {key: item for key, item in standing.items() if item is not None}
        if not stands:
            return
        becomes = current_after(entity, head, None, tenant)
        if head.last == sub_id:
            assert entity.current is not None, "only entries beside current records are removed this way"
            before = await last_entry(store, entity, ids, tenant, now, without={entity.current, sub_id})
            becomes = None
            if before is not None:
                becomes = current_item(entity, from_item(entity, before), tenant, new_write_id())
        deletes = [Delete(key, unchanged(item)) for key, item in stands.items()]
        await store.write_together([*deletes, *current_writes(head, becomes)], new_write_id())

    await in_some_tries(attempt, history_name(entity, ids))


async def _standing(
    store: Store, entity: EntitySpec, values: Sequence[Any], tenant: str | None
) -> dict[Key, Item | None]:
    """What stands at every key that a record can have."""
    keys = keys_of(entity, values, tenant)
    return dict(zip(keys, await store.get_many(keys, consistent=True), strict=True))


@dataclass(frozen=True, slots=True)
class _Update:
    store: Store
    entity: EntitySpec
    values: Sequence[Any]
    changes: Mapping[str, Any]
    tenant: str | None
    now: float

    async def attempt(self) -> Entity:
        """Reads, and writes on the condition that all of it still stands."""
        standing = await _standing(self.store, self.entity, self.values, self.tenant)
        living = [item for item in standing.values() if item is not None and not self._has_expired(item)]
        if self.entity.current is not None:
            return await self._with_current(standing, living[0] if living else None)
        if living:
            record, item = self._changed(living[0])
            (problem,) = await self.store.write([Put(item, unchanged(living[0]))])
            if problem is not None:
                raise problem
            return record
        before = None
        if self.entity.sub_ids:
            before = await last_entry(self.store, self.entity, self._ids, self.tenant, self.now)
        if before is None:
            raise self._nothing()
        record, item = self._changed(before)
        # What the new entry goes on from is written too, so that of two that go on from the same one only one can.
        goes_on = Put(touched(before), unchanged(before))
        await self._together([Put(item, unchanged(standing[key_of(item)])), goes_on])
        return record

    async def _with_current(self, standing: Mapping[Key, Item | None], entry: Item | None) -> Entity:
        entity = self.entity
        head = await read_head(self.store, entity, self._ids, self.tenant, self.now)
        base = head.state if entry is None else entry
        if base is None:
            raise self._nothing()
        record, item = self._changed(base)
        becomes = current_after(entity, head, record, self.tenant)
        await self._together([Put(item, unchanged(standing[key_of(item)])), *current_writes(head, becomes)])
        return record

    async def _together(self, writes: Sequence[TogetherWrite]) -> None:
        await self.store.write_together(writes, new_write_id())

    @property
    def _ids(self) -> Sequence[Any]:
        return self.values[: len(self.entity.ids)]

    def _has_expired(self, item: Item) -> bool:
        return has_expired(self.entity, item, self.now)

    def _nothing(self) -> RecordNotFound:
        name = history_name(self.entity, self._ids if self.entity.sub_ids else self.values)
        return RecordNotFound(f"There is no {name.strip()} to change: write it by put, or look at its id.")

    def _changed(self, item: Item) -> tuple[Entity, Item]:
        """The record as it becomes, and as it is stored."""
        entity = self.entity
        old = from_item(entity, item)
        created = entity.created
        if created is not None and created.name in self.changes:
            stored, given = value_of(old, created.name), self.changes[created.name]
            if stored != given:
                raise creation_changed(entity, self._ids, stored, given)
        values = {part.name: value_of(old, part.name) for part in entity.properties.values() if part.function is None}
        values |= dict(zip((part.name for part in entity.primary), self.values, strict=True))
        try:
            record = entity.model.model_validate({**values, **self.changes}, by_name=True, by_alias=False)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "record"
            raise InvalidRecord(f"{entity.type_name}.{place}: {first['msg']}.", argument=place) from wrong
        return record, item_of(entity, record, self.tenant, new_write_id())


def _check_names(entity: EntitySpec, changes: Mapping[str, Any]) -> None:
    """Refuses what cannot be changed at all."""
    for name in changes:
        part = entity.properties.get(name)
        if part is None:
            known = [part.name for part in entity.properties.values() if part.function is None]
            raise UnknownArgument(f"{entity.type_name} has no property {name!r}.{nearest(name, known)}", argument=name)
        if part.function is not None:
            raise InvalidValue(
                f"{entity.type_name}.{name} is derived from {' and '.join(part.sources)}: change that.", argument=name
            )
