"""Writes: checked and encoded before the transaction, applied within it."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage import (
    Check,
    Expect,
    Key,
    Put,
    TogetherWrite,
    Unmet,
    check_expectation,
    condition_holds,
    unmet_error,
)
from graphql_api.storage.engines.sqlite.key_bytes import check_key, tie_of
from graphql_api.storage.engines.sqlite.record_body import decode_body, encode_body
from graphql_api.storage.engines.sqlite.table_layout import NO_TABLE, Entry, Layout

TableKey = tuple[bytes, bytes, bytes]
"""base, range key, shard: the columns of the table's own entry"""

Stored = tuple[int, bytes]
"""a record's number and body"""

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


class Change(NamedTuple):
    """A write, checked and encoded; `body` is None for a deletion and for a check."""

    position: int
    key: Key
    table_key: TableKey
    tie: bytes
    body: bytes | None
    entries: list[Entry]
    expect: Expect | None
    only_checks: bool = False


def prepare(layout: Layout, position: int, write: TogetherWrite) -> Change:
    """Checks a write by everything that does not depend on what is stored."""
    if write.expect is not None:
        _check_expectation(write.expect)
    if not isinstance(write, Put):
        only_checks = isinstance(write, Check)
        base, range_key, shard = check_key(write.key, "the check" if only_checks else "the deletion")
        tie = tie_of(write.key.hash.encode(), range_key, layout.tie_order)
        return Change(position, write.key, (base, range_key, shard), tie, None, [], write.expect, only_checks)
    item, table = write.item, layout.definition
    for attribute in (table.hash_attribute, table.range_attribute):
        if attribute not in item:
            raise StoreRefused(f"The record lacks its key attribute {attribute!r}. Every record needs both.")
    key = Key(item[table.hash_attribute], item[table.range_attribute])
    base, range_key, shard = check_key(key, "the record")
    tie = tie_of(key.hash.encode(), range_key, layout.tie_order)
    body = encode_body(item)
    return Change(position, key, (base, range_key, shard), tie, body, layout.entries(item, tie), write.expect)


def _check_expectation(expect: Expect) -> None:
    check_expectation(expect)
    encode_body(expect.attributes)
    encode_body(dict.fromkeys(expect.without))


class Transaction:
    """What writes do to the file between BEGIN and COMMIT."""

    def __init__(self, sql: sqlite3.Connection, layout: Layout | None, *, lagging: bool) -> None:
        self.sql = sql
        self._layout = layout
        self._lagging = lagging
        (highest,) = sql.execute("SELECT max(id) FROM records").fetchone()
        self._next = (highest or 0) + 1

    @property
    def layout(self) -> Layout:
        """The table that is written to."""
        if self._layout is None:
            raise WrongTable(NO_TABLE)
        return self._layout

    # --- conditions

    def find(self, change: Change) -> Stored | None:
        """The record that stands at a change's key, if its expectation holds."""
        (stored,) = self.find_all([change])
        return stored

    def find_all(self, changes: Sequence[Change]) -> list[Stored | None]:
        """The records that stand at the changes' keys, if all expectations hold."""
        found: list[Stored | None] = []
        unmet = []
        for change in changes:
            stored: Stored | None = self.sql.execute(_FIND, change.table_key).fetchone()
            found.append(stored)
            if change.expect is not None:
                old = None if stored is None else decode_body(stored[1])
                if not condition_holds(change.expect, old):
                    unmet.append(Unmet(change.position, change.key, change.expect, old))
        if unmet:
            raise unmet_error(unmet)
        return found

    # --- changes

    def put_all(self, changes: Sequence[Change]) -> None:
        """Puts records without expectations: those that are new, which is the usual case, without looking for them."""
        if self._lagging:
            for change in changes:
                self.apply(change, self.find(change))
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
        """Adds entries with the numbers of their records, neighbours in the file one after the other."""
        entries.sort()
        self.sql.executemany(_ADD_ENTRY, entries)

    def _is_new(self, number: int, change: Change) -> bool:
        (stands,) = self.sql.execute(_NUMBER_OF, change.table_key).fetchone()
        if stands != number:
            self.apply(change, self.find(change))
        return bool(stands == number)

    def apply(self, change: Change, stored: Stored | None) -> None:
        """Makes one change, given what stands at its key."""
        if change.only_checks:
            return
        if change.body is None:
            if stored is not None:
                self._delete(change, stored)
        elif stored is None:
            self._insert(change, change.body)
        elif stored[1] != change.body:
            self._replace(change, change.body, stored)

    def _insert(self, change: Change, body: bytes) -> None:
        number = self._add_record(change, body)
        self.sql.execute(_ADD_KEY, (*change.table_key, number))
        if self._lagging:
            self._let_lag(None, number)
        else:
            self.add_entries([(*entry, number) for entry in change.entries])

    def _replace(self, change: Change, body: bytes, stored: Stored) -> None:
        number, old_body = stored
        if self._lagging:
            newer = self._add_record(change, body)
            self.sql.execute(_MOVE_KEY, (newer, *change.table_key))
            self._let_lag(number, newer)
            return
        old = self.layout.stored_entries(decode_body(old_body), change.tie)
        if old != change.entries:
            self.sql.executemany(_DROP_ENTRY, [entry for entry in old if entry not in change.entries])
            self.add_entries([(*entry, number) for entry in change.entries if entry not in old])
        self.sql.execute(_CHANGE_RECORD, (body, number))

    def _delete(self, change: Change, stored: Stored) -> None:
        number, old_body = stored
        self.sql.execute(_DROP_KEY, change.table_key)
        if self._lagging:
            self._let_lag(number, None)
            return
        self.sql.executemany(_DROP_ENTRY, self.layout.stored_entries(decode_body(old_body), change.tie))
        self.sql.execute(_DROP_RECORD, (number,))

    def _add_record(self, change: Change, body: bytes) -> int:
        number = self._next
        self._next += 1
        self.sql.execute(_ADD_RECORD, (number, change.key.hash.encode(), change.table_key[1], body))
        return number

    # --- entries that stay behind

    def _let_lag(self, old: int | None, new: int | None) -> None:
        self.sql.execute("INSERT INTO lagging (old, new) VALUES (?, ?)", (old, new))

    def catch_up(self, keep: int) -> None:
        """Brings the index entries up to date, except for the last `keep` changes."""
        (waiting,) = self.sql.execute("SELECT count(*) FROM lagging").fetchone()
        due = self.sql.execute("SELECT turn, old, new FROM lagging ORDER BY turn LIMIT ?", (max(0, waiting - keep),))
        for turn, old, new in due.fetchall():
            if old is not None:
                self.sql.executemany(_DROP_ENTRY, self._entries_of(old))
                self.sql.execute(_DROP_RECORD, (old,))
            if new is not None:
                self.add_entries([(*entry, new) for entry in self._entries_of(new)])
            self.sql.execute("DELETE FROM lagging WHERE turn = ?", (turn,))

    def _entries_of(self, number: int) -> list[Entry]:
        found = self.sql.execute("SELECT hash, range, body FROM records WHERE id = ?", (number,)).fetchone()
        hash_key, range_key, body = found
        return self.layout.stored_entries(decode_body(body), tie_of(hash_key, range_key, self.layout.tie_order))
