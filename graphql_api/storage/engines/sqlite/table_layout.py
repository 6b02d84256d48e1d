"""The layout of the file: the definition of the table, the numbers of its indexes, and the entries of records."""

import sqlite3
from dataclasses import astuple, dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from graphql_api.codecs import DecimalNumber, RangeValue
from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage import (
    MAX_HASH_BYTES,
    MAX_RANGE_BYTES,
    IndexDefinition,
    Item,
    Key,
    RangeType,
    TableDefinition,
    check_index_attributes,
    indexes_to_add,
    split_hash_key,
)

EntryPosition = tuple[bytes, bytes, bytes]
"""The position of an entry within a base: range value, shard, tie-breaker."""

AFTER_EVERYTHING = b"\xff" * 17
"""sorts after every text (UTF-8 has no byte FF), every encoded number and every digest"""

_NUMBERS = DecimalNumber()


def next_bytes(value: bytes) -> bytes:
    """Return the immediate successor of a byte string."""
    return value + b"\0"


@lru_cache(maxsize=16_384)
def encode_hash_key(hash_key: str) -> tuple[bytes, bytes]:
    """Encode a hash key as base and shard, as entries store it."""
    base, shard = split_hash_key(hash_key)
    return base.encode(), shard.encode()


def encode_table_key(key: Key) -> tuple[bytes, bytes, bytes]:
    """Encode a table key as base, range key and shard."""
    base, shard = encode_hash_key(key.hash)
    return base, key.range.encode(), shard


def encode_range_value(value: RangeValue) -> bytes:
    """Encode a range value in its order: text as UTF-8, a number as digits that sort like the numbers."""
    return value.encode() if isinstance(value, str) else _NUMBERS.encode(Decimal(value)).encode()


def decode_range_value(encoded: bytes, kind: RangeType) -> RangeValue:
    """Decode a range value. Whole numbers are returned as int."""
    return encoded.decode() if kind == "S" else _decode_number(encoded)


@lru_cache(maxsize=16_384)
def _decode_number(encoded: bytes) -> RangeValue:
    number = _NUMBERS.decode(encoded.decode())
    return int(number) if number == number.to_integral_value() else number


def tie_breaker(hash_key: bytes, range_key: bytes) -> bytes:
    """Return the bytes that order index entries with equal hash key and range value; unique per record."""
    return blake2b(hash_key.replace(b"\0", b"\0\xff") + b"\0\0" + range_key, digest_size=16).digest()


Entry = tuple[int, bytes, bytes, bytes, bytes]
"""The primary key of an entry: index number, base, range value, shard, tie-breaker."""


class PhysicalIndex(NamedTuple):
    """An index in the file. Number 0 is the table itself."""

    number: int
    definition: IndexDefinition
    is_backfilled: bool


@dataclass(frozen=True)
class TableLayout:
    """The table as described by one version of the file."""

    version: int
    definition: TableDefinition
    indexes: tuple[PhysicalIndex, ...]

    @cached_property
    def by_name(self) -> dict[str | None, PhysicalIndex]:
        """Return all indexes by name, and the table itself under None."""
        hash_attribute, range_attribute = self.definition.hash_attribute, self.definition.range_attribute
        table = IndexDefinition("the table", hash_attribute, range_attribute)
        return {None: PhysicalIndex(0, table, True), **{index.definition.name: index for index in self.indexes}}

    @cached_property
    def _attributes(self) -> list[tuple[str, str, bool, PhysicalIndex]]:
        """The attributes of each index, and whether its range values are text."""
        keys = [(index.definition, index) for index in self.indexes]
        return [(each.hash_attribute, each.range_attribute, each.range_type == "S", index) for each, index in keys]

    def entries(self, item: Item, tie: bytes) -> list[Entry]:
        """Return the entry of a record in each index that contains it. Refuse attributes that no entry can have."""
        entries = []
        for hash_attribute, range_attribute, is_text, index in self._attributes:
            hash_key: Any = item.get(hash_attribute)
            value: Any = item.get(range_attribute)
            if (
                is_text
                and type(hash_key) is type(value) is str
                and 0 < len(hash_key) <= MAX_HASH_BYTES
                and 0 < len(value) <= MAX_RANGE_BYTES
                and hash_key.isascii()
                and value.isascii()
            ):
                base, shard = encode_hash_key(hash_key)
                entries.append((index.number, base, value.encode(), shard, tie))
            elif hash_attribute in item or range_attribute in item:
                check_index_attributes(index.definition, item)
                entry = _entry(index, item, tie)
                if entry is not None:
                    entries.append(entry)
        return entries

    def stored_entries(self, item: Item, tie: bytes) -> list[Entry]:
        """Return the entries of a stored record. An index that was added later omits attributes of another type."""
        return [
            entry
            for index in self.indexes
            if _can_contain(index, item) and (entry := _entry(index, item, tie)) is not None
        ]


