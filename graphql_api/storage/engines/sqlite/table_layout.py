"""What the file holds: the table's definition, the numbers of its indexes, and the entries of a record."""

import sqlite3
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from graphql_api.errors import StoreRefused
from graphql_api.storage import IndexDefinition, Item, TableDefinition, added_indexes, carried_attributes
from graphql_api.storage.engines.sqlite.key_bytes import base_and_shard, range_bytes
from graphql_api.storage.engines.sqlite.test_switches import TieOrder

NO_TABLE = "There is no table yet. Call ensure_table first."

Entry = tuple[int, bytes, bytes, bytes, bytes]
"""An entry's place: index number, base, range value, shard, tie."""


class PhysicalIndex(NamedTuple):
    """An index of the file; number 0 is the table itself."""

    number: int
    definition: IndexDefinition
    filled: bool
    hash_place: str
    """how errors call its hash attribute"""
    range_place: str


@dataclass(frozen=True)
class Layout:
    """The table as one version of the file describes it."""

    version: int
    tie_order: TieOrder
    definition: TableDefinition
    indexes: tuple[PhysicalIndex, ...]

    @cached_property
    def by_name(self) -> dict[str | None, PhysicalIndex]:
        """All indexes, the table itself under None."""
        hash_attribute, range_attribute = self.definition.hash_attribute, self.definition.range_attribute
        table = IndexDefinition("the table", hash_attribute, range_attribute)
        return {None: _physical(0, table, filled=True)} | {index.definition.name: index for index in self.indexes}

    @cached_property
    def carried(self) -> dict[str | None, frozenset[str] | None]:
        """The attributes that each index answers; None where it is all of them."""
        return {name: carried_attributes(self.definition, index.definition) for name, index in self.by_name.items()}

    def entries(self, item: Item, tie: bytes) -> list[Entry]:
        """Where a record stands in each index that holds it; refuses attributes of the wrong type."""
        found = (_entry(index, item, tie) for index in self.indexes)
        return [entry for entry in found if entry is not None]

    def stored_entries(self, item: Item, tie: bytes) -> list[Entry]:
        """The entries of a record that is stored already; an index that was added since may not be able to hold it."""
        found = []
        for index in self.indexes:
            entry = stored_entry(index, item, tie)
            if entry is not None:
                found.append(entry)
        return found


def stored_entry(index: PhysicalIndex, item: Item, tie: bytes) -> Entry | None:
    """The entry of a stored record in one index; None too if its attributes are not of the index's types."""
    try:
        return _entry(index, item, tie)
    except StoreRefused:
        return None


def _entry(index: PhysicalIndex, item: Item, tie: bytes) -> Entry | None:
    number, definition, _, hash_place, range_place = index
    has_hash = definition.hash_attribute in item
    if definition.range_attribute in item:
        value = range_bytes(item[definition.range_attribute], definition.range_type, range_place)
        if has_hash:
            base, shard = base_and_shard(item[definition.hash_attribute], hash_place)
            return number, base, value, shard, tie
    elif has_hash:
        base_and_shard(item[definition.hash_attribute], hash_place)
    return None


def _physical(number: int, definition: IndexDefinition, *, filled: bool) -> PhysicalIndex:
    where = f"index {definition.name!r}" if number else "the table"
    return PhysicalIndex(
        number,
        definition,
        filled,
        f"{where}: attribute {definition.hash_attribute!r}",
        f"{where}: attribute {definition.range_attribute!r}",
    )


# --- in the file -----------------------------------------------------------------------------------------------


def layout_version(sql: sqlite3.Connection) -> int:
    """Grows with every change of the table's definition, by whatever process."""
    (version,) = sql.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
    return int(version)


def load_layout(sql: sqlite3.Connection) -> Layout | None:
    """The table of this file, or None where none was made yet."""
    # One statement, and so one moment of the file.
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
            carried = orjson.loads(projection)
            definition = IndexDefinition(
                name, first, range_attribute, range_type, tuple(carried) if isinstance(carried, list) else carried
            )
            found.append(_physical(number, definition, filled=filled_to is None))
    if "hash_attribute" not in settings:
        return None
    definitions = tuple(index.definition for index in found)
    table = TableDefinition(definitions, settings["hash_attribute"], settings["range_attribute"])
    return Layout(settings["layout"], settings["tie_order"], table, tuple(found))


def define(sql: sqlite3.Connection, definition: TableDefinition) -> None:
    """Makes the table and its missing indexes within a transaction; entries of stored records are filled in later."""
    layout = load_layout(sql)
    added = added_indexes(definition, None if layout is None else layout.definition)
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
        touch(sql)


def touch(sql: sqlite3.Connection) -> None:
    """Lets every process load the layout again before its next write."""
    sql.execute("UPDATE meta SET value = value + 1 WHERE name = 'layout'")
