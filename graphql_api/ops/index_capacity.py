"""What physical indexes keep of records, and the capacity units of writing that, by DynamoDB's rules."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from graphql_api.storage import IndexDefinition, Item, TableDefinition, record_size

UNIT_BYTES = 1024
"""of a write unit"""
OVERHEAD_BYTES = 100
"""what storage counts on top of each record, in the table and in each index"""


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


def write_units(size: int) -> int:
    """The capacity units of writing so many bytes."""
    return max(1, -(-size // UNIT_BYTES))


def mean_units(items: Sequence[Item]) -> float:
    """The units of writing one of these to the table alone."""
    return sum(write_units(record_size(item)) for item in items) / len(items)


def mean_size(items: Sequence[Item]) -> float:
    """The bytes of one of these."""
    return sum(map(record_size, items)) / len(items)


def index_entry(table: TableDefinition, index: IndexDefinition, item: Item) -> Item | None:
    """What an index keeps of a record, or None where it has no place for it."""
    keys = (index.hash_attribute, index.range_attribute, table.hash_attribute, table.range_attribute)
    if any(name not in item for name in keys):
        return None
    if index.projection == "ALL":
        return item
    carried = {*keys, *(() if index.projection == "KEYS_ONLY" else index.projection)}
    return {name: value for name, value in item.items() if name in carried}


def entries_of(table: TableDefinition, items: Sequence[Item]) -> Mapping[str, IndexCapacity]:
    """What records fill each index with, by its name; of one that holds none of them nothing."""
    found = ((index.name, _index(table, index, items)) for index in table.indexes)
    return {name: index for name, index in found if index is not None}


def units_of(items: Sequence[Item], indexes: Collection[IndexCapacity]) -> WriteUnits:
    """What it takes to write one of these records with its entries."""
    table = mean_units(items)
    entries = sum(index.share * index.write_units for index in indexes)
    # Every write gives a record another `_w`, which an index that carries everything shows.
    touched = sum(index.share * index.write_units for index in indexes if index.projection == "ALL")
    return WriteUnits(create=table + entries, update=table + touched, move=table + 2 * entries)


def stored_bytes(size: float, indexes: Collection[IndexCapacity]) -> float:
    """What storage counts for a record of this size with its entries."""
    return size + OVERHEAD_BYTES + sum(index.share * (index.bytes + OVERHEAD_BYTES) for index in indexes)


def _index(table: TableDefinition, index: IndexDefinition, items: Sequence[Item]) -> IndexCapacity | None:
    entries = [entry for item in items if (entry := index_entry(table, index, item)) is not None]
    if not entries:
        return None
    return IndexCapacity(
        name=index.name,
        projection="INCLUDE" if isinstance(index.projection, tuple) else index.projection,
        share=len(entries) / len(items),
        bytes=mean_size(entries),
        write_units=mean_units(entries),
    )
