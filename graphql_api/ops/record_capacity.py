"""What records of a catalog cost: bytes, shards, write units and storage, by DynamoDB's rules (docs/capacity.md).

Everything is worked out of sample records as they would be stored, generated attributes and names included.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from graphql_api.errors import InvalidValue
from graphql_api.model import Catalog, Entity, EntitySpec
from graphql_api.ops.constraint_capacity import SOME_WRITE, BesideCapacity, Measured, TransactionUnits, beside
from graphql_api.ops.index_capacity import (
    OVERHEAD_BYTES,
    IndexCapacity,
    WriteUnits,
    entries_of,
    mean_size,
    stored_bytes,
    units_of,
)
from graphql_api.storage import Item, attribute_size, record_size
from graphql_api.writes import item_of

PARTITION_BYTES = 10 * 10**9
"""what lies under one hash key should not pass it"""
DESIGN_STEP = 500
"""design sizes are multiples of it"""


@dataclass(frozen=True, slots=True)
class AttributeCapacity:
    """One attribute: its bytes are the mean over all sample records, 0 where one lacks it."""

    name: str
    example: str
    bytes: float
    share: float
    """of the sample records that have it"""
    generated: bool
    """no property: written by an index, or for the table's own use"""


@dataclass(frozen=True, slots=True)
class Storage:
    """What is stored and billed, with the overhead of each record and index entry."""

    table_bytes: float
    """of one record"""
    all_bytes: float
    """of one record with its index entries and its part of what stands beside records"""
    total_bytes: int | None
    """of all records with all of that"""

    @property
    def multiplier(self) -> float:
        """How many times a record is stored, by bytes."""
        return self.all_bytes / self.table_bytes


@dataclass(frozen=True, slots=True)
class EntityCapacity:
    """What records of one entity cost."""

    entity: str
    source: str
    """where the sample records are from"""
    sampled: int
    attributes: tuple[AttributeCapacity, ...]
    bytes: float
    largest: int
    design_bytes: int
    records_per_partition: int
    records: int | None
    """so many are planned"""
    shards: int
    """of the newest generation"""
    shards_needed: int | None
    indexes: tuple[IndexCapacity, ...]
    write_units: WriteUnits
    beside: tuple[BesideCapacity, ...]
    """what stands beside the records"""
    transaction: TransactionUnits
    is_put_plainly: bool
    """`put` and `load` write it outside of transactions"""
    storage: Storage
    findings: tuple[str, ...]


def entity_capacity(
    catalog: Catalog,
    entity: EntitySpec,
    samples: Sequence[Entity],
    source: str,
    *,
    records: int | None = None,
    design_bytes: int | None = None,
    tenant: str | None = None,
    parent_bytes: Mapping[str, float] | None = None,
) -> EntityCapacity:
    """What so many records like these samples cost, counted with the design size (see `design_size`) or a given one.

    `parent_bytes`: mean sizes of the records that they name by foreign keys, by the names of entities.
    """
    if not samples:
        raise InvalidValue(f"There is no sample record of {entity.type_name}: give at least one.")
    items = stored_items(entity, samples, tenant)
    table = catalog.table_definition()
    mean = mean_size(items)
    design = design_size(mean) if design_bytes is None else design_bytes
    indexes = entries_of(table, items)
    found, transaction = beside(Measured(entity, table, samples, items, tenant, parent_bytes or {}))
    all_stored = stored_bytes(mean, indexes.values()) + sum((one.share or 0) * one.stored_bytes for one in found)
    # Current records lie where their entries do, and fill the same indexes.
    together = 1 + sum(one.share or 0 for one in found if one.kind == "current record")
    lying = None if records is None else ceil(records * together)
    return EntityCapacity(
        entity=entity.type_name,
        source=source,
        sampled=len(items),
        attributes=_attributes(entity, items),
        bytes=mean,
        largest=max(map(record_size, items)),
        design_bytes=design,
        records_per_partition=records_per_partition(design),
        records=records,
        shards=entity.space.generations[-1].size,
        shards_needed=None if lying is None else shards_for(lying, design),
        indexes=tuple(indexes.values()),
        write_units=units_of(items, indexes.values()),
        beside=found,
        transaction=transaction,
        is_put_plainly=entity.current is None and not entity.is_constrained,
        storage=Storage(mean + OVERHEAD_BYTES, all_stored, None if records is None else ceil(records * all_stored)),
        findings=() if lying is None else tuple(_findings(entity, lying, design, mean, indexes)),
    )


def stored_items(entity: EntitySpec, records: Sequence[Entity], tenant: str | None) -> Sequence[Item]:
    """Records as they would be stored."""
    return [item_of(entity, record, tenant, SOME_WRITE) for record in records]


# --- the arithmetic --------------------------------------------------------------------------------------------


def design_size(size: float) -> int:
    """What to plan with: half as much again, for longer values and properties to come, up to the next 500 bytes."""
    return ceil(size * 1.5 / DESIGN_STEP) * DESIGN_STEP


def records_per_partition(size: int) -> int:
    """How many records of a size fit in a partition."""
    return PARTITION_BYTES // size


def shards_for(records: int, size: int) -> int:
    """Over how many hash keys so many records of a size have to lie, so that none passes a partition."""
    return max(1, -(-records // records_per_partition(size)))


# --- the parts of the report -----------------------------------------------------------------------------------


def _attributes(entity: EntitySpec, items: Sequence[Item]) -> tuple[AttributeCapacity, ...]:
    """All attributes: properties in declared order, then what is generated."""
    sizes: dict[str, list[int]] = defaultdict(list)
    examples: dict[str, Any] = {}
    for item in items:
        for name, value in item.items():
            sizes[name].append(attribute_size(name, value))
            examples.setdefault(name, value)
    places = {part.stored: place for place, part in enumerate(entity.properties.values())}
    return tuple(
        AttributeCapacity(
            name=name,
            example=str(examples[name]),
            bytes=sum(found) / len(items),
            share=len(found) / len(items),
            generated=name not in places,
        )
        for name, found in sorted(sizes.items(), key=lambda one: places.get(one[0], len(places)))
    )


def _findings(
    entity: EntitySpec, records: int, design: int, mean: float, indexes: Mapping[str, IndexCapacity]
) -> Iterator[str]:
    """Where the declared shards are too few."""
    shards, needed = entity.space.generations[-1].size, shards_for(records, design)
    if shards < needed:
        yield (
            f"{entity.type_name} has {_shards(shards)} and needs {needed:,} for {records:,} records of {design:,} "
            "bytes: declare more, or add a generation with then(…)."
        )
    for index in entity.indexes.values():
        filled = indexes.get(index.physical or "")
        if filled is None or index.hash or index.space == entity.space:
            continue  # The entity's shards are enough for whatever an index carries of its records.
        entries, size = ceil(records * filled.share), ceil(filled.bytes * design / mean)
        shards, needed = index.space.generations[-1].size, shards_for(entries, size)
        if shards < needed:
            yield (
                f"{entity.type_name}.{index.attribute} has {_shards(shards)} and needs {needed:,} for {entries:,} "
                f"entries of {size:,} bytes: give it the shards of its entity, or hash properties."
            )


def _shards(count: int) -> str:
    return "one shard" if count == 1 else f"{count:,} shards"
