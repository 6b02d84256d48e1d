"""Capacity of the records of a catalog: bytes, shards, write units and storage (docs/reference/capacity.md).

All values are computed by the rules of DynamoDB from sample records in stored form, including generated attributes and
attribute names.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import ceil
from typing import Any, get_args, get_origin

from pydantic import BaseModel, RootModel

from graphql_api.codecs import Text
from graphql_api.errors import InvalidRecord, InvalidValue
from graphql_api.model import Catalog, Entity, EntitySpec, parse_annotation
from graphql_api.ops.item_capacity import (
    SAMPLE_WRITE_ID,
    STORAGE_OVERHEAD_BYTES,
    ConstraintItemCapacity,
    IndexCapacity,
    SampleSet,
    TransactionUnits,
    WriteUnits,
    constraint_item_capacities,
    index_capacities,
    mean_size,
    record_write_units,
    stored_bytes,
)
from graphql_api.storage import Item, attribute_size, record_size
from graphql_api.writes import to_item

PARTITION_BYTES = 10 * 10**9
"""maximum size of all records with one hash key"""
DESIGN_STEP = 500
"""design sizes are multiples of this"""
TYPICAL_BYTES = bytes(100)
TYPICAL_ELEMENTS = 3
"""elements of a list"""
MAX_NESTING = 3
"""nesting of models in a typical record"""


@dataclass(frozen=True, slots=True)
class AttributeCapacity:
    """One attribute. Its bytes are the mean over all sample records, with 0 for records without it."""

    name: str
    example: str
    bytes: float
    share: float
    """share of the sample records with the attribute"""
    generated: bool
    """not a property: generated for an index or for internal use"""


@dataclass(frozen=True, slots=True)
class Storage:
    """Stored bytes, including the overhead of each record and index entry."""

    table_bytes: float
    """bytes of one record in the table"""
    all_bytes: float
    """bytes of one record with its index entries and its share of constraint items"""
    total_bytes: int | None
    """bytes of all records with these"""
    multiplier: float
    """ratio of all stored bytes to the bytes in the table"""


@dataclass(frozen=True, slots=True)
class EntityCapacity:
    """The capacity of the records of one entity."""

    entity: str
    source: str
    """origin of the sample records"""
    sampled: int
    attributes: tuple[AttributeCapacity, ...]
    bytes: float
    largest: int
    design_bytes: int
    records_per_partition: int
    records: int | None
    """planned number of records"""
    shards: int
    """shards of the newest generation"""
    shards_needed: int | None
    indexes: tuple[IndexCapacity, ...]
    write_units: WriteUnits
    constraint_items: tuple[ConstraintItemCapacity, ...]
    """capacity of the constraint items"""
    transaction: TransactionUnits
    is_put_plainly: bool
    """`put` and `load` write it outside transactions"""
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
    """Return the capacity of `records` records like the samples.

    Shards are planned with `design_bytes`, or with the design size (see `design_size`). `parent_bytes` has the mean
    sizes of the records that foreign keys reference, by entity name.
    """
    if not samples:
        raise InvalidValue(f"There is no sample record of {entity.type_name}. Provide at least one.")
    items = stored_items(entity, samples, tenant)
    table = catalog.table_definition()
    mean = mean_size(items)
    design = design_size(mean) if design_bytes is None else design_bytes
    indexes = index_capacities(table, items)
    constraint_items, transaction = constraint_item_capacities(
        SampleSet(entity, table, samples, items, tenant, parent_bytes or {})
    )
    all_stored = stored_bytes(mean, indexes.values()) + sum(
        (one.share or 0) * one.stored_bytes for one in constraint_items
    )
    table_bytes, total_bytes = mean + STORAGE_OVERHEAD_BYTES, None if records is None else ceil(records * all_stored)
    # Current records have the hash keys of their entries, and fill the same indexes.
    records_per_entry = 1 + sum(one.share or 0 for one in constraint_items if one.kind == "current record")
    stored_records = None if records is None else ceil(records * records_per_entry)
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
        shards_needed=None if stored_records is None else shards_for(stored_records, design),
        indexes=tuple(indexes.values()),
        write_units=record_write_units(items, indexes.values()),
        constraint_items=constraint_items,
        transaction=transaction,
        is_put_plainly=entity.current is None and not entity.is_constrained,
        storage=Storage(table_bytes, all_stored, total_bytes, all_stored / table_bytes),
        findings=() if stored_records is None else tuple(_findings(entity, stored_records, design, mean, indexes)),
    )


def stored_items(entity: EntitySpec, records: Sequence[Entity], tenant: str | None) -> Sequence[Item]:
    """Return records in stored form."""
    return [to_item(entity, record, tenant, SAMPLE_WRITE_ID) for record in records]


# --- planning --------------------------------------------------------------------------------------------------


def design_size(size: float) -> int:
    """Return the record size to plan with: 1.5 times the size, for future growth, rounded up to 500 bytes."""
    return ceil(size * 1.5 / DESIGN_STEP) * DESIGN_STEP


def records_per_partition(size: int) -> int:
    """Return the number of records of a size that fit in a partition."""
    return PARTITION_BYTES // size


def shards_for(records: int, size: int) -> int:
    """Return the number of hash keys for records of a size, so that each fits in a partition."""
    return max(1, -(-records // records_per_partition(size)))


# --- the parts of the report -----------------------------------------------------------------------------------


def _attributes(entity: EntitySpec, items: Sequence[Item]) -> tuple[AttributeCapacity, ...]:
    """Return all attributes: properties in declared order, then generated attributes."""
    sizes: dict[str, list[int]] = defaultdict(list)
    examples: dict[str, Any] = {}
    for item in items:
        for name, value in item.items():
            sizes[name].append(attribute_size(name, value))
            examples.setdefault(name, value)
    positions = {part.stored: position for position, part in enumerate(entity.properties.values())}
    return tuple(
        AttributeCapacity(
            name=name,
            example=str(examples[name]),
            bytes=sum(attribute_sizes) / len(items),
            share=len(attribute_sizes) / len(items),
            generated=name not in positions,
        )
        for name, attribute_sizes in sorted(sizes.items(), key=lambda one: positions.get(one[0], len(positions)))
    )


def _findings(
    entity: EntitySpec, records: int, design: int, mean: float, indexes: Mapping[str, IndexCapacity]
) -> Iterator[str]:
    """Yield the entities and indexes with too few declared shards."""
    remedy = "Declare more shards, or add a generation with then(…)."
    plans = [(entity.type_name, entity.space, "records", records, design, remedy)]
    for index in entity.indexes.values():
        filled = indexes.get(index.physical or "")
        if filled is not None and not index.hash and index.space != entity.space:
            # Otherwise the shards of the entity are sufficient for any projection of its records.
            name, count, size = f"{entity.type_name}.{index.attribute}", records * filled.share, filled.bytes * design
            remedy = "Use the shards of its entity, or hash properties."
            plans.append((name, index.space, "entries", ceil(count), ceil(size / mean), remedy))
    for name, space, items, count, size, remedy in plans:
        shards, needed = space.generations[-1].size, shards_for(count, size)
        if shards < needed:
            declared = "one shard" if shards == 1 else f"{shards:,} shards"
            yield f"{name} has {declared} and needs {needed:,} for {count:,} {items} of {size:,} bytes. {remedy}"


# --- typical records, for entities without sample records -------------------------------------------------------


def typical_record(entity: EntitySpec) -> Entity:
    """Return a record with a typical value for every property, including nullable ones."""
    fields = entity.model.model_fields
    values = {
        part.name: typical_value(fields[part.name].annotation, fields[part.name].metadata)
        for part in entity.properties.values()
        if part.function is None
    }
    record = entity.model.model_construct(**values)
    try:
        record.compute_derived()
    except Exception as problem:  # the functions belong to the author of the catalog
        raise InvalidRecord(
            f"A typical {entity.type_name} cannot be created, because a derived property cannot be computed "
            f"({type(problem).__name__}: {problem}). Provide sample records."
        ) from problem
    return record


def typical_value(annotation: Any, marks: Any = (), depth: int = 0) -> Any:
    """Return a typical value of a type."""
    read = parse_annotation(annotation, marks)
    if read.codec is not None:
        return read.codec.samples.typical
    kind = read.types[0] if read.types else None
    origin = get_origin(kind) or kind
    if not isinstance(origin, type):
        return Text.samples.typical
    arguments = [part for part in get_args(kind) if part is not Ellipsis] or [str, str]
    if issubclass(origin, RootModel):
        return typical_value(origin.model_fields["root"].annotation, depth=depth)
    if issubclass(origin, BaseModel):
        if depth == MAX_NESTING:
            return None
        fields = origin.model_fields.items()
        values = {name: typical_value(field.annotation, field.metadata, depth + 1) for name, field in fields}
        return origin.model_construct(**values)
    if issubclass(origin, bytes):
        return TYPICAL_BYTES
    if issubclass(origin, Mapping):
        return {typical_value(arguments[0], depth=depth): typical_value(arguments[-1], depth=depth)}
    if issubclass(origin, AbstractSet):
        return frozenset({typical_value(arguments[0], depth=depth)})
    if issubclass(origin, list | tuple):
        return [typical_value(arguments[0], depth=depth)] * TYPICAL_ELEMENTS
    return Text.samples.typical
