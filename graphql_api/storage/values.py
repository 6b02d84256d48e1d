"""Frozen values that the storage port takes and returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.errors import StoreError

AttributeValue = Any
"""str, int, Decimal, bytes, bool, None, list, dict with text keys, or a non-empty frozenset of str, numbers, bytes"""

Item = Mapping[str, AttributeValue]
"""A stored record: attribute names and values, including the key attributes."""


RangeType = Literal["S", "N"]
"""The type of range values: text or number."""


class Key(NamedTuple):
    """The primary key of a record in the table."""

    hash: str
    range: str


class Position(NamedTuple):
    """A position in an ordered result: range value, then shard ordinal, at the record with this key."""

    value: RangeValue
    ordinal: int
    key: Key


# --- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartKey:
    """An exclusive start key: the read continues after this row, even if the row no longer exists."""

    value: RangeValue
    key: Key


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """A test of one attribute by one of `ATTRIBUTE_OPERATIONS`."""

    attribute: str
    operation: str
    values: tuple[AttributeValue, ...]
    or_missing: bool
    """true also for a record without the attribute"""


@dataclass(frozen=True, slots=True)
class AllOf:
    """A conjunction of filters."""

    parts: "tuple[StoreFilter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction of filters."""

    parts: "tuple[StoreFilter, ...]"


StoreFilter = AttributeTest | AllOf | AnyOf


class RangeRead(NamedTuple):
    """A read of one range of one hash key, in order, that examines about `limit` rows at most.

    A search makes several for each shard, so it is a named tuple, which is copied five times as fast as a data class.

    `limit` and `RowPage.records_read` also count the rows that the filter excludes. `ordinal` orders rows of different
    shards that have equal range values. It is unique within a call and ascends with the text of the shard.
    """

    index: str | None  # type: ignore[assignment]  # hides the method of tuples
    hash_key: str
    ordinal: int
    range: KeyRange
    limit: int
    descending: bool = False
    start: StartKey | None = None
    consistent: bool = False
    """return every acknowledged write; only for reads of the table, as index reads are eventually consistent"""
    filter: StoreFilter | None = None
    """the engine may omit rows that do not match: it tests what it supports, and the caller tests everything"""
    attributes: frozenset[str] | None = None
    """attributes needed besides the keys, others may be missing; None: all attributes that the index projects"""
    row_bytes: int = 400 * 1024
    """the most bytes of a row, from which the most capacity units of the read follow"""


ColumnReader = Callable[[str], list[AttributeValue]]
"""Returns the value of an attribute of each body; None also for a body that lacks it"""


@dataclass(frozen=True, slots=True, eq=False)
class BodyFormat:
    """How the records of rows are encoded."""

    decode: Callable[[Any], Item]
    """decodes a body"""
    columns: Callable[[Sequence[Any]], ColumnReader]
    """returns a reader of single attributes of several bodies, which decodes no others"""


