"""Capacity of items: index entries, constraint items and transactions (docs/reference/capacity.md).

Constraint items here are all items that transactions write with a record: unique values, foreign keys, current records
of histories, counters and stored responses. The functions that write these items also compute them here. Capacity units
follow the rules of DynamoDB.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from graphql_api.model import (
    HASH_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    Entity,
    EntitySpec,
    PropertySpec,
    encode_record,
    mapping_key,
    value_of,
)
from graphql_api.storage import TRANSACTION_FACTOR, Item, Key, TableDefinition, index_entry, record_size, write_units
from graphql_api.writes import (
    DIGEST_BYTES,
    LAST_NUMBER,
    WRITE_ID,
    constraint_items,
    counter_key,
    encode_id,
    item_key,
    mapping_items,
    parent_keys,
    possible_hash_keys,
    response_item,
    response_key,
    to_current_item,
)

STORAGE_OVERHEAD_BYTES = 100
"""storage overhead per record, in the table and in each index"""
SAMPLE_WRITE_ID = "AAAAAAAAAAAAAAAA"
"""a write id of the usual length"""
SAMPLE_EXPIRY = 1_800_000_001
"""an expiry time of the usual length"""


# --- index entries ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexCapacity:
    """A physical index, filled with the records of an entity."""

    name: str
    projection: str
    share: float
    """share of the sample records with an entry"""
    bytes: float
    """mean size of an entry"""
    write_units: float
    """write units of one entry"""


@dataclass(frozen=True, slots=True)
class WriteUnits:
    """Write units of one record, including all indexes, outside transactions."""

    create: float
    update: float
    """an update that moves no index entry; indexes that project all attributes are written nevertheless"""
    move: float
    """an update that moves every index entry: the old one is deleted, the new one written"""


def mean_write_units(items: Sequence[Item]) -> float:
    """Return the mean write units of an item in the table alone."""
    return fmean(write_units(record_size(item)) for item in items)


def mean_size(items: Sequence[Item]) -> float:
    """Return the mean size of an item in bytes."""
    return fmean(map(record_size, items))


def index_capacities(table: TableDefinition, items: Sequence[Item]) -> Mapping[str, IndexCapacity]:
    """Return the capacity of each index by name, without indexes that contain none of the records."""
    capacities = {}
    for index in table.indexes:
        entries = [entry for item in items if (entry := index_entry(table, index, item)) is not None]
        if entries:
            projection = "INCLUDE" if isinstance(index.projection, tuple) else index.projection
            share, units = len(entries) / len(items), mean_write_units(entries)
            capacities[index.name] = IndexCapacity(index.name, projection, share, mean_size(entries), units)
    return capacities


def record_write_units(items: Sequence[Item], indexes: Collection[IndexCapacity]) -> WriteUnits:
    """Return the mean write units of a record with its index entries."""
    table = mean_write_units(items)
    entries = sum(index.share * index.write_units for index in indexes)
    # Every write changes `_w`, which indexes that project all attributes contain.
    always_written = sum(index.share * index.write_units for index in indexes if index.projection == "ALL")
    return WriteUnits(create=table + entries, update=table + always_written, move=table + 2 * entries)


def stored_bytes(size: float, indexes: Collection[IndexCapacity]) -> float:
    """Return the stored bytes of a record of this size with its entries."""
    entries = sum(index.share * (index.bytes + STORAGE_OVERHEAD_BYTES) for index in indexes)
    return size + STORAGE_OVERHEAD_BYTES + entries


# --- constraint items ------------------------------------------------------------------------------------------

ItemKind = Literal["current record", "lookup", "unique value", "foreign key", "counter", "kept answer"]


@dataclass(frozen=True, slots=True)
class ConstraintItemCapacity:
    """Constraint items of one kind."""

    kind: ItemKind
    name: str
    """name of the constraint, or the purpose of the items"""
    share: float | None
    """number per record; None: one per request with an idempotency key, stored for a day"""
    bytes: float
    """mean size of an item"""
    write_units: float
    """write units of an item with its index entries; in a transaction, except for counters"""
    stored_bytes: float
    """stored bytes of an item with its entries and the storage overhead"""


@dataclass(frozen=True, slots=True)
class TransactionUnits:
    """Write units of the transaction that writes one record with its constraint items."""

    create: float
    """creation of a new id, with its checks, and the counters that it may raise separately"""
    update: float
    """minimum: no index entry or constraint item moves"""
    move: float
    """maximum: all index entries and all mutable constraint items move"""
    remove: float
    """deletion; for a history, of the only entry of its id"""
    key: float
    """additional units for a request with an idempotency key"""


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Sample records in stored form."""

    entity: EntitySpec
    table: TableDefinition
    records: Sequence[Entity]
    items: Sequence[Item]
    tenant: str | None
    parent_bytes: Mapping[str, float]
    """known mean sizes of the records of other entities, by entity name"""