def _can_contain(index: PhysicalIndex, item: Item) -> bool:
    try:
        check_index_attributes(index.definition, item)
    except StoreRefused:
        return False
    return True


def _entry(index: PhysicalIndex, item: Item, tie: bytes) -> Entry | None:
    hash_attribute, range_attribute = index.definition.hash_attribute, index.definition.range_attribute
    if hash_attribute not in item or range_attribute not in item:
        return None
    base, shard = encode_hash_key(item[hash_attribute])
    return index.number, base, encode_range_value(item[range_attribute]), shard, tie


def require_table(layout: TableLayout | None) -> TableLayout:
    """Return the layout. Refuse if there is no table."""
    if layout is None:
        raise WrongTable("The table does not exist. Call ensure_table first.")
    return layout


# --- in the file -----------------------------------------------------------------------------------------------


def layout_version(sql: sqlite3.Connection) -> int:
    """Return a number that increases with every change of the table definition, by any process."""
    (version,) = sql.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
    return int(version)


def version_and_highest(sql: sqlite3.Connection) -> tuple[int, int | None]:
    """Return the version of the layout, and the highest number of a record; None if there are no records."""
    select = "SELECT value, (SELECT max(id) FROM records) FROM meta WHERE name = 'layout'"
    version, highest = sql.execute(select).fetchone()
    return int(version), highest


def load_layout(sql: sqlite3.Connection) -> TableLayout | None:
    """Return the layout of the file, or None if no table was created yet."""
    # One statement, hence one consistent snapshot. No record has a higher id, and most ids are in use.
    meta = "SELECT 0, name, value, NULL, NULL, NULL, 0 FROM meta"
    indexes = "SELECT number, name, hash_attribute, range_attribute, range_type, projection, filled_to FROM indexes"
    settings: dict[str, Any] = {}
    found = []
    count = "SELECT 0, 'item_count', coalesce(max(id), 0), NULL, NULL, NULL, 0 FROM records"
    for number, name, first, range_attribute, range_type, projection, filled_to in sql.execute(
        f"{meta} UNION ALL {count} UNION ALL {indexes} ORDER BY 1"
    ):
        if number == 0:
            settings[name] = first
        else:
            projected = orjson.loads(projection)
            definition = IndexDefinition(
                name, first, range_attribute, range_type, tuple(projected) if isinstance(projected, list) else projected
            )
            found.append(PhysicalIndex(number, definition, filled_to is None))
    if "hash_attribute" not in settings:
        return None
    definitions = tuple(index.definition for index in found)
    table = TableDefinition(
        definitions, settings["hash_attribute"], settings["range_attribute"], item_count=settings["item_count"]
    )
    return TableLayout(settings["layout"], table, tuple(found))


def define_table(sql: sqlite3.Connection, definition: TableDefinition) -> None:
    """Create the table and its missing indexes within a transaction. Backfill jobs add entries of stored records."""
    layout = load_layout(sql)
    added = indexes_to_add(definition, None if layout is None else layout.definition)
    if layout is None:
        sql.execute(
            "INSERT INTO meta VALUES ('hash_attribute', ?), ('range_attribute', ?)",
            (definition.hash_attribute, definition.range_attribute),
        )
    for name, hash_attribute, range_attribute, range_type, projection in map(astuple, added):
        sql.execute(
            "INSERT INTO indexes (name, hash_attribute, range_attribute, range_type, projection, filled_to)"
            " VALUES (?, ?, ?, ?, ?, 0)",
            (name, hash_attribute, range_attribute, range_type, orjson.dumps(projection).decode()),
        )
    if layout is None or added:
        bump_layout_version(sql)


def remove_index(sql: sqlite3.Connection, name: str) -> None:
    """Remove an index and its entries within a transaction, if it exists."""
    found = sql.execute("DELETE FROM indexes WHERE name = ? RETURNING number", (name,)).fetchall()
    if found:
        sql.executemany("DELETE FROM entries WHERE idx = ?", found)
        bump_layout_version(sql)


def bump_layout_version(sql: sqlite3.Connection) -> None:
    """Make every process reload the layout before its next write."""
    sql.execute("UPDATE meta SET value = value + 1 WHERE name = 'layout'")
