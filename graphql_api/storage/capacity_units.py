"""Capacity units by the rules of DynamoDB: what a request charges, and the most that it can charge."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from graphql_api.storage.item_rules import MAX_RECORD_BYTES, record_size
from graphql_api.storage.request_checks import MAX_RANGE_BYTES
from graphql_api.storage.table_definitions import key_attributes, projected_attributes
from graphql_api.storage.values import (
    Check,
    IndexDefinition,
    Item,
    Key,
    Put,
    RangeRead,
    TableDefinition,
    TransactionWrite,
)

READ_UNIT_BYTES = 4096
"""bytes per read unit"""
WRITE_UNIT_BYTES = 1024
"""bytes per write unit"""
PAGE_BYTES = 1024 * 1024
"""a page of a range read ends after the record that exceeds this size"""
TRANSACTION_FACTOR = 2
"""factor of a transaction: DynamoDB prepares and then commits each write"""


@dataclass(frozen=True, slots=True)
class UnitEstimate:
    """The capacity units that a search or write charges, before it runs."""

    least: float
    expected: float
    most: float

    def describe(self) -> dict[str, float]:
        """Return the estimate for explain output and errors."""
        return {"least": self.least, "expected": self.expected, "most": self.most}


def sum_of_estimates(estimates: Iterable[UnitEstimate]) -> UnitEstimate:
    """Return the estimate of several reads or writes together."""
    parts = [*estimates]
    return UnitEstimate(
        sum(one.least for one in parts), sum(one.expected for one in parts), sum(one.most for one in parts)
    )


# --- what a request charges ------------------------------------------------------------------------------------


def read_units(size: int, *, consistent: bool = False) -> float:
    """Return the read units for a read of `size` bytes: half a unit per started 4 KB, at least half a unit."""
    return _units_of_blocks(max(1, -(-size // READ_UNIT_BYTES)), consistent=consistent)


def write_units(size: int) -> int:
    """Return the write units of writing `size` bytes."""
    return max(1, -(-size // WRITE_UNIT_BYTES))


def index_entry(table: TableDefinition, index: IndexDefinition, item: Item) -> Item | None:
    """Return the entry of a record in an index, or None if the index does not contain it."""
    if index.hash_attribute not in item or index.range_attribute not in item:
        return None
    projected = projected_attributes(table, index)
    return item if projected is None else {name: value for name, value in item.items() if name in projected}


def change_units(table: TableDefinition, old: Item | None, new: Item | None) -> int:
    """Return the write units of replacing an item in the table and in its indexes. None: there is no item."""
    units = write_units(max(record_size(item) for item in (old or {}, new or {})))
    for index in table.indexes:
        entries = [entry for item in (old, new) if item is not None and (entry := index_entry(table, index, item))]
        if len(entries) == 2 and entries[0] == entries[1]:
            continue
        sizes = [*map(record_size, entries)]
        if len(entries) == 2 and all(entries[0][name] == entries[1][name] for name in key_attributes(table, index)):
            sizes = [max(sizes)]
        units += sum(map(write_units, sizes))
    return units


# --- the most that a request can charge ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemBound:
    """What is known of an item before it is read."""

    max_bytes: int
    indexes: Sequence[IndexDefinition] = ()
    """the indexes that may contain it"""


BoundOf = Callable[[str], ItemBound]
"""returns the bound of the items with a hash key"""

ANY_ITEM = ItemBound(MAX_RECORD_BYTES)

_bounds: ContextVar[BoundOf | None] = ContextVar("bounds of items", default=None)


@contextmanager
def bounded_items(bound_of: BoundOf) -> Iterator[None]:
    """Let the engine know the bounds of items within the block."""
    token = _bounds.set(bound_of)
    try:
        yield
    finally:
        _bounds.reset(token)


def current_bounds() -> BoundOf:
    """Return the bounds of items; without any, every item may have the size that engines accept."""
    return _bounds.get() or (lambda _: ANY_ITEM)


def most_queries(read: RangeRead) -> int:
    """Return how many requests a range read may need: a second one if rows at an open bound fill the first one."""
    key_range = read.range
    if key_range.low is None or key_range.high is None:
        return 1
    if read.descending:
        return 2 if key_range.high_open else 1
    low = key_range.low
    is_exact = isinstance(low, str) and len(low.encode()) < MAX_RANGE_BYTES
    return 2 if key_range.low_open and not is_exact else 1


def most_of_ranges(reads: Iterable[RangeRead]) -> float:
    """Return the most units of range reads in one call, whichever shards their rows come from.

    Each request starts at most one more block of 4 KB than its bytes fill.
    """
    blocks = size = 0
    consistent = False
    for read in reads:
        queries = most_queries(read)
        blocks += queries
        size += queries * min(read.limit * read.row_bytes, PAGE_BYTES + read.row_bytes)
        consistent |= read.consistent
    return _units_of_blocks(blocks + size // READ_UNIT_BYTES, consistent=consistent)


def most_of_query(read: RangeRead) -> float:
    """Return the most units of one request of a range read."""
    size = min(read.limit * read.row_bytes, PAGE_BYTES + read.row_bytes)
    return _units_of_blocks(1 + size // READ_UNIT_BYTES, consistent=read.consistent)


def most_of_keys(keys: Iterable[Key], bound_of: BoundOf, *, consistent: bool) -> float:
    """Return the most units of reading records by key."""
    return sum(read_units(bound_of(key.hash).max_bytes, consistent=consistent) for key in {*keys})


def most_of_writes(
    table: TableDefinition, writes: Iterable[TransactionWrite], bound_of: BoundOf, *, together: bool
) -> float:
    """Return the most units of writes, `together` in one transaction.

    Otherwise an engine may send those with conditions in transactions.
    """
    units = 0
    for write in writes:
        is_transaction = together or write.expect is not None
        units += (TRANSACTION_FACTOR if is_transaction else 1) * _most_of_write(table, write, bound_of)
    return units


def _most_of_write(table: TableDefinition, write: TransactionWrite, bound_of: BoundOf) -> int:
    is_put, is_absent = isinstance(write, Put), write.expect is not None and write.expect.absent
    item = write.item if isinstance(write, Put) else {}
    bound = bound_of(item[table.hash_attribute] if isinstance(write, Put) else write.key.hash)
    stored = write_units(bound.max_bytes)
    if isinstance(write, Check):
        return stored
    if is_put and is_absent:
        # A write whose condition fails is charged like a write of the stored item to the table.
        return max(stored, change_units(table, None, item))
    created = change_units(table, None, item) - write_units(record_size(item)) if is_put else 0
    return max(stored, write_units(record_size(item))) + created + stored * len(bound.indexes)


def _units_of_blocks(blocks: int, *, consistent: bool) -> float:
    return float(blocks) if consistent else blocks / 2