def constraint_item_capacities(samples: SampleSet) -> tuple[tuple[ConstraintItemCapacity, ...], TransactionUnits]:
    """Return the capacity of the constraint items, and the units of transactions."""
    entity = samples.entity
    record_units = record_write_units(samples.items, index_capacities(samples.table, samples.items).values())
    create, update, move, remove = record_units.create, record_units.update, record_units.move, record_units.create
    capacities: list[ConstraintItemCapacity] = []
    holders = samples.items
    if entity.current is not None:
        holders = _current_records(samples)
        indexes = index_capacities(samples.table, holders).values()
        units = record_write_units(holders, indexes)
        capacities.append(_item_capacity(samples, "current record", entity.current, holders, indexes))
        create += units.create
        update += units.update
        move += units.move
        remove += units.create
    written = samples.items if entity.current is None else [*samples.items, *holders]
    for kind, name, items, parts, parent_units in (*_mappings(samples, written), *_constraints(samples, holders)):
        capacity = _item_capacity(samples, kind, name, items)
        capacities.append(capacity)
        share = len(items) / len(samples.items if kind == "lookup" else holders)
        item_units, check_units = share * capacity.write_units / TRANSACTION_FACTOR, share * parent_units
        create += item_units + check_units
        remove += item_units
        # Constraint items with expiry are rewritten by every update.
        update += item_units + check_units if entity.ttl is not None else 0
        move += 2 * item_units + check_units if _may_change(entity, parts) else 0
    for part in entity.counters:
        # The counter is raised before the transaction, by a separate write.
        capacity = _item_capacity(samples, "counter", part.name, _counter_items(samples, part), factor=1)
        capacities.append(capacity)
        create += capacity.write_units / TRANSACTION_FACTOR
        if _may_change(entity, [entity.properties[name] for name in part.counter_group or ()]):
            move += capacity.write_units / TRANSACTION_FACTOR
    if entity.children:
        remove += record_units.update  # The delete intent is written before the search for references.
    checks = _count_absence_checks(samples) / len(samples.items)
    create += checks
    remove += checks if entity.current is not None else 0
    response = replace(_item_capacity(samples, "kept answer", "", _stored_responses(samples)), share=None)
    return (*capacities, response), TransactionUnits(
        create=TRANSACTION_FACTOR * create,
        update=TRANSACTION_FACTOR * update,
        move=TRANSACTION_FACTOR * move,
        remove=TRANSACTION_FACTOR * remove,
        key=response.write_units,
    )


def _item_capacity(
    samples: SampleSet,
    kind: ItemKind,
    name: str,
    items: Sequence[Item],
    indexes: Collection[IndexCapacity] = (),
    factor: int = TRANSACTION_FACTOR,
) -> ConstraintItemCapacity:
    size, units = mean_size(items), factor * record_write_units(items, indexes).create
    share = len(items) / len(samples.items)
    return ConstraintItemCapacity(kind, name, share, size, units, stored_bytes(size, indexes))


