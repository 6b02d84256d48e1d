"""Capacity of constraint items and of transactions of an entity (docs/capacity.md).

Constraint items here are all items that transactions write with a record: unique values, foreign keys, current records
of histories, counters and stored responses. The functions that write these items also compute them here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphql_api.model import HASH_ATTRIBUTE, RANGE_ATTRIBUTE, Entity, EntitySpec, PropertySpec, encode_record, value_of
from graphql_api.ops.index_capacity import (
    index_capacities,
    mean_size,
    mean_write_units,
    record_write_units,
    stored_bytes,
    write_units,
)
from graphql_api.storage import Item, Key, TableDefinition
from graphql_api.writes import (
    DIGEST_BYTES,
    LAST_NUMBER,
    WRITE_ID,
    counter_key,
    encode_id,
    item_key,
    parent_keys,
    possible_hash_keys,
    reference_items,
    response_item,
    response_key,
    to_current_item,
    unique_items,
)

SAMPLE_WRITE_ID = "AAAAAAAAAAAAAAAA"
"""a write id of the usual length"""
TRANSACTION_FACTOR = 2
"""factor of a transaction: DynamoDB prepares and then commits each write"""
SAMPLE_EXPIRY = 1_800_000_001
"""an expiry time of the usual length"""

ItemKind = Literal["current record", "unique value", "foreign key", "counter", "kept answer"]


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

    def per_record(self, count: int) -> float:
        """Return a count over all samples as a mean per record."""
        return count / len(self.items)


def constraint_item_capacities(samples: SampleSet) -> tuple[tuple[ConstraintItemCapacity, ...], TransactionUnits]:
    """Return the capacity of the constraint items, and the units of transactions."""
    entity, count = samples.entity, len(samples.items)
    record_units = record_write_units(samples.items, index_capacities(samples.table, samples.items).values())
    create, update, move, remove = record_units.create, record_units.update, record_units.move, record_units.create
    capacities: list[ConstraintItemCapacity] = []
    holders = samples.items
    if entity.current is not None:
        holders = [*_current_records(samples).values()]
        units = record_write_units(holders, index_capacities(samples.table, holders).values())
        capacities.append(_current_record_capacity(samples, holders, units.create))
        create, update, move, remove = (
            create + units.create,
            update + units.update,
            move + units.move,
            remove + units.create,
        )
    for constraint in _constraint_costs(samples, holders):
        capacities.append(constraint.capacity)
        create += constraint.units + constraint.check
        remove += constraint.units
        # Constraint items with expiry are rewritten by every update.
        update += constraint.units + constraint.check if entity.ttl is not None else 0
        move += 2 * constraint.units + constraint.check if constraint.moves else 0
    for part in entity.counters:
        capacity = _counter_capacity(samples, part)
        capacities.append(capacity)
        # The counter is raised before the transaction, by a separate write.
        create += capacity.write_units / TRANSACTION_FACTOR
        if _may_change(entity, [entity.properties[name] for name in part.counter_group or ()]):
            move += capacity.write_units / TRANSACTION_FACTOR
    if entity.children:
        remove += record_units.update  # The delete intent is written before the search for references.
    checks = _count_absence_checks(samples) / count
    create += checks
    remove += checks if entity.current is not None else 0
    response = _stored_response_capacity(samples)
    return (*capacities, response), TransactionUnits(
        create=TRANSACTION_FACTOR * create,
        update=TRANSACTION_FACTOR * update,
        move=TRANSACTION_FACTOR * move,
        remove=TRANSACTION_FACTOR * remove,
        key=response.write_units,
    )


# --- the kinds of items ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ConstraintCost:
    """The mean cost of one constraint per record."""

    capacity: ConstraintItemCapacity
    units: float
    """write units of its item, for the share of records that have one"""
    check: float
    """write units of the check of the referenced record"""
    moves: bool


def _current_records(samples: SampleSet) -> dict[str, Item]:
    """Return the current record of each id among the samples, which is its last entry."""
    entity = samples.entity
    last: dict[str, Entity] = {}
    for record in sorted(samples.records, key=lambda one: value_of(one, entity.sub_ids[0].name)):
        last[encode_id(entity, [value_of(record, part.name) for part in entity.ids])] = record
    return {one: to_current_item(entity, record, samples.tenant, SAMPLE_WRITE_ID) for one, record in last.items()}


def _current_record_capacity(samples: SampleSet, items: Sequence[Item], units: float) -> ConstraintItemCapacity:
    size, indexes = mean_size(items), index_capacities(samples.table, items).values()
    name = samples.entity.current or ""
    share = samples.per_record(len(items))
    return ConstraintItemCapacity(
        "current record", name, share, size, TRANSACTION_FACTOR * units, stored_bytes(size, indexes)
    )


def _constraint_costs(samples: SampleSet, holders: Sequence[Item]) -> Iterator[_ConstraintCost]:
    """Yield the costs of unique values and foreign keys."""
    entity, tenant = samples.entity, samples.tenant
    for unique in entity.unique:
        items = [
            unique_item.item
            for holder in holders
            for unique_item in unique_items(entity, holder, tenant).values()
            if unique_item.unique == unique
        ]
        if items:
            yield _constraint_cost(samples, "unique value", unique.attribute, items, len(holders), unique.parts)
    for foreign_key in entity.foreign_keys:
        items = [
            reference.item
            for holder in holders
            for reference in reference_items(entity, holder, tenant).values()
            if reference.foreign_key == foreign_key
            # A record may reference itself.
            and item_key(holder) not in parent_keys(foreign_key, reference.values, tenant)
        ]
        if items:
            parent_units = write_units(round(samples.parent_bytes.get(foreign_key.parent.name, 1)))
            yield _constraint_cost(
                samples, "foreign key", foreign_key.name, items, len(holders), foreign_key.by, parent_units
            )


def _constraint_cost(
    samples: SampleSet,
    kind: ItemKind,
    name: str,
    items: Sequence[Item],
    holders: int,
    parts: Sequence[PropertySpec],
    parent_units: int = 0,
) -> _ConstraintCost:
    size, units, share = mean_size(items), mean_write_units(items), len(items) / holders
    capacity = ConstraintItemCapacity(
        kind, name, samples.per_record(len(items)), size, TRANSACTION_FACTOR * units, stored_bytes(size, ())
    )
    return _ConstraintCost(capacity, share * units, share * parent_units, _may_change(samples.entity, parts))


def _may_change(entity: EntitySpec, parts: Sequence[PropertySpec]) -> bool:
    immutable_names = {
        part.name for part in (*entity.primary_key, *entity.counters, entity.created) if part is not None
    }
    return any(not part.immutable and part.name not in immutable_names for part in parts)


def _counter_capacity(samples: SampleSet, part: PropertySpec) -> ConstraintItemCapacity:
    entity, tenant = samples.entity, samples.tenant
    groups: dict[Key, int] = {}
    for record in samples.records:
        key = counter_key(entity, part, record, tenant)
        groups[key] = max(value_of(record, part.name) or 1, groups.get(key, 1))
    items = [
        {HASH_ATTRIBUTE: key.hash, RANGE_ATTRIBUTE: key.range, LAST_NUMBER: last, WRITE_ID: SAMPLE_WRITE_ID}
        for key, last in groups.items()
    ]
    size, share = mean_size(items), samples.per_record(len(items))
    return ConstraintItemCapacity("counter", part.name, share, size, mean_write_units(items), stored_bytes(size, ()))


def _stored_response_capacity(samples: SampleSet) -> ConstraintItemCapacity:
    """Return the capacity of the stored response of a request with an idempotency key."""
    key = response_key("", samples.tenant, None)
    ttl = samples.table.ttl_attribute
    items = [
        response_item(key, bytes(DIGEST_BYTES), encode_record(samples.entity, record), SAMPLE_EXPIRY, ttl)
        for record in samples.records
    ]
    size = mean_size(items)
    return ConstraintItemCapacity(
        "kept answer", "", None, size, TRANSACTION_FACTOR * mean_write_units(items), stored_bytes(size, ())
    )


def _count_absence_checks(samples: SampleSet) -> int:
    """Count the absence checks of all samples. Each costs a unit, as for the smallest record."""
    entity = samples.entity
    if len(entity.space.generations) == 1:
        return 0
    ids = [encode_id(entity, [value_of(one, part.name) for part in entity.ids]) for one in samples.records]
    others = sum(len(possible_hash_keys(entity, each, samples.tenant)) - 1 for each in ids)
    return others + (len(ids) if entity.sub_ids and entity.current is None else 0)
