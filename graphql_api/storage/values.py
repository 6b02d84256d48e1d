"""What goes into a store and what comes out of it: frozen values that every engine shares."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.errors import StoreError

AttributeValue = Any
"""str, int, Decimal, bytes, bool, None, list, dict with text keys, or a non-empty frozenset of str, numbers, bytes"""

Item = Mapping[str, AttributeValue]
"""A record as it is stored: attribute name to value, key attributes included."""


class Key(NamedTuple):
    """Where a record lives in the table."""

    hash: str
    range: str


class Position(NamedTuple):
    """A place in the order of an answer: by range value, then by the shard's ordinal, at the record with this key."""

    value: RangeValue
    ordinal: int
    key: Key


# --- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartKey:
    """A row that was read before: a read goes on strictly behind it, also when it is gone by now."""

    value: RangeValue
    key: Key


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """A comparison of one attribute: eq, in, lt, le, gt, ge, between, prefix or contains (see `filter_evaluation`)."""

    attribute: str
    operation: str
    values: tuple[AttributeValue, ...]
    or_missing: bool
    """holds too where the attribute is not there"""


@dataclass(frozen=True, slots=True)
class AllOf:
    """Everything must hold."""

    parts: "tuple[StoreFilter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Something must hold."""

    parts: "tuple[StoreFilter, ...]"


StoreFilter = AttributeTest | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class RangeRead:
    """One closed look at one hash key: rows of `range` in order, at most about `limit` of them.

    Rows that a filter leaves out count too, in `limit` as in `records_read`: both say how much is looked at. `ordinal`
    places the shard among equal range values; within one call it is unique and grows with the shard's text.
    """

    index: str | None
    hash_key: str
    ordinal: int
    range: KeyRange
    limit: int
    descending: bool = False
    start: StartKey | None = None
    consistent: bool = False
    """sees every acknowledged write; of the table only, an index may lag"""
    filter: StoreFilter | None = None
    """rows for which it does not hold may be left out: an engine tests what it can, the caller tests everything"""
    attributes: frozenset[str] | None = None
    """rows need no others besides their keys, and may lack them; None: all that the index carries"""


class Row:
    """One entry of a page. The record itself stays as the engine gave it until somebody asks for `item`."""

    __slots__ = ("_body", "_decode", "_item", "key", "ordinal", "value")

    def __init__(self, value: RangeValue, ordinal: int, key: Key, body: Any, decode: Callable[[Any], Item]) -> None:
        self.value = value
        self.ordinal = ordinal
        self.key = key
        self._body = body
        self._decode = decode
        self._item: Item | None = None

    @property
    def position(self) -> Position:
        return Position(self.value, self.ordinal, self.key)

    @property
    def item(self) -> Item:
        if self._item is None:
            self._item = self._decode(self._body)
        return self._item


@dataclass(frozen=True, slots=True)
class RowPage:
    """What a read found. Nothing of its range up to and including `scanned_to` is missing; None: the range is done.

    An answer makes progress: rows, or a `scanned_to` within the range, or None. More may seem to be behind `scanned_to`
    although nothing is. `records_read` is what the engine had to look at.
    """

    rows: Sequence[Row]
    scanned_to: Position | None
    records_read: int


ReadAnswer = RowPage | StoreError
"""Each read answers for itself: a shard that fails does not take the others with it."""


# --- writing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expect:
    """What must hold for a write to happen: no record there, or one with these values and without those attributes.

    With nothing said it is any record.
    """

    absent: bool = False
    """nothing stands there; excludes the other two"""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """a record stands there, and has these"""
    without: tuple[str, ...] = ()
    """a record stands there, and has none of these, not even as null"""


@dataclass(frozen=True, slots=True)
class Put:
    """Writes a whole record, replacing what is at its key."""

    item: Item
    expect: Expect | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes the record at a key, if there is one."""

    key: Key
    expect: Expect | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Writes nothing: the transaction that it belongs to happens only if it holds."""

    key: Key
    expect: Expect


Write = Put | Delete

TogetherWrite = Write | Check
"""what a transaction is made of"""


@dataclass(frozen=True, slots=True)
class ScanPage:
    """Some records of the whole table, and where to go on; `after` is None at the end."""

    items: Sequence[Item]
    after: Key | None


# --- the table -------------------------------------------------------------------------------------------------

Projection = Literal["ALL", "KEYS_ONLY"] | tuple[str, ...]
"""What an index carries: everything, only keys, or keys and these attributes."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """A physical index: it holds every record that has both of its attributes with the right type."""

    name: str
    hash_attribute: str
    range_attribute: str
    range_type: Literal["S", "N"] = "S"
    projection: Projection = "ALL"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The physical table that a catalog needs."""

    indexes: tuple[IndexDefinition, ...] = ()
    hash_attribute: str = "hashKey"
    range_attribute: str = "rangeKey"
    ttl_attribute: str | None = field(default=None, compare=False)
    """holds the second from which on the engine may remove a record; one that never removes any does not keep it"""


def shard_of(hash_key: str) -> tuple[str, str]:
    """Splits a hash key into what all shards of a search share, and the shard: `user!03|x#1` → (`user!|x#1`, `03`).

    The shard stands behind the first `!`; every `!` of a value is escaped (docs/key-format.md).
    """
    head, mark, rest = hash_key.partition("!")
    shard, bar, values = rest.partition("|")
    return f"{head}{mark}{bar}{values}", shard
