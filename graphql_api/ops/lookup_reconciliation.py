"""Reconcile the mapping items of lookups in another store with the records: report, and repair if that is wanted.

Missing mapping items are written: an update may have ended after its record. Dangling ones are removed once they are
older than the grace age, if nothing has changed since they were compared with their record. So one that belongs to an
insert in flight stays.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import hash_key_parts
from graphql_api.errors import ConditionFailed, Conflict, SchemaChanged, StoreUnavailable
from graphql_api.evolution import SchemaCopy, TableSchema, opened_schema
from graphql_api.model import HASH_ATTRIBUTE, Catalog, EntitySpec, lookup_name, mapped_record, unready_error
from graphql_api.storage import Delete, Item, Key, Put, ScanPage, Store, Write
from graphql_api.writes import (
    GRACE_SECONDS,
    LookupStore,
    expect_unchanged,
    is_same_item,
    item_key,
    mapping_items,
    may_be_in_flight,
    write_key,
)

MAX_LISTED = 1_000
"""mapping items that a report names; further ones are only counted"""
_MAX_ATTEMPTS = 5
"""of a page, while the table's record changes"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationSettings:
    """How a reconciliation runs."""

    apply: bool = False
    """write missing mapping items, and remove dangling ones"""
    grace_seconds: float = GRACE_SECONDS
    """age from which a dangling mapping item may be removed"""
    clock: Clock = system_clock


@dataclass(slots=True)
class ReconciliationResult:
    """What a reconciliation has found and repaired. Counts are by lookup: `user.phone`."""

    records: int = 0
    mappings: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    """mapping items that a record needs, and that are missing or name another record"""
    dangling: Counter[str] = field(default_factory=Counter)
    """mapping items older than the grace age that no record needs"""
    in_flight: Counter[str] = field(default_factory=Counter)
    """younger ones, which may belong to an insert in flight"""
    created: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    """mapping items that writers changed meanwhile: nothing was done"""
    unknown: int = 0
    """mapping items of lookups that the table does not maintain, or that this catalog does not know"""
    listed: list[tuple[str, Key]] = field(default_factory=list)
    """what was found, and where"""

    @property
    def remaining(self) -> int:
        """Return the number of findings that were not repaired."""
        return (self.missing - self.created).total() + (self.dangling - self.removed).total()

    def add(self, kind: str, counts: Counter[str], key: Key) -> None:
        """Count and list a mapping item."""
        counts[lookup_label(key)] += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append((kind, key))


def lookup_label(key: Key) -> str:
    """Return the entity and the name of the lookup of a mapping item."""
    place = hash_key_parts(key.hash)
    assert place is not None, "mapping items have hash keys of the table"
    return f"{place.entity}.{lookup_name(place.kind)}"


ReconciliationCallback = Callable[[ReconciliationResult], None]


async def reconcile_lookups(
    store: LookupStore,
    catalog: Catalog,
    settings: ReconciliationSettings | None = None,
    on_progress: ReconciliationCallback = lambda _: None,
) -> ReconciliationResult:
    """Compare all records with the mapping items in the lookup store. With `apply`, repair these."""
    async with opened_schema(store, catalog) as schema:
        return await _Reconciliation(store, schema, settings or ReconciliationSettings(), on_progress).run()


