"""Inspect any stored item: a record, or an item that servers keep in addition."""

from collections.abc import Mapping
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import SEP, HashKeyParts, hash_key_parts
from graphql_api.errors import ShardQLError, StoreError
from graphql_api.evolution import EPOCH_KEY, TABLE_RECORD_KEY, RecordedElement, RecordRepairer
from graphql_api.model import HASH_ATTRIBUTE, lookup_name
from graphql_api.projections import LETTER_KIND, STREAM_KIND, unreadable_part
from graphql_api.storage import Delete, Item, Key, Put, Store, is_number
from graphql_api.verification.constraint_inspection import inspect_constraint_item, inspect_constraints, reference_name
from graphql_api.verification.findings import Damage, Finding, Inspection
from graphql_api.verification.history_inspection import inspect_history
from graphql_api.verification.mapping_inspection import inspect_mapping_item, inspect_mappings
from graphql_api.verification.record_inspection import (
    GreatestNumbers,
    InspectedRecord,
    decoded_record,
    inspect_attributes,
    inspect_history_shards,
    inspect_place,
    last_number,
)
from graphql_api.verification.verified_elements import VerifiedElements, VerifiedEntity
from graphql_api.writes import (
    EXPIRES,
    REQUEST_DIGEST,
    RESPONSE,
    EntityRecords,
    expect_unchanged,
    item_key,
    mapping_writes,
    with_new_write_id,
)

EXPIRED_SECONDS = 7 * 24 * 60 * 60
"""how long after its expiry an item counts as left over; DynamoDB removes it within a few days"""

_EVENT_ITEMS = {STREAM_KIND: Damage.STREAM_POSITION, LETTER_KIND: Damage.DEAD_LETTER}
"""items that projections keep, by the kind in their hash keys"""

_TABLE_ITEMS = ("table#checkpoint#", "table#violation#")


