"""Writes: prepared before the transaction, applied within it."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage import (
    Check,
    Expect,
    FailedCondition,
    Key,
    Put,
    TransactionWrite,
    check_condition,
    condition_failed_error,
    condition_holds,
)
from graphql_api.storage.engines.sqlite.key_bytes import encode_table_key, tie_breaker
from graphql_api.storage.engines.sqlite.record_body import decode_body, encode_body
from graphql_api.storage.engines.sqlite.table_layout import NO_TABLE, Entry, TableLayout

TableKey = tuple[bytes, bytes, bytes]
"""base, range key, shard: columns of the table's own entry"""

StoredRecord = tuple[int, bytes]
"""number and body of a record"""

_FIND = (
    "SELECT record, body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
)
_NUMBER_OF = "SELECT record FROM entries WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
_ADD_KEY = "INSERT INTO entries (idx, base, value, shard, tie, record) VALUES (0, ?, ?, ?, x'', ?)"
_ADD_NEW_KEY = _ADD_KEY.replace("INSERT", "INSERT OR IGNORE")
_MOVE_KEY = "UPDATE entries SET record = ? WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
_DROP_KEY = "DELETE FROM entries WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
_ADD_RECORD = "INSERT INTO records (id, hash, range, body) VALUES (?, ?, ?, ?)"
_CHANGE_RECORD = "UPDATE records SET body = ? WHERE id = ?"
_DROP_RECORD = "DELETE FROM records WHERE id = ?"
_ADD_ENTRY = "INSERT OR REPLACE INTO entries (idx, base, value, shard, tie, record) VALUES (?, ?, ?, ?, ?, ?)"
_DROP_ENTRY = "DELETE FROM entries WHERE idx = ? AND base = ? AND value = ? AND shard = ? AND tie = ?"


class PreparedWrite(NamedTuple):
    """A validated and encoded write. `body` is None for a deletion and for a check."""

    position: int
    key: Key
    table_key: TableKey
    tie: bytes
    body: bytes | None
    entries: list[Entry]
    expect: Expect | None
    only_checks: bool = False


def prepare_write(layout: TableLayout, position: int, write: TransactionWrite) -> PreparedWrite:
    """Validate and encode a write, independent of what is stored."""
    if write.expect is not None:
        _check_condition(write.expect)
    if not isinstance(write, Put):
        only_checks = isinstance(write, Check)
        base, range_key, shard = encode_table_key(write.key, "the check" if only_checks else "the deletion")
        tie = tie_breaker(write.key.hash.encode(), range_key, layout.tie_order)
        return PreparedWrite(position, write.key, (base, range_key, shard), tie, None, [], write.expect, only_checks)
    item, table = write.item, layout.definition
    for attribute in (table.hash_attribute, table.range_attribute):
        if attribute not in item:
            raise StoreRefused(f"The record lacks the key attribute {attribute!r}. Provide both key attributes.")
    key = Key(item[table.hash_attribute], item[table.range_attribute])
    base, range_key, shard = encode_table_key(key, "the record")
    tie = tie_breaker(key.hash.encode(), range_key, layout.tie_order)
    body = encode_body(item)
    return PreparedWrite(position, key, (base, range_key, shard), tie, body, layout.entries(item, tie), write.expect)


def _check_condition(expect: Expect) -> None:
    check_condition(expect)
    encode_body(expect.attributes)
    encode_body(dict.fromkeys(expect.without))


