"""What records of a catalog cost: bytes, shards, write units and storage, by DynamoDB's rules (docs/capacity.md).

Everything is worked out of sample records as they would be stored, generated attributes and names included.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from graphql_api.catalog.catalog import Catalog
from graphql_api.catalog.entity import Entity
from graphql_api.catalog.specs import EntitySpec
from graphql_api.errors import InvalidValue
from graphql_api.mutations.item_keys import item_of
from graphql_api.store.sizes import attribute_size, record_size
from graphql_api.store.values import IndexDefinition, Item, TableDefinition

PARTITION_BYTES = 10 * 10**9
"""what lies under one hash key should not pass it"""
UNIT_BYTES = 1024
"""of a write unit"""
OVERHEAD_BYTES = 100
"""what storage counts on top of each record, in the table and in each index"""
DESIGN_STEP = 500
"""design sizes are multiples of it"""
SOME_WRITE = "AAAAAAAAAAAAAAAA"
"""as long as the name of every write"""


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
class IndexCapacity:
    """One physical index as the records of an entity fill it."""

    name: str
    projection: str
    share: float
    """of the sample records that have an entry"""
    bytes: float
    """of an entry"""
    write_units: float
    """of one write of an entry"""


@dataclass(frozen=True, slots=True)
class WriteUnits:
    """Capacity units of writing one record, over the table and all indexes, outside of transactions."""

    create: float
    update: float
    """a change that moves the record in no index; those that carry everything are written all the same"""
    move: float
    """a change of every index's key: the old entry is removed, the new one written"""


@dataclass(frozen=True, slots=True)
class Storage:
    """What is stored and billed, with the overhead of each record and index entry."""

    table_bytes: float
    """of one record"""
    all_bytes: float
    """of one record with its index entries"""
    total_bytes: int | None
    """of all records with their index entries"""

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
) -> EntityCapacity:
    """What so many records like these samples cost, counted with the design size (see `design_size`) or a given one."""
    if not samples:
        raise InvalidValue(f"There is no sample record of {entity.type_name}: give at least one.")
    items = [item_of(entity, record, tenant, SOME_WRITE) for record in samples]
    table = catalog.table_definition()
    mean = sum(map(record_size, items)) / len(items)
    design = design_size(mean) if design_bytes is None else design_bytes
    indexes = {index.name: found for index in table.indexes if (found := _index(table, index, items)) is not None}
    table_units = sum(write_units(record_size(item)) for item in items) / len(items)
    stored = mean + OVERHEAD_BYTES
    all_stored = stored + sum(index.share * (index.bytes + OVERHEAD_BYTES) for index in indexes.values())
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
        shards_needed=None if records is None else shards_for(records, design),
        indexes=tuple(indexes.values()),
        write_units=_write_units(table_units, indexes.values()),
        storage=Storage(stored, all_stored, None if records is None else ceil(records * all_stored)),
        findings=() if records is None else tuple(_findings(entity, records, design, mean, indexes)),
    )


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


def write_units(size: int) -> int:
    """The capacity units of writing so many bytes."""
    return max(1, -(-size // UNIT_BYTES))


def index_entry(table: TableDefinition, index: IndexDefinition, item: Item) -> Item | None:
    """What an index keeps of a record, or None where it has no place for it."""
    keys = (index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute)
    if any(name not in item for name in keys):
        return None
    if index.projection == "ALL":
        return item
    carried = {*keys, *(() if index.projection == "KEYS_ONLY" else index.projection)}
    return {name: value for name, value in item.items() if name in carried}


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


def _index(table: TableDefinition, index: IndexDefinition, items: Sequence[Item]) -> IndexCapacity | None:
    """What the records fill an index with; None where it holds none of them."""
    entries = [entry for item in items if (entry := index_entry(table, index, item)) is not None]
    if not entries:
        return None
    sizes = [record_size(entry) for entry in entries]
    return IndexCapacity(
        name=index.name,
        projection="INCLUDE" if isinstance(index.projection, tuple) else index.projection,
        share=len(entries) / len(items),
        bytes=sum(sizes) / len(sizes),
        write_units=sum(map(write_units, sizes)) / len(sizes),
    )


def _write_units(table: float, indexes: Collection[IndexCapacity]) -> WriteUnits:
    entries = sum(index.share * index.write_units for index in indexes)
    # Every write gives a record another `_w`, which an index that carries everything shows.
    touched = sum(index.share * index.write_units for index in indexes if index.projection == "ALL")
    return WriteUnits(create=table + entries, update=table + touched, move=table + 2 * entries)


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
