"""Sizes of index entries, and the capacity units of writing them, by the rules of DynamoDB."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graphql_api.storage import IndexDefinition, Item, TableDefinition, record_size

WRITE_UNIT_BYTES = 1024
"""bytes per write unit"""
STORAGE_OVERHEAD_BYTES = 100
"""storage overhead per record, in the table and in each index"""


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


def write_units(size: int) -> int:
    """Return the write units of writing `size` bytes."""
    return max(1, -(-size // WRITE_UNIT_BYTES))


def mean_write_units(items: Sequence[Item]) -> float:
    """Return the mean write units of an item in the table alone."""
    return sum(write_units(record_size(item)) for item in items) / len(items)


def mean_size(items: Sequence[Item]) -> float:
    """Return the mean size of an item in bytes."""
    return sum(map(record_size, items)) / len(items)


def index_entry(table: TableDefinition, index: IndexDefinition, item: Item) -> Item | None:
    """Return the entry of a record in an index, or None if the index does not contain it."""
    keys = (index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute)
    if any(name not in item for name in keys):
        return None
    if index.projection == "ALL":
        return item
    projected = {*keys, *(() if index.projection == "KEYS_ONLY" else index.projection)}
    return {name: value for name, value in item.items() if name in projected}


def index_capacities(table: TableDefinition, items: Sequence[Item]) -> Mapping[str, IndexCapacity]:
    """Return the capacity of each index by name, without indexes that contain none of the records."""
    capacities = ((index.name, _index_capacity(table, index, items)) for index in table.indexes)
    return {name: index for name, index in capacities if index is not None}


def record_write_units(items: Sequence[Item], indexes: Collection[IndexCapacity]) -> WriteUnits:
    """Return the mean write units of a record with its index entries."""
    table = mean_write_units(items)
    entries = sum(index.share * index.write_units for index in indexes)
    # Every write changes `_w`, which indexes that project all attributes contain.
    always_written = sum(index.share * index.write_units for index in indexes if index.projection == "ALL")
    return WriteUnits(create=table + entries, update=table + always_written, move=table + 2 * entries)


def stored_bytes(size: float, indexes: Collection[IndexCapacity]) -> float:
    """Return the stored bytes of a record of this size with its entries."""
    return (
        size + STORAGE_OVERHEAD_BYTES + sum(index.share * (index.bytes + STORAGE_OVERHEAD_BYTES) for index in indexes)
    )


def _index_capacity(table: TableDefinition, index: IndexDefinition, items: Sequence[Item]) -> IndexCapacity | None:
    entries = [entry for item in items if (entry := index_entry(table, index, item)) is not None]
    if not entries:
        return None
    return IndexCapacity(
        name=index.name,
        projection="INCLUDE" if isinstance(index.projection, tuple) else index.projection,
        share=len(entries) / len(items),
        bytes=mean_size(entries),
        write_units=mean_write_units(entries),
    )
