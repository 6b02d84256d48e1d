"""Inspect one record: its own attributes, and its place among the shards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.codecs import Eq, encoded_range
from graphql_api.errors import StoreError
from graphql_api.evolution import recomputed
from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, EntitySpec, decode_record, value_of
from graphql_api.storage import (
    Check,
    Delete,
    Expect,
    Item,
    Key,
    Put,
    RangeRead,
    Store,
    values_equal,
)
from graphql_api.verification.findings import Damage, Finding, Inspection
from graphql_api.verification.verified_elements import VerifiedEntity
from graphql_api.writes import (
    BOOKKEEPING,
    CURRENT_OF,
    DELETE_INTENT,
    LAST_NUMBER,
    WRITE_ID,
    counter_key,
    encode_id,
    expect_unchanged,
    item_at,
    item_key,
    possible_hash_keys,
    possible_keys,
    with_new_write_id,
)

INTENT_SECONDS = 60.0
"""age at which a delete intent counts as left over; a deletion takes much less"""
_MISSING = object()


@dataclass(frozen=True, slots=True)
class InspectedRecord:
    """A stored record that fits its entity."""

    verified: VerifiedEntity
    item: Item
    tenant: str | None
    fresh: Item
    """the item that a write of the record would produce"""
    decoded: Entity

    @property
    def entity(self) -> EntitySpec:
        return self.verified.entity

    @property
    def key(self) -> Key:
        return item_key(self.item)

    @property
    def id_values(self) -> list[Any]:
        return [value_of(self.decoded, part.name) for part in self.entity.ids]

    @property
    def possible_keys(self) -> list[Key]:
        """Return the keys that the record could have in each shard generation."""
        values = [value_of(self.decoded, part.name) for part in self.entity.primary_key]
        return possible_keys(self.entity, values, self.tenant)

    @property
    def is_current(self) -> bool:
        """Return whether it is a current record."""
        current, parts = self.entity.written_current, self.entity.sub_ids
        return current is not None and self.item.get(parts[0].stored) == current


def decoded_record(
    verified: VerifiedEntity, item: Item, tenant: str | None, inspection: Inspection
) -> InspectedRecord | None:
    """Return a record with what a write of it would produce; None, and a finding, if nothing can be derived from it."""
    try:
        decoded = decode_record(verified.entity, item)
        fresh = recomputed(verified.entity, item, tenant, decoded)
    except Exception as problem:  # noqa: BLE001 - validators are code of the application
        prefix = f"The stored {verified.entity.type_name} {item[HASH_ATTRIBUTE]} / {item[RANGE_ATTRIBUTE]}: "
        reason = f"{problem}".removeprefix(prefix)
        inspection.add(Finding(Damage.INVALID_RECORD, item_key(item), reason, is_derivable=False))
        return None
    if fresh[RANGE_ATTRIBUTE] != item[RANGE_ATTRIBUTE]:
        reason = f"its ids are those of {fresh[RANGE_ATTRIBUTE]}"
        inspection.add(Finding(Damage.RECORD_KEY, item_key(item), reason, is_derivable=False))
        return None
    return InspectedRecord(verified, item, tenant, fresh, decoded)


# --- attributes ------------------------------------------------------------------------------------------------


def inspect_attributes(record: InspectedRecord, inspection: Inspection, now: float) -> Item:
    """Compare the attributes of a record with those that a write of it would store. Return the corrected record."""
    new = dict(record.item)
    findings = [
        *_computed_attributes(record, new),
        *_property_forms(record, new),
        *_bookkeeping(record, new, now),
    ]
    for finding in findings:
        inspection.add(finding)
    if not findings:
        return record.item
    corrected = with_new_write_id(new)
    inspection.writes.append(Put(corrected, expect_unchanged(record.item)))
    return corrected


def _computed_attributes(record: InspectedRecord, new: dict[str, Any]) -> Iterator[Finding]:
    verified, item = record.verified, record.item
    forms = [record.fresh]
    if verified.has_two_forms:
        forms.append(recomputed(verified.ready, item, record.tenant))
    derived = {part.stored for part in record.entity.properties.values() if part.function is not None}
    wrong = {
        name: element
        for name, element in {**verified.computed, **_raw_defaults(record)}.items()
        if not any(_has_same(form, item, name) for form in forms)
    }
    for name in wrong:
        new.pop(name, None)
        new |= {name: record.fresh[name]} if name in record.fresh else {}
    superfluous = {name: verified.other_keys[name] for name in verified.other_keys.keys() & item.keys()}
    for name in superfluous:
        del new[name]
    keys = {**{name: element for name, element in wrong.items() if name not in derived}, **superfluous}
    for damage, names in (
        (Damage.DERIVED_PROPERTY, {name: wrong[name] for name in wrong if name in derived}),
        (Damage.INDEX_KEY, keys),
    ):
        if names:
            reason = "; ".join(_describe_attribute(name, item, record.fresh) for name in names)
            yield Finding(damage, record.key, reason, tuple(dict.fromkeys(names.values())))


def _raw_defaults(record: InspectedRecord) -> dict[str, str]:
    """Return the keys of raw indexes that the record lacks: its property has a default."""
    return {
        index.range_attribute: f"index {index.entity}.{index.physical}"
        for index in record.verified.ready.written_indexes
        if index.raw and index.range_attribute not in record.item
    }


def _has_same(form: Item, item: Item, name: str) -> bool:
    one, other = form.get(name, _MISSING), item.get(name, _MISSING)
    return one is other or (one is not _MISSING and other is not _MISSING and values_equal(one, other))


def _describe_attribute(name: str, item: Item, fresh: Item) -> str:
    """Describe a difference by the name of the attribute only, because values may be secrets."""
    if name not in item:
        return f"{name} is missing"
    return f"{name} is not the value of this record" if name in fresh else f"{name} is superfluous"


def _property_forms(record: InspectedRecord, new: dict[str, Any]) -> Iterator[Finding]:
    names = []
    for part in record.entity.properties.values():
        stored = record.item.get(part.stored)
        if part.codec is None or part.function is not None or stored is None:
            continue
        form = part.codec.store(part.codec.load(stored))
        if not values_equal(form, stored):
            names.append(part.stored)
            new[part.stored] = form
    if names:
        reason = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not stored as the type requires"
        yield Finding(Damage.PROPERTY_FORM, record.key, reason)


def _bookkeeping(record: InspectedRecord, new: dict[str, Any], now: float) -> Iterator[Finding]:
    item = record.item
    if not isinstance(item.get(WRITE_ID), str):
        yield Finding(Damage.WRITE_ID, record.key, f"{WRITE_ID} is missing")
    if CURRENT_OF in item and not record.is_current:
        yield Finding(Damage.CURRENT_RECORD, record.key, f"{CURRENT_OF} is superfluous: it is no current record")
        del new[CURRENT_OF]
    if DELETE_INTENT in item and _is_abandoned(item[DELETE_INTENT], now):
        yield Finding(Damage.DELETE_INTENT, record.key, "a deletion was begun and not completed")
        del new[DELETE_INTENT]


def _is_abandoned(begun: Any, now: float) -> bool:
    try:
        return abs(now - float(begun) / 1000) > INTENT_SECONDS  # A future time is abandoned too, since clocks differ.
    except (TypeError, ValueError):
        return True


# --- place -----------------------------------------------------------------------------------------------------


async def inspect_place(
    store: Store, record: InspectedRecord, corrected: Item, inspection: Inspection, now: float
) -> bool:
    """Compare the shard of a record with that of its id and creation value. Return whether it is the right one."""
    right = item_key(record.fresh)
    if record.key == right:
        if len(record.entity.space.generations) > 1 and not record.entity.sub_ids:
            await _find_double(store, record, inspection, now)
        return True
    own = encode_id(record.entity, record.id_values)
    is_of_generation = record.key.hash in possible_hash_keys(record.entity, own, record.tenant)
    if record.is_current and is_of_generation:
        return True  # The inspection of the history compares it with its entries.
    keys = record.possible_keys
    others = dict(zip(keys, await store.get_many(keys, consistent=True), strict=True))
    others.pop(record.key, None)
    occupant, other = others.get(right), next((key for key, item in others.items() if item is not None), None)
    if occupant is not None and (record.is_current or _has_same_content(record, occupant)):
        finding = Finding(Damage.DOUBLED, record.key, "it is a copy of the record in the right shard", other=right)
        unchanged = Check(right, expect_unchanged(occupant))
        inspection.findings = [finding]
        inspection.writes = [Delete(record.key, expect_unchanged(record.item)), unchanged]
    elif other is not None:
        inspection.add(_doubled(record.key, right if occupant is not None else other))
    else:
        reason = f"its id and creation value belong to {right.hash}"
        inspection.add(Finding(Damage.SHARD, record.key, reason, is_derivable=not is_of_generation))
        if not is_of_generation:
            _plan_move(record, corrected, right, [*others], inspection)
    return False


def _plan_move(
    record: InspectedRecord, corrected: Item, right: Key, keys: Sequence[Key], inspection: Inspection
) -> None:
    """Plan the move of a record, with its corrected attributes, to the shard that its id determines."""
    moved = with_new_write_id({**corrected, HASH_ATTRIBUTE: right.hash})
    absent = [Check(key, Expect(absent=True)) for key in keys if key != right]
    delete = Delete(record.key, expect_unchanged(record.item))
    inspection.writes = [Put(moved, Expect(absent=True)), delete, *absent]
    inspection.moved_to = right


def _doubled(one: Key, other: Key) -> Finding:
    first, second = sorted([one, other])
    reason = "another shard holds a record of the same id, with other values"
    return Finding(Damage.DOUBLED, first, reason, other=second, is_derivable=False)


def _has_same_content(record: InspectedRecord, other: Item) -> bool:
    """Return whether another item has the same attributes, apart from those that follow from the others."""
    return values_equal(_content(record.entity, record.item), _content(record.entity, other))


def _content(entity: EntitySpec, item: Item) -> Mapping[str, Any]:
    derived = {part.stored for part in entity.properties.values() if part.function is not None}
    properties = {part.stored for part in entity.properties.values()} - derived
    generated = entity.known_attributes - properties
    ignored = BOOKKEEPING | generated | {HASH_ATTRIBUTE, RANGE_ATTRIBUTE}
    return {name: value for name, value in item.items() if name not in ignored}


async def _find_double(store: Store, record: InspectedRecord, inspection: Inspection, now: float) -> None:
    """Look for a record of the same id in the shards of other generations. A copy is found where it is."""
    others = [key for key in record.possible_keys if key != record.key]
    for key, item in zip(others, await store.get_many(others, consistent=True) if others else (), strict=True):
        if item is not None and record.entity.is_visible(item, now) and not _has_same_content(record, item):
            inspection.add(_doubled(record.key, key))


async def inspect_history_shards(store: Store, record: InspectedRecord, inspection: Inspection, now: float) -> None:
    """Look for entries of the same history in the shards of other generations."""
    entity = record.entity
    own = encode_id(entity, record.id_values)
    others = [one for one in possible_hash_keys(entity, own, record.tenant) if one != record.key.hash]
    key_range = encoded_range(entity.indexes["by_id"].columns, [Eq(value) for value in record.id_values])
    for hash_key in others:
        (page,) = await store.read_ranges([RangeRead(None, hash_key, 0, key_range, 1, consistent=True)], want=1)
        if isinstance(page, StoreError):
            raise page
        for row in page.rows:
            is_current = row.item.get(entity.sub_ids[0].stored) == entity.written_current
            if not is_current and entity.is_visible(row.item, now):
                first, second = sorted([record.key.hash, hash_key])
                reason = f"{second} holds entries of the same history"
                id_key = Key(first, f"{key_range.low}")
                inspection.add(Finding(Damage.DOUBLED, id_key, reason, other=row.key, is_derivable=False))


# --- counters --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class GreatestNumbers:
    """The greatest numbers of the inspected records, by counter."""

    found: dict[Key, tuple[int, str, Key]] = field(default_factory=dict)
    """with the name of the property, and the record that has the number"""

    def add(self, record: InspectedRecord) -> None:
        """Note the numbers of a record."""
        for part in record.verified.counters:
            number = value_of(record.decoded, part.name)
            if isinstance(number, int):
                key = counter_key(record.entity, part, record.decoded, record.tenant)
                if key not in self.found or self.found[key][0] < number:
                    self.found[key] = number, f"{record.entity.name}.{part.stored}", record.key

    async def inspect(self, store: Store) -> Mapping[Key, Inspection]:
        """Compare the counters with the numbers. Return what was found, by the record that has the number."""
        keys = [*self.found]
        stored = await store.get_many(keys, consistent=True) if keys else ()
        inspections: dict[Key, Inspection] = {}
        for key, item in zip(keys, stored, strict=True):
            number, name, record = self.found[key]
            last = 0 if item is None else last_number(item)
            if last is None or last >= number:
                continue  # What cannot be read is found when the counter itself is inspected.
            reason = f"it is at {last}, and a record has the number {number}" if item else "it is missing"
            finding = Finding(Damage.COUNTER, key, reason, (f"server-set {name}.counter",), record)
            raised = item_at(key, {LAST_NUMBER: number})
            inspections.setdefault(record, Inspection()).add(finding, Put(raised, expect_unchanged(item)))
        return inspections


def last_number(item: Item) -> int | None:
    """Return the last number of a counter; None if it cannot be read."""
    stored: Any = item.get(LAST_NUMBER)
    try:
        return None if isinstance(stored, bool | str) else int(stored)
    except (TypeError, ValueError):
        return None
