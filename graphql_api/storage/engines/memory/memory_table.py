"""A table in memory: record bodies by key, and sorted entries for each index."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from graphql_api.codecs import KeyRange, RangeValue
from graphql_api.errors import MissingIndex, StoreRefused, WrongTable, nearest
from graphql_api.storage import (
    IndexDefinition,
    Item,
    Key,
    StartKey,
    TableDefinition,
    check_index_attributes,
    decode_body,
    indexes_to_add,
)

Entry = tuple[RangeValue, Key]
"""An entry of an index under one hash key. Keys order the entries with equal range values."""

_AFTER_EVERY_KEY = Key("\U0010ffff" * 600, "")
"""sorts after every key: a hash key has at most 2,048 bytes"""


@dataclass
class MemoryTable:
    """The records of a table, and the entries of its indexes. Stores of one process may share it."""

    definition: TableDefinition | None = None
    bodies: dict[Key, bytes] = field(default_factory=dict)
    used_tokens: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """digest and time of the transactions of the last minutes, by token"""
    _entries: dict[str | None, dict[str, list[Entry]]] = field(default_factory=dict)
    """sorted, by index and hash key; None: the table itself"""

    # --- definition --------------------------------------------------------------------------------------------

    @property
    def present(self) -> TableDefinition:
        """The definition. Refuse if there is no table."""
        if self.definition is None:
            raise WrongTable("The table does not exist. Call ensure_table first.")
        return self.definition

    def define(self, needed: TableDefinition) -> None:
        """Create the table or its missing indexes, with the entries of all records."""
        added = indexes_to_add(needed, self.definition)
        existing = () if self.definition is None else self.definition.indexes
        self.definition = replace(self.definition or needed, indexes=(*existing, *added))
        for index in added:
            for key, body in self.bodies.items():
                self._add(index, key, decode_body(body))

    def drop_index(self, name: str) -> None:
        """Remove an index, if it exists."""
        self.definition = replace(
            self.present, indexes=tuple(index for index in self.present.indexes if index.name != name)
        )
        self._entries.pop(name, None)

    def index(self, name: str | None) -> IndexDefinition:
        """Return an index, or the table itself as one."""
        table = self.present
        if name is None:
            return IndexDefinition("the table", table.hash_attribute, table.range_attribute)
        found = next((index for index in table.indexes if index.name == name), None)
        if found is None:
            known = [index.name for index in table.indexes]
            raise MissingIndex(f"The table has no index {name!r}.{nearest(name, known)} Call ensure_table to add it.")
        return found

    # --- records -----------------------------------------------------------------------------------------------

    def read(self, key: Key) -> Item | None:
        """Return the stored record at a key."""
        body = self.bodies.get(key)
        return None if body is None else decode_body(body)

    def write(self, key: Key, body: bytes | None) -> None:
        """Replace the record at a key, or delete it if `body` is None."""
        for index, item in self._indexed(key):
            self._remove(index, key, item)
        if body is None:
            self.bodies.pop(key, None)
        else:
            self.bodies[key] = body
        for index, item in self._indexed(key):
            self._add(index, key, item)

    def entries(
        self, index: str | None, hash_key: str, key_range: KeyRange, start: StartKey | None, *, descending: bool
    ) -> Iterable[Entry]:
        """Return the entries of a range in reading order, past the start key."""
        entries = self._entries.get(index, {}).get(hash_key, [])
        begin, end = 0, len(entries)
        if key_range.low is not None:
            begin = _position(entries, key_range.low, after_ties=key_range.low_open)
        if key_range.high is not None:
            end = _position(entries, key_range.high, after_ties=not key_range.high_open)
        if start is not None:
            here: Entry = (start.value, start.key)
            at = bisect_left(entries, here)
            if descending:
                end = min(end, at)
            else:
                begin = max(begin, at + (at < len(entries) and entries[at] == here))
        found: Sequence[Entry] = entries[begin:end]
        return reversed(found) if descending else found

    def _indexed(self, key: Key) -> Iterator[tuple[IndexDefinition, Item]]:
        """Yield all indexes with the stored record at a key, and the table itself."""
        item = self.read(key)
        if item is not None:
            for name in (None, *(index.name for index in self.present.indexes)):
                yield self.index(name), item

    def _add(self, index: IndexDefinition, key: Key, item: Item) -> None:
        if _contains(index, item):
            name = self._name(index)
            by_hash_key = self._entries.setdefault(name, {})
            insort(by_hash_key.setdefault(item[index.hash_attribute], []), (_range_value(index, item), key))

    def _remove(self, index: IndexDefinition, key: Key, item: Item) -> None:
        if _contains(index, item):
            entries = self._entries[self._name(index)][item[index.hash_attribute]]
            del entries[bisect_left(entries, (_range_value(index, item), key))]

    def _name(self, index: IndexDefinition) -> str | None:
        return index.name if index in self.present.indexes else None


def _contains(index: IndexDefinition, item: Item) -> bool:
    """Return whether an index contains a record. One that was added later omits attributes of another type."""
    try:
        check_index_attributes(index, item)
    except StoreRefused:
        return False
    return index.hash_attribute in item and index.range_attribute in item


def _range_value(index: IndexDefinition, item: Item) -> RangeValue:
    """Return the range value of a record. Whole numbers are ints."""
    value: RangeValue = item[index.range_attribute]
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value


def _position(entries: Sequence[Entry], value: RangeValue, *, after_ties: bool) -> int:
    if after_ties:
        return bisect_left(entries, (value, _AFTER_EVERY_KEY))
    return bisect_left(entries, (value, Key("", "")))