PLAIN = BodyFormat(lambda item: item, lambda items: lambda name: [item.get(name) for item in items])
"""The format of records that are decoded already"""


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Records of one format, which are decoded as far as they are needed."""

    bodies: Sequence[Any]
    format: BodyFormat = PLAIN

    @classmethod
    def joined(cls, parts: "Sequence[EncodedRecords]") -> "EncodedRecords":
        """Return the records of all parts."""
        formats = {part.format for part in parts}
        if len(formats) == 1:
            return cls([*chain.from_iterable(part.bodies for part in parts)], formats.pop())
        return cls([*chain.from_iterable(part.items() for part in parts)])

    def __len__(self) -> int:
        return len(self.bodies)

    def item(self, at: int) -> Item:
        """Decode one record."""
        return self.format.decode(self.bodies[at])

    def items(self) -> Sequence[Item]:
        """Decode all records."""
        return [*map(self.format.decode, self.bodies)]

    def columns(self) -> ColumnReader:
        """Return a reader of single attributes."""
        return self.format.columns(self.bodies)


@dataclass(slots=True, eq=False, repr=False)
class Row:
    """A row of a page. The record is decoded on first access to `item`."""

    value: RangeValue
    ordinal: int
    key: Key
    _body: Any
    _format: BodyFormat = PLAIN
    _item: Item | None = field(default=None, init=False)

    @property
    def position(self) -> Position:
        return Position(self.value, self.ordinal, self.key)

    @property
    def item(self) -> Item:
        if self._item is None:
            self._item = self._format.decode(self._body)
        return self._item

    @staticmethod
    def bodies(rows: "Sequence[Row]") -> EncodedRecords:
        """Return the records of several rows."""
        formats = {row._format for row in rows}  # noqa: SLF001 - of this class
        if len(formats) == 1:
            return EncodedRecords([row._body for row in rows], formats.pop())  # noqa: SLF001
        return EncodedRecords([row.item for row in rows])


@dataclass(frozen=True, slots=True)
class RowPage:
    """The rows of a read. They are complete up to and including `scanned_to`; None means the end of the range.

    Every page makes progress: it has rows, or a `scanned_to` within the range, or None. A page may have a `scanned_to`
    although no further rows exist. `records_read` is the number of rows that the engine examined.
    """

    rows: Sequence[Row]
    scanned_to: Position | None
    records_read: int
    size: int = 0
    """bytes of the rows, as the engine sent or stored them"""


ReadResult = RowPage | StoreError
"""The result of one read. A failing shard does not fail the other reads of the call."""


# --- writing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expect:
    """The condition of a write: no record exists, or a record exists that has these values and lacks those attributes.

    Without arguments, any existing record satisfies it.
    """

    absent: bool = False
    """no record exists at the key; excludes the other two fields"""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """a record exists and has these values"""
    without: tuple[str, ...] = ()
    """a record exists and has none of these attributes, not even as null"""


@dataclass(frozen=True, slots=True)
class Put:
    """Write a record, replacing the record at its key."""

    item: Item
    expect: Expect | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the record at a key, if it exists."""

    key: Key
    expect: Expect | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing; the transaction succeeds only if the condition holds."""

    key: Key
    expect: Expect


Write = Put | Delete

TransactionWrite = Write | Check
"""one element of a transaction"""


@dataclass(frozen=True, slots=True)
class ScanPage:
    """A page of a table scan. `after` is the start key of the next page, or None at the end."""

    items: Sequence[Item]
    after: Key | None


# --- the table -------------------------------------------------------------------------------------------------

Projection = Literal["ALL", "KEYS_ONLY"] | tuple[str, ...]
"""Which attributes an index projects: all of them, only the keys, or the keys and these attributes."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """A physical index. It contains every record that has both index attributes."""

    name: str
    hash_attribute: str
    range_attribute: str
    range_type: RangeType = "S"
    projection: Projection = "ALL"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The definition of a physical table."""

    indexes: tuple[IndexDefinition, ...] = ()
    hash_attribute: str = "hashKey"
    range_attribute: str = "rangeKey"
    ttl_attribute: str | None = field(default=None, compare=False)
    """holds the Unix time from which the engine may delete a record; an engine without expiry ignores it"""
    item_count: int | None = field(default=None, compare=False)
    """of a stored table: about how many items it has; None if the engine does not know it"""
    replica_regions: tuple[str, ...] = field(default=(), compare=False)
    """of a stored table: the regions between which the engine replicates writes"""


def split_hash_key(hash_key: str) -> tuple[str, str]:
    """Split a hash key into the part that all shards share and the shard: `user!03|x#1` → (`user!|x#1`, `03`).

    The shard follows the first `!`. Every `!` inside a value is escaped (docs/reference/key-format.md).
    """
    head, mark, rest = hash_key.partition("!")
    shard, bar, values = rest.partition("|")
    return f"{head}{mark}{bar}{values}", shard
