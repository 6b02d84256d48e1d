"""The layout of the file: the definition of the table, the numbers of its indexes, and the entries of records."""

import sqlite3
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from graphql_api.errors import StoreRefused
from graphql_api.storage import IndexDefinition, Item, TableDefinition, indexes_to_add, projected_attributes
from graphql_api.storage.engines.sqlite.engine_quirks import TieOrder
from graphql_api.storage.engines.sqlite.key_bytes import encode_hash_key, encode_range_value

NO_TABLE = "The table does not exist. Call ensure_table first."

Entry = tuple[int, bytes, bytes, bytes, bytes]
"""The primary key of an entry: index number, base, range value, shard, tie-breaker."""


class PhysicalIndex(NamedTuple):
    """An index in the file. Number 0 is the table itself."""

    number: int
    definition: IndexDefinition
    is_backfilled: bool
    hash_label: str
    """name of its hash attribute in error messages"""
    range_label: str


@dataclass(frozen=True)
class TableLayout:
    """The table as described by one version of the file."""

    version: int
    tie_order: TieOrder
    definition: TableDefinition
    indexes: tuple[PhysicalIndex, ...]

    @cached_property
    def by_name(self) -> dict[str | None, PhysicalIndex]:
        """Return all indexes by name, and the table itself under None."""
        hash_attribute, range_attribute = self.definition.hash_attribute, self.definition.range_attribute
        table = IndexDefinition("the table", hash_attribute, range_attribute)
        return {None: _make_physical_index(0, table, is_backfilled=True)} | {
            index.definition.name: index for index in self.indexes
        }

    @cached_property
    def projected(self) -> dict[str | None, frozenset[str] | None]:
        """Return the attributes that each index projects; None means all of them."""
        return {name: projected_attributes(self.definition, index.definition) for name, index in self.by_name.items()}

    def entries(self, item: Item, tie: bytes) -> list[Entry]:
        """Return the entry of a record in each index that contains it. Refuse attributes of the wrong type."""
        found = (_build_entry(index, item, tie) for index in self.indexes)
        return [entry for entry in found if entry is not None]

    def stored_entries(self, item: Item, tie: bytes) -> list[Entry]:
        """Return the entries of a stored record. An index that was added later omits a record of the wrong type."""
        found = []
        for index in self.indexes:
            entry = stored_entry(index, item, tie)
            if entry is not None:
                found.append(entry)
        return found


def stored_entry(index: PhysicalIndex, item: Item, tie: bytes) -> Entry | None:
    """Return the entry of a stored record in one index, or None if its attributes are missing or of another type."""
    try:
        return _build_entry(index, item, tie)
    except StoreRefused:
        return None


def _build_entry(index: PhysicalIndex, item: Item, tie: bytes) -> Entry | None:
    number, definition, _, hash_label, range_label = index
    has_hash = definition.hash_attribute in item
    if definition.range_attribute in item:
        value = encode_range_value(item[definition.range_attribute], definition.range_type, range_label)
        if has_hash:
            base, shard = encode_hash_key(item[definition.hash_attribute], hash_label)
            return number, base, value, shard, tie
    elif has_hash:
        encode_hash_key(item[definition.hash_attribute], hash_label)
    return None


def _make_physical_index(number: int, definition: IndexDefinition, *, is_backfilled: bool) -> PhysicalIndex:
    where = f"index {definition.name!r}" if number else "the table"
    return PhysicalIndex(
        number,
        definition,
        is_backfilled,
        f"{where}: attribute {definition.hash_attribute!r}",
        f"{where}: attribute {definition.range_attribute!r}",
    )


# --- in the file -----------------------------------------------------------------------------------------------


def layout_version(sql: sqlite3.Connection) -> int:
    """Return a number that increases with every change of the table definition, by any process."""
    (version,) = sql.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
    return int(version)


def load_layout(sql: sqlite3.Connection) -> TableLayout | None:
    """Return the layout of the file, or None if no table was created yet."""
    # One statement, hence one consistent snapshot.
    meta = "SELECT 0, name, value, NULL, NULL, NULL, 0 FROM meta"
    indexes = "SELECT number, name, hash_attribute, range_attribute, range_type, projection, filled_to FROM indexes"
    settings: dict[str, Any] = {}
    found = []
    for number, name, first, range_attribute, range_type, projection, filled_to in sql.execute(
        f"{meta} UNION ALL {indexes} ORDER BY 1"
    ):
        if number == 0:
            settings[name] = first
        else:
            projected = orjson.loads(projection)
            definition = IndexDefinition(
                name, first, range_attribute, range_type, tuple(projected) if isinstance(projected, list) else projected
            )
            found.append(_make_physical_index(number, definition, is_backfilled=filled_to is None))
    if "hash_attribute" not in settings:
        return None
    definitions = tuple(index.definition for index in found)
    table = TableDefinition(definitions, settings["hash_attribute"], settings["range_attribute"])
    return TableLayout(settings["layout"], settings["tie_order"], table, tuple(found))


def define_table(sql: sqlite3.Connection, definition: TableDefinition) -> None:
    """Create the table and its missing indexes within a transaction. Backfill jobs add entries of stored records."""
    layout = load_layout(sql)
    added = indexes_to_add(definition, None if layout is None else layout.definition)
    if layout is None:
        sql.execute(
            "INSERT INTO meta VALUES ('hash_attribute', ?), ('range_attribute', ?)",
            (definition.hash_attribute, definition.range_attribute),
        )
    rows = (
        (
            index.name,
            index.hash_attribute,
            index.range_attribute,
            index.range_type,
            orjson.dumps(index.projection).decode(),
        )
        for index in added
    )
    sql.executemany(
        "INSERT INTO indexes (name, hash_attribute, range_attribute, range_type, projection, filled_to)"
        " VALUES (?, ?, ?, ?, ?, 0)",
        rows,
    )
    if layout is None or added:
        bump_layout_version(sql)


def bump_layout_version(sql: sqlite3.Connection) -> None:
    """Make every process reload the layout before its next write."""
    sql.execute("UPDATE meta SET value = value + 1 WHERE name = 'layout'")