@dataclass(slots=True)
class _Reconciliation:
    store: LookupStore
    schema: TableSchema
    settings: ReconciliationSettings
    on_progress: ReconciliationCallback
    result: ReconciliationResult = field(default_factory=ReconciliationResult)

    async def run(self) -> ReconciliationResult:
        """Write what is missing first: then a mapping item that names the wrong record does not count as dangling."""
        async for items in _pages(self.store.inner):
            self.result.records += await self._with_copy(partial(self._compare_records, items))
            self.on_progress(self.result)
        async for items in _pages(self.store.mappings):
            self.result.mappings += await self._with_copy(partial(self._compare_mappings, items))
            self.on_progress(self.result)
        return self.result

    async def _with_copy(self, step: Callable[[SchemaCopy], Awaitable[int]]) -> int:
        """Run a step with a valid copy of the table's record, and again if the record changes meanwhile."""
        for _ in range(_MAX_ATTEMPTS):
            copy = await self.schema.copy_for_writing()
            for entity in copy.catalog.entities.values():
                if entity.write_blocker is not None:
                    raise unready_error(entity.write_blocker, f"{entity.type_name} needs")
            before = deepcopy(self.result)
            try:
                with self.schema.fence(copy):
                    return await step(copy)
            except SchemaChanged:  # Nothing was written, and the page is compared again.
                self.result = before
                await self.schema.refresh()
        raise StoreUnavailable("The table's record kept changing while its lookups were reconciled: retry.")

    # --- records -----------------------------------------------------------------------------------------------

    async def _compare_records(self, items: Sequence[Item], copy: SchemaCopy) -> int:
        records = [item for item in items if self._entity_of(copy, item) is not None]
        suspects = await self._missing(records, copy)
        # A writer may just have written the record: look again at what is stored now.
        again = await self.store.get_many([*dict.fromkeys(map(item_key, suspects.values()))], consistent=True)
        found = await self._missing([item for item in again if item is not None], copy)
        for key in found:
            self.result.add("missing", self.result.missing, key)
        if self.settings.apply:
            stored = dict(zip(found, await self.store.get_many([*found], consistent=True), strict=True))
            puts = [Put(self._needed(found[key], copy)[key], expect_unchanged(stored[key])) for key in found]
            await self._apply(puts, self.result.created)
        return len(records)

    async def _missing(self, records: Iterable[Item], copy: SchemaCopy) -> Mapping[Key, Item]:
        """Return the records whose mapping items are missing or wrong, by the keys of these."""
        needed = {key: (mapping, record) for record in records for key, mapping in self._needed(record, copy).items()}
        stored = await self.store.get_many([*needed], consistent=True) if needed else ()
        return {
            key: record
            for (key, (mapping, record)), found in zip(needed.items(), stored, strict=True)
            if found is None or not is_same_item(found, mapping)
        }

    def _needed(self, record: Item, copy: SchemaCopy) -> Mapping[Key, Item]:
        entity, place = self._entity_of(copy, record), hash_key_parts(record[HASH_ATTRIBUTE])
        if entity is None or place is None or not entity.is_visible(record, self.settings.clock()):
            return {}
        return mapping_items(entity, record, place.tenant, is_old=True)

    @staticmethod
    def _entity_of(copy: SchemaCopy, item: Item) -> EntitySpec | None:
        place = hash_key_parts(item[HASH_ATTRIBUTE])
        entity = None if place is None else copy.catalog.entities.get(place.head)
        return entity if entity is not None and entity.written_lookups else None

    # --- mapping items -----------------------------------------------------------------------------------------

    async def _compare_mappings(self, items: Sequence[Item], copy: SchemaCopy) -> int:
        result, settings = self.result, self.settings
        mappings = [item for item in items if _kind_of(item) is not None]
        known = [item for item in mappings if self._is_maintained(item, copy)]
        result.unknown += len(mappings) - len(known)
        void = []
        for item in await self._without_record(known, copy):
            if may_be_in_flight(item, settings.clock(), settings.grace_seconds):
                result.add("in flight", result.in_flight, item_key(item))
            else:
                result.add("dangling", result.dangling, item_key(item))
                void.append(Delete(item_key(item), expect_unchanged(item)))
        if settings.apply:
            await self._apply(void, result.removed)
        return len(mappings)

    def _is_maintained(self, item: Item, copy: SchemaCopy) -> bool:
        place = hash_key_parts(item[HASH_ATTRIBUTE])
        entity = None if place is None else copy.catalog.entities.get(place.entity)
        return entity is not None and any(one.lookup == _kind_of(item) for one in entity.written_lookups)

    async def _without_record(self, mappings: Sequence[Item], copy: SchemaCopy) -> list[Item]:
        """Return the mapping items that no record needs. The records are read after the mapping items."""
        keys = {item_key(item): mapped_record(item) for item in mappings}
        wanted = [*dict.fromkeys(key for key in keys.values() if key is not None)]
        records = dict(zip(wanted, await self.store.get_many(wanted, consistent=True), strict=True)) if wanted else {}
        void = []
        for item in mappings:
            owner = keys[item_key(item)]
            record = None if owner is None else records[owner]
            entity = None if record is None else self._entity_of(copy, record)
            if record is None or entity is None:
                void.append(item)
            elif entity.is_visible(record, self.settings.clock()):  # Engines remove expired records and mapping items.
                void += [] if item_key(item) in self._needed(record, copy) else [item]
        return void

    # --- repairs -----------------------------------------------------------------------------------------------

    async def _apply(self, writes: Sequence[Write], counts: Counter[str]) -> None:
        for write, problem in zip(writes, await self.store.write(writes) if writes else (), strict=True):
            if isinstance(problem, ConditionFailed | Conflict):
                self.result.changed += 1
            elif problem is not None:
                raise problem
            else:
                counts[lookup_label(write_key(write))] += 1


def _kind_of(item: Item) -> str | None:
    """Return the name of the lookup of a mapping item; None for other items."""
    place = hash_key_parts(item[HASH_ATTRIBUTE])
    return None if place is None else lookup_name(place.kind)


async def _pages(store: Store) -> AsyncIterator[Sequence[Item]]:
    page: ScanPage = await store.scan(0, 1, None)
    while True:
        yield page.items
        if page.after is None:
            return
        page = await store.scan(0, 1, page.after)