class ItemInspector:
    """Inspects items by the elements of a table, as they are stored now."""

    def __init__(self, store: Store, elements: VerifiedElements, clock: Clock) -> None:
        self._store = store
        self._elements = elements
        self._clock = clock
        self._repairer = RecordRepairer(store, elements.catalog, (), clock)
        self._histories: set[tuple[str, ...]] = set()
        """the histories that were inspected: once for all of their entries"""
        self.numbers = GreatestNumbers()

    async def inspect(self, item: Item) -> Inspection:
        """Return what is wrong with an item, and with the items that its values determine."""
        inspection = Inspection()
        try:
            await self._inspect(item, inspection)
        except ShardQLError as problem:
            if isinstance(problem, StoreError):
                raise
            # A value that no key can contain, for example.
            inspection = Inspection([Finding(Damage.INVALID_RECORD, item_key(item), f"{problem}", is_derivable=False)])
        return inspection

    async def _inspect(self, item: Item, inspection: Inspection) -> None:
        place, key = hash_key_parts(item[HASH_ATTRIBUTE]), item_key(item)
        if place is None:
            reason = "its hash key is none of this table"
            inspection.add(Finding(Damage.UNKNOWN_ENTITY, key, reason, is_derivable=False))
        elif place.entity == "shardql":
            await self._inspect_own_item(item, place, inspection)
        elif not self._elements.is_known(place.entity):
            reason = f"no entity of the table is called {place.entity}"
            inspection.add(Finding(Damage.UNKNOWN_ENTITY, key, reason, is_derivable=False))
        elif place.kind:
            await self._inspect_constraint_item(item, place, inspection)
        elif (verified := self._elements.entities.get(place.entity)) is not None:
            await self._inspect_record(verified, item, place, inspection)

    async def inspect_counters(self) -> Mapping[Key, Inspection]:
        """Return what is wrong with the counters of the inspected records, by record."""
        return await self.numbers.inspect(self._store)

    # --- records -----------------------------------------------------------------------------------------------

    async def _inspect_record(
        self, verified: VerifiedEntity, item: Item, place: HashKeyParts, inspection: Inspection
    ) -> None:
        entity, now = verified.entity, self._clock()
        if not entity.is_visible(item, now):
            assert entity.ttl is not None, "only records with an expiry become invisible"
            self._inspect_expiry(item, item[entity.ttl.stored], inspection)
            return
        record = decoded_record(verified, item, place.tenant, inspection)
        if record is None:
            return
        corrected = inspect_attributes(record, inspection, now)
        records = EntityRecords(self._store, entity, place.tenant, self._clock)
        self.numbers.add(record)
        if not await inspect_place(self._store, record, corrected, inspection, now):
            if inspection.moved_to is not None:
                if verified.maintains_history:
                    await self._write_head(record, records, inspection)
                inspection.writes += mapping_writes(entity, [item], inspection.writes, place.tenant)
            return  # What depends on its key is inspected when it is in the right shard.
        has_generations = len(entity.space.generations) > 1
        if entity.sub_ids and has_generations and not record.is_current and self._is_first("shards", record):
            await inspect_history_shards(self._store, record, inspection, now)
        if verified.maintains_history and self._is_first("head", record):
            await inspect_history(self._repairer, records, record, inspection)
        if entity.written_current is None:
            await inspect_constraints(self._repairer, records, verified, [item], corrected, inspection)
        if entity.written_lookups:
            await inspect_mappings(self._repairer, records, verified, item, corrected, inspection)

    def _is_first(self, aspect: str, record: InspectedRecord) -> bool:
        """Return whether an aspect of a history is inspected for the first time."""
        ids = record.key.range.split(SEP)[: len(record.entity.ids)]
        history = (aspect, record.key.hash, *ids)
        is_first = history not in self._histories
        self._histories.add(history)
        return is_first

    async def _write_head(self, record: InspectedRecord, records: EntityRecords, inspection: Inspection) -> None:
        """Let the move of an entry also write the current record, as every write to a history does."""
        head = await self._repairer.expected_head(record.verified.repair, records, record.id_values)
        stored = [item for item in head.stored.values() if item is not None]
        inspection.writes += [Put(with_new_write_id(item), expect_unchanged(item)) for item in stored]

    def _inspect_expiry(self, item: Item, expires: Any, inspection: Inspection) -> None:
        if is_number(expires) and expires + EXPIRED_SECONDS <= self._clock():
            finding = Finding(Damage.EXPIRED, item_key(item), "it expired more than a week ago")
            inspection.add(finding, Delete(item_key(item), expect_unchanged(item)))

    # --- items that servers keep in addition -------------------------------------------------------------------

    def _owned_by(self, place: HashKeyParts, key: Key) -> tuple[str, RecordedElement | None]:
        """Return the entity whose records own an item, and its element, if the table has it."""
        match place.kind:
            case "unique":
                return place.entity, self._elements.element(place.entity, "unique", key.range)
            case "refs":
                owner, _, name = reference_name(key).partition(".")
                return owner, self._elements.element(owner, "foreign key", name)
            case "counter":
                name = key.range.removeprefix("counter#")
                return place.entity, self._elements.element(place.entity, "server-set", f"{name}.counter")
        lookup = lookup_name(place.kind)
        return place.entity, None if lookup is None else self._elements.element(place.entity, "lookup", lookup)

    async def _inspect_constraint_item(self, item: Item, place: HashKeyParts, inspection: Inspection) -> None:
        key = item_key(item)
        owner, recorded = self._owned_by(place, key)
        if place.kind == "home" and key.range.startswith("id#"):
            return
        if recorded is None:
            if place.entity in self._elements.record.entities:
                reason = "the table has no such constraint, counter or lookup"
                inspection.add(Finding(Damage.UNKNOWN_ITEM, key, reason, is_derivable=False))
        elif not self._elements.is_ready(recorded):
            return
        elif place.kind == "counter":
            if last_number(item) is None:
                reason = "its last number cannot be read"
                finding = Finding(Damage.COUNTER, key, reason, (f"{recorded.element}",), is_derivable=False)
                inspection.add(finding)
        elif is_number(item.get(EXPIRES)) and item[EXPIRES] <= self._clock():
            self._inspect_expiry(item, item[EXPIRES], inspection)
        elif (verified := self._elements.entities.get(owner)) is not None:
            await self._inspect_owned_item(verified, item, recorded, inspection)

    async def _inspect_owned_item(
        self, verified: VerifiedEntity, item: Item, recorded: RecordedElement, inspection: Inspection
    ) -> None:
        element = f"{recorded.element}"
        if recorded.element.id in verified.repair.lookups:
            await inspect_mapping_item(self._store, verified, item, element, inspection, self._clock())
        elif recorded.element.kind != "lookup" and verified.repair.constraints:
            await inspect_constraint_item(self._store, verified, item, element, inspection, self._clock)

    async def _inspect_own_item(self, item: Item, place: HashKeyParts, inspection: Inspection) -> None:
        key = item_key(item)
        if place.kind == "once":
            is_readable = is_number(item.get(EXPIRES)) and isinstance(item.get(REQUEST_DIGEST), bytes)
            if not is_readable or RESPONSE not in item:
                reason = "servers cannot read it"
                inspection.add(Finding(Damage.STORED_RESPONSE, key, reason, is_derivable=False))
            else:
                self._inspect_expiry(item, item[EXPIRES], inspection)
        elif place.kind in _EVENT_ITEMS:
            damage = unreadable_part(item)
            if damage is not None:
                inspection.add(Finding(_EVENT_ITEMS[place.kind], key, damage, is_derivable=False))
        elif key not in {TABLE_RECORD_KEY, EPOCH_KEY} and not key.range.startswith(_TABLE_ITEMS):
            reason = "the table keeps no such item about itself"
            inspection.add(Finding(Damage.TABLE_RECORD, key, reason, is_derivable=False))