def _may_change(entity: EntitySpec, parts: Sequence[PropertySpec]) -> bool:
    immutable_names = {
        part.name for part in (*entity.primary_key, *entity.counters, entity.created) if part is not None
    }
    return any(not part.immutable and part.name not in immutable_names for part in parts)


# --- the kinds of items ----------------------------------------------------------------------------------------


def _current_records(samples: SampleSet) -> list[Item]:
    """Return the current record of each id among the samples, which is its last entry."""
    entity = samples.entity
    last: dict[str, Entity] = {}
    for record in sorted(samples.records, key=lambda one: value_of(one, entity.sub_ids[0].name)):
        last[encode_id(entity, [value_of(record, part.name) for part in entity.ids])] = record
    return [to_current_item(entity, record, samples.tenant, SAMPLE_WRITE_ID) for record in last.values()]


def _mappings(
    samples: SampleSet, written: Sequence[Item]
) -> Iterator[tuple[ItemKind, str, Sequence[Item], Sequence[PropertySpec], int]]:
    """Yield the mapping items of lookups, in the same form as `_constraints`. Each entry of a history has its own."""
    for lookup in samples.entity.written_lookups:
        keys = [mapping_key(lookup, item, samples.tenant) for item in written]
        mapped = [mapping_items(samples.entity, item, samples.tenant) for item in written]
        items = [own[key] for own, key in zip(mapped, keys, strict=True) if key is not None]
        if items:
            yield "lookup", lookup.attribute, items, lookup.hash, 0


def _constraints(
    samples: SampleSet, holders: Sequence[Item]
) -> Iterator[tuple[ItemKind, str, Sequence[Item], Sequence[PropertySpec], int]]:
    """Yield the items of unique values and foreign keys: kind, name, items, properties, units of parent checks."""
    entity, tenant = samples.entity, samples.tenant
    claims = [(holder, claim) for holder in holders for claim in constraint_items(entity, holder, tenant).values()]
    for unique in entity.unique:
        items = [claim.item for _, claim in claims if claim.constraint == unique]
        if items:
            yield "unique value", unique.attribute, items, unique.parts, 0
    for foreign_key in entity.foreign_keys:
        items = [
            reference.item
            for holder, reference in claims
            if reference.constraint == foreign_key
            # A record may reference itself.
            and item_key(holder) not in parent_keys(foreign_key, reference.values, tenant)
        ]
        if items:
            parent_units = write_units(round(samples.parent_bytes.get(foreign_key.parent.name, 1)))
            yield "foreign key", foreign_key.name, items, foreign_key.by, parent_units


def _counter_items(samples: SampleSet, part: PropertySpec) -> list[Item]:
    last: dict[Key, int] = {}
    for record in samples.records:
        key = counter_key(samples.entity, part, record, samples.tenant)
        last[key] = max(value_of(record, part.name) or 1, last.get(key, 1))
    return [
        {HASH_ATTRIBUTE: key.hash, RANGE_ATTRIBUTE: key.range, LAST_NUMBER: number, WRITE_ID: SAMPLE_WRITE_ID}
        for key, number in last.items()
    ]


def _stored_responses(samples: SampleSet) -> list[Item]:
    key, ttl = response_key("", samples.tenant, None), samples.table.ttl_attribute
    return [
        response_item(key, bytes(DIGEST_BYTES), encode_record(samples.entity, record), SAMPLE_EXPIRY, ttl)
        for record in samples.records
    ]


def _count_absence_checks(samples: SampleSet) -> int:
    """Count the absence checks of all samples. Each costs a unit, as for the smallest record."""
    entity = samples.entity
    if len(entity.space.generations) == 1:
        return 0
    ids = [encode_id(entity, [value_of(one, part.name) for part in entity.ids]) for one in samples.records]
    others = sum(len(possible_hash_keys(entity, each, samples.tenant)) - 1 for each in ids)
    return others + (len(ids) if entity.sub_ids and entity.current is None else 0)