class WriteTransaction:
    """The changes of writes to the file between BEGIN and COMMIT."""

    def __init__(self, sql: sqlite3.Connection, layout: TableLayout | None, *, delays_entries: bool) -> None:
        self.sql = sql
        self._layout = layout
        self._delays_entries = delays_entries
        (highest,) = sql.execute("SELECT max(id) FROM records").fetchone()
        self._next = (highest or 0) + 1

    @property
    def layout(self) -> TableLayout:
        """Return the layout of the table. Refuse if there is no table."""
        if self._layout is None:
            raise WrongTable(NO_TABLE)
        return self._layout

    # --- conditions

    def read_and_check(self, change: PreparedWrite) -> StoredRecord | None:
        """Return the stored record at the key of a change, if its condition holds."""
        (stored,) = self.read_and_check_all([change])
        return stored

    def read_and_check_all(self, changes: Sequence[PreparedWrite]) -> list[StoredRecord | None]:
        """Return the stored records at the keys of the changes, if all conditions hold."""
        records: list[StoredRecord | None] = []
        failed = []
        for change in changes:
            stored: StoredRecord | None = self.sql.execute(_FIND, change.table_key).fetchone()
            records.append(stored)
            if change.expect is not None:
                old = None if stored is None else decode_body(stored[1])
                if not condition_holds(change.expect, old):
                    failed.append(FailedCondition(change.position, change.key, change.expect, old))
        if failed:
            raise condition_failed_error(failed)
        return records

    # --- changes

    def put_all(self, changes: Sequence[PreparedWrite]) -> None:
        """Put records without conditions. New records, the usual case, are inserted without a read."""
        if self._delays_entries:
            for change in changes:
                self.apply(change, self.read_and_check(change))
            return
        numbered = list(enumerate(changes, self._next))
        keys = ((*change.table_key, number) for number, change in numbered)
        added = self.sql.executemany(_ADD_NEW_KEY, keys).rowcount
        if added < len(numbered):
            numbered = [pair for pair in numbered if self._is_new(*pair)]
        self._next += len(changes)
        self.sql.executemany(
            _ADD_RECORD,
            ((number, change.key.hash.encode(), change.table_key[1], change.body) for number, change in numbered),
        )
        self.add_entries([(*entry, number) for number, change in numbered for entry in change.entries])

    def add_entries(self, entries: list[tuple[int, bytes, bytes, bytes, bytes, int]]) -> None:
        """Add entries with the numbers of their records, in the order of the file."""
        entries.sort()
        self.sql.executemany(_ADD_ENTRY, entries)

    def _is_new(self, number: int, change: PreparedWrite) -> bool:
        """Return whether the key of a record was new. Apply the change if a record exists."""
        (stored_number,) = self.sql.execute(_NUMBER_OF, change.table_key).fetchone()
        if stored_number != number:
            self.apply(change, self.read_and_check(change))
        return bool(stored_number == number)

    def apply(self, change: PreparedWrite, stored: StoredRecord | None) -> None:
        """Apply one change to the stored record at its key."""
        if change.only_checks:
            return
        if change.body is None:
            if stored is not None:
                self._delete(change, stored)
        elif stored is None:
            self._insert(change, change.body)
        elif stored[1] != change.body:
            self._replace(change, change.body, stored)

    def _insert(self, change: PreparedWrite, body: bytes) -> None:
        number = self._add_record(change, body)
        self.sql.execute(_ADD_KEY, (*change.table_key, number))
        if self._delays_entries:
            self._add_lagging_change(None, number)
        else:
            self.add_entries([(*entry, number) for entry in change.entries])

    def _replace(self, change: PreparedWrite, body: bytes, stored: StoredRecord) -> None:
        number, old_body = stored
        if self._delays_entries:
            new_number = self._add_record(change, body)
            self.sql.execute(_MOVE_KEY, (new_number, *change.table_key))
            self._add_lagging_change(number, new_number)
            return
        old = self.layout.stored_entries(decode_body(old_body), change.tie)
        if old != change.entries:
            self.sql.executemany(_DROP_ENTRY, [entry for entry in old if entry not in change.entries])
            self.add_entries([(*entry, number) for entry in change.entries if entry not in old])
        self.sql.execute(_CHANGE_RECORD, (body, number))

    def _delete(self, change: PreparedWrite, stored: StoredRecord) -> None:
        number, old_body = stored
        self.sql.execute(_DROP_KEY, change.table_key)
        if self._delays_entries:
            self._add_lagging_change(number, None)
            return
        self.sql.executemany(_DROP_ENTRY, self.layout.stored_entries(decode_body(old_body), change.tie))
        self.sql.execute(_DROP_RECORD, (number,))

    def _add_record(self, change: PreparedWrite, body: bytes) -> int:
        number = self._next
        self._next += 1
        self.sql.execute(_ADD_RECORD, (number, change.key.hash.encode(), change.table_key[1], body))
        return number

    # --- lagging entries

    def _add_lagging_change(self, old: int | None, new: int | None) -> None:
        self.sql.execute("INSERT INTO lagging (old, new) VALUES (?, ?)", (old, new))

    def catch_up_entries(self, keep: int) -> None:
        """Bring index entries up to date, except for the last `keep` changes."""
        (waiting,) = self.sql.execute("SELECT count(*) FROM lagging").fetchone()
        pending = self.sql.execute(
            "SELECT turn, old, new FROM lagging ORDER BY turn LIMIT ?", (max(0, waiting - keep),)
        )
        for turn, old, new in pending.fetchall():
            if old is not None:
                self.sql.executemany(_DROP_ENTRY, self._entries_of(old))
                self.sql.execute(_DROP_RECORD, (old,))
            if new is not None:
                self.add_entries([(*entry, new) for entry in self._entries_of(new)])
            self.sql.execute("DELETE FROM lagging WHERE turn = ?", (turn,))

    def _entries_of(self, number: int) -> list[Entry]:
        stored = self.sql.execute("SELECT hash, range, body FROM records WHERE id = ?", (number,)).fetchone()
        hash_key, range_key, body = stored
        return self.layout.stored_entries(decode_body(body), tie_breaker(hash_key, range_key, self.layout.tie_order))
