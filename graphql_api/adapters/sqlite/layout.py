"""What the file holds: the table's definition, the numbers of its indexes, and the entries of a record."""

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import orjson

from graphql_api.adapters.sqlite.body import decode_body
from graphql_api.adapters.sqlite.keys import base_and_shard, range_bytes
from graphql_api.adapters.sqlite.switches import TieOrder
from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.store.values import IndexDefinition, Item, TableDefinition

MOST_INCLUDED = 100

Entry = tuple[int, bytes, bytes, bytes, bytes]
"""An entry's place: index number, base, range value, shard, tie."""

Decode = Callable[[bytes], Item]

_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")


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
    def decoders(self) -> dict[str | None, Decode]:
        """How the rows of each index turn into items: whole, or only what the index carries."""
        return {name: self._decoder(index.definition) for name, index in self.by_name.items()}

    def _decoder(self, index: IndexDefinition) -> Decode:
        if index.projection == "ALL":
            return decode_body
        table = self.definition
        keys = {table.hash_attribute, table.range_attribute, index.hash_attribute, index.range_attribute}
        carried = keys.union(() if index.projection == "KEYS_ONLY" else index.projection)

        def decode(body: bytes) -> Item:
            return {name: value for name, value in decode_body(body).items() if name in carried}

        return decode

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
    existing = {} if layout is None else {index.name: index for index in layout.definition.indexes}
    _check_table(definition, layout)
    added = [index for index in definition.indexes if index.name not in existing]
    for index in definition.indexes:
        _check_same(index, existing.get(index.name, index))
    _check_attributes(definition, [*existing.values(), *added])
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


def _check_table(definition: TableDefinition, layout: Layout | None) -> None:
    if layout is None:
        return
    wanted = (definition.hash_attribute, definition.range_attribute)
    found = (layout.definition.hash_attribute, layout.definition.range_attribute)
    if wanted != found:
        raise WrongTable(
            f"The table has the key attributes {found}, not {wanted}. Use another table, or its attributes."
        )


def _check_same(wanted: IndexDefinition, found: IndexDefinition) -> None:
    if _comparable(wanted) != _comparable(found):
        raise StoreRefused(
            f"Index {wanted.name!r} exists as {_shown(found)}, and {_shown(wanted)} is asked for. Choose another name."
        )


def _comparable(index: IndexDefinition) -> tuple[Any, ...]:
    carried = frozenset(index.projection) if isinstance(index.projection, tuple) else index.projection
    return index.hash_attribute, index.range_attribute, index.range_type, carried


def _shown(index: IndexDefinition) -> str:
    carried = index.projection if isinstance(index.projection, str) else f"INCLUDE {', '.join(index.projection)}"
    return f"({index.hash_attribute}, {index.range_attribute}: {index.range_type}, {carried})"


def _attribute_types(index: IndexDefinition) -> tuple[tuple[str, Literal["S", "N"]], ...]:
    return (index.hash_attribute, "S"), (index.range_attribute, index.range_type)


def _check_attributes(definition: TableDefinition, indexes: list[IndexDefinition]) -> None:
    doubled = [name for name, count in Counter(index.name for index in definition.indexes).items() if count > 1]
    if doubled:
        raise StoreRefused(f"Index {doubled[0]!r} is defined twice. Give every index its own name.")
    types: dict[str, Literal["S", "N"]] = {definition.hash_attribute: "S", definition.range_attribute: "S"}
    if len(types) < 2:
        raise StoreRefused(f"The table uses {definition.hash_attribute!r} for both of its keys. Name two attributes.")
    for index in indexes:
        if not _NAME.fullmatch(index.name):
            raise StoreRefused(
                f"{index.name!r} is no name of an index. Use 3 to 255 letters, digits, '_', '-' and '.'."
            )
        if index.hash_attribute == index.range_attribute:
            raise StoreRefused(f"Index {index.name!r} uses {index.hash_attribute!r} twice. Name two attributes.")
        for attribute, kind in _attribute_types(index):
            if types.setdefault(attribute, kind) != kind:
                raise StoreRefused(f"Index {index.name!r} takes {attribute!r} for {kind}, another one does not. Agree.")
    included = sum(len(index.projection) for index in indexes if isinstance(index.projection, tuple))
    if included > MOST_INCLUDED:
        raise StoreRefused(
            f"The indexes include {included} attributes, {MOST_INCLUDED} are allowed. Project ALL instead."
        )
