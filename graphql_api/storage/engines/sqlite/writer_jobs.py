"""Jobs of the writer thread, which belong to one waiting caller each, and the transaction that they change."""

import sqlite3
from asyncio import Future, get_running_loop
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import orjson

from graphql_api.errors import ConditionFailed, StoreError, StoreRefused
from graphql_api.storage import (
    MAX_TRANSACTION_BYTES,
    Check,
    Expect,
    FailedCondition,
    Key,
    Put,
    TransactionWrite,
    Write,
    check_record_key,
    check_transaction_size,
    condition_failed_error,
    condition_holds,
    current_fence,
    decode_body,
    dump_body,
    encode_body,
    prepare_each,
    prepare_transaction,
    schema_changed_error,
    tag_number,
    tagged_values,
)
from graphql_api.storage.engines.sqlite.table_layout import (
    Entry,
    TableLayout,
    bump_layout_version,
    encode_table_key,
    require_table,
    tie_breaker,
)

TableKey = tuple[bytes, bytes, bytes]
"""base, range key, shard: columns of the table's own entry"""

StoredRecord = tuple[int, bytes]
"""number and body of a record"""

FIND_RECORD = (
    "SELECT record, body FROM entries CROSS JOIN records ON id = record"
    " WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
)
_NUMBER_OF = "SELECT record FROM entries WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
_ADD_NEW_KEY = "INSERT OR IGNORE INTO entries (idx, base, value, shard, tie, record) VALUES (0, ?, ?, ?, x'', ?)"
_DROP_KEY = "DELETE FROM entries WHERE idx = 0 AND base = ? AND value = ? AND shard = ? AND tie = x''"
_DROP_ADDED_KEY = f"{_DROP_KEY} AND record = ?"
_ADD_RECORD = "INSERT INTO records (id, hash, range, body) VALUES (?, ?, ?, ?)"
_CHANGE_RECORD = "UPDATE records SET body = ? WHERE id = ?"
_DROP_RECORD = "DELETE FROM records WHERE id = ?"
_ADD_ENTRY = "INSERT OR REPLACE INTO entries (idx, base, value, shard, tie, record) VALUES (?, ?, ?, ?, ?, ?)"
_ENTRIES_PER_STATEMENT = 30
"""more in one statement gain nothing"""
_ADD_ENTRIES = _ADD_ENTRY + ", (?, ?, ?, ?, ?, ?)" * (_ENTRIES_PER_STATEMENT - 1)
_DROP_ENTRY = "DELETE FROM entries WHERE idx = ? AND base = ? AND value = ? AND shard = ? AND tie = ?"


def check_holds(sql: sqlite3.Connection, check: Check) -> bool:
    """Return whether a condition holds in the present snapshot of a connection."""
    stored = sql.execute(FIND_RECORD, encode_table_key(check.key)).fetchone()
    return condition_holds(check.expect, None if stored is None else decode_body(stored[1]))


class PreparedWrite(NamedTuple):
    """A validated and encoded write. `body` is None for a deletion and for a check."""

    position: int
    key: Key
    table_key: TableKey
    tie: bytes
    body: bytes | None
    entries: list[Entry]
    expect: Expect | None
    only_checks: bool
    parts: Mapping[str, Any] | None = None
    """of a record: what its body contains"""

    @property
    def is_unconditional_put(self) -> bool:
        return self.body is not None and self.expect is None

    @property
    def is_creation(self) -> bool:
        """Whether it puts a record where there must be none."""
        return self.body is not None and self.expect is not None and self.expect.absent


def prepare_write(layout: TableLayout, position: int, write: TransactionWrite) -> PreparedWrite:
    """Validate and encode a write, independent of what is stored."""
    key = check_record_key(layout.definition, write)
    if write.expect is not None and (write.expect.attributes or write.expect.without):
        encode_body(write.expect.attributes)
        encode_body(dict.fromkeys(write.expect.without))
    table_key = encode_table_key(key)
    tie = tie_breaker(key.hash.encode(), table_key[1])
    if not isinstance(write, Put):
        return PreparedWrite(position, key, table_key, tie, None, [], write.expect, isinstance(write, Check))
    parts = tagged_values(write.item)
    body = dump_body(parts, write.item)
    return PreparedWrite(
        position, key, table_key, tie, body, layout.entries(write.item, tie), write.expect, False, parts
    )


class WriteTransaction:
    """The changes of writes to the file between BEGIN and COMMIT."""

    def __init__(self, sql: sqlite3.Connection, layout: TableLayout | None, highest: int | None) -> None:
        self.sql = sql
        self._layout = layout
        self._next = (highest or 0) + 1
        self._held: Check | None = None
        """the last condition of a fence that held, until its record changes"""

    @property
    def layout(self) -> TableLayout:
        """Return the layout of the table. Refuse if there is no table."""
        return require_table(self._layout)

    def holds(self, check: Check) -> bool:
        """Return whether a condition holds. The jobs of one commit have the same one, which is evaluated once."""
        if self._held is not check:
            self._held = check if check_holds(self.sql, check) else None
        return self._held is check

    def use_token(self, token: str, digest: bytes, now: float) -> bool:
        """Record that a token is used. Return False if it was used before. Refuse if that was for other writes."""
        self.sql.execute("DELETE FROM tokens WHERE used <= ?", (now - TOKEN_SECONDS,))
        if self.sql.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?, ?)", (token, digest, now)).rowcount:
            return True
        if self.sql.execute("SELECT digest FROM tokens WHERE token = ?", (token,)).fetchone() != (digest,):
            raise StoreRefused(f"The token {token!r} was used for other writes. Use a new token per set of writes.")
        return False

    def put_all(self, changes: Sequence[PreparedWrite]) -> None:
        """Put records without conditions. New records, the usual case, are inserted without a read."""
        self._forget_held(changes)
        numbered = self._numbered(changes)
        if self._add_new_keys(numbered) < len(numbered):
            numbered = [pair for pair in numbered if self._is_new(*pair)]
        self._add_records(numbered)

    def apply_all(self, changes: Sequence[PreparedWrite]) -> None:
        """Apply changes if all of their conditions hold."""
        self._forget_held(changes)
        if self._create_all(changes):
            return
        for change, stored in zip(changes, self._read_and_check(changes), strict=True):
            if change.only_checks:
                continue
            if change.body is None:
                if stored is not None:
                    self._delete(change, stored)
            elif stored is None:
                numbered = self._numbered([change])
                self._add_new_keys(numbered)
                self._add_records(numbered)
            elif stored[1] != change.body:
                self._replace(change, stored)

    def _create_all(self, changes: Sequence[PreparedWrite]) -> bool:
        """Create all records without reading them. Return False, without effect, if that is not all or one exists."""
        creations = [change for change in changes if change.is_creation]
        checks = [change for change in changes if change.only_checks]
        if len(creations) + len(checks) < len(changes) or not creations or not all(map(self._holds, checks)):
            return False
        numbered = self._numbered(creations)
        if self._add_new_keys(numbered) < len(numbered):
            self.sql.executemany(_DROP_ADDED_KEY, [(*change.table_key, number) for number, change in numbered])
            return False
        self._add_records(numbered)
        return True

    def _holds(self, change: PreparedWrite) -> bool:
        return change.expect is None or check_holds(self.sql, Check(change.key, change.expect))

    def _numbered(self, changes: Sequence[PreparedWrite]) -> list[tuple[int, PreparedWrite]]:
        """Return the changes with the numbers of new records."""
        numbered = list(enumerate(changes, self._next))
        self._next += len(numbered)
        return numbered

    def _add_new_keys(self, numbered: Sequence[tuple[int, PreparedWrite]]) -> int:
        """Add the keys that no record has yet. Return their number."""
        return self.sql.executemany(_ADD_NEW_KEY, [(*change.table_key, number) for number, change in numbered]).rowcount

    def _forget_held(self, changes: Iterable[PreparedWrite]) -> None:
        if self._held is not None and any(change.key == self._held.key for change in changes):
            self._held = None

    def add_entries(self, entries: list[tuple[int, bytes, bytes, bytes, bytes, int]]) -> None:
        """Add entries with the numbers of their records, in the order of the file."""
        entries.sort()
        whole = len(entries) - len(entries) % _ENTRIES_PER_STATEMENT
        for at in range(0, whole, _ENTRIES_PER_STATEMENT):
            self.sql.execute(_ADD_ENTRIES, [*chain.from_iterable(entries[at : at + _ENTRIES_PER_STATEMENT])])
        if whole < len(entries):
            self.sql.executemany(_ADD_ENTRY, entries[whole:])

    def _read_and_check(self, changes: Sequence[PreparedWrite]) -> list[StoredRecord | None]:
        """Return the stored records at the keys of the changes, if all conditions hold."""
        records: list[StoredRecord | None] = []
        failed = []
        for change in changes:
            stored: StoredRecord | None = self.sql.execute(FIND_RECORD, change.table_key).fetchone()
            records.append(stored)
            if change.expect is not None:
                old = None if stored is None else decode_body(stored[1])
                if not condition_holds(change.expect, old):
                    failed.append(FailedCondition(change.position, change.key, change.expect, old))
        if failed:
            raise condition_failed_error(failed)
        return records

    def _is_new(self, number: int, change: PreparedWrite) -> bool:
        """Return whether the key of a record was new. Apply the change if a record exists."""
        is_new: bool = self.sql.execute(_NUMBER_OF, change.table_key).fetchone() == (number,)
        if not is_new:
            self.apply_all([change])
        return is_new

    def _add_records(self, numbered: Sequence[tuple[int, PreparedWrite]]) -> None:
        self.sql.executemany(
            _ADD_RECORD,
            ((number, change.key.hash.encode(), change.table_key[1], change.body) for number, change in numbered),
        )
        self.add_entries([(*entry, number) for number, change in numbered for entry in change.entries])

    def _replace(self, change: PreparedWrite, stored: StoredRecord) -> None:
        number, old_body = stored
        old = self.layout.stored_entries(decode_body(old_body), change.tie)
        if old != change.entries:
            self.sql.executemany(_DROP_ENTRY, [entry for entry in old if entry not in change.entries])
            self.add_entries([(*entry, number) for entry in change.entries if entry not in old])
        self.sql.execute(_CHANGE_RECORD, (change.body, number))

    def _delete(self, change: PreparedWrite, stored: StoredRecord) -> None:
        number, old_body = stored
        self.sql.execute(_DROP_KEY, change.table_key)
        self.sql.executemany(_DROP_ENTRY, self.layout.stored_entries(decode_body(old_body), change.tie))
        self.sql.execute(_DROP_RECORD, (number,))


TOKEN_SECONDS = 600.0

BACKFILL_BATCH = 500
"""records per transaction of a backfill, so that other writes can proceed in between"""


class WriterJob:
    """A request to the writer thread, and the future of its result."""

    apply: Callable[[WriteTransaction], Any]
    """applies the job within the transaction and returns its result"""

    weight: int = 1
    """number of writes in the job"""
    changes_layout: ClassVar[bool] = False
    """the job may change the table definition"""

    def __init__(self) -> None:
        self.future: Future[Any] = get_running_loop().create_future()
        self._fence = current_fence()
        self._prepared_for: TableLayout | None = None
        self.result: Any = None
        self.problem: Exception | None = None

    def prepare_for(self, layout: TableLayout) -> None:
        """Prepare the job outside the transaction, and again if the layout has changed."""
        if self._prepared_for is not layout:
            self._prepare(layout)
            self._prepared_for = layout

    def _prepare(self, layout: TableLayout) -> None:
        pass

    def _is_allowed(self, transaction: WriteTransaction) -> bool:
        """Return whether the fence of the caller allows the job within this transaction."""
        return self._fence is None or transaction.holds(self._fence.check)


class WriteEachJob(WriterJob):
    """Independent writes."""

    def __init__(self, writes: Sequence[Write]) -> None:
        super().__init__()
        self._writes = writes
        self.weight = len(writes)

    def _prepare(self, layout: TableLayout) -> None:
        """Validate and encode each write, and collect the errors of invalid writes."""
        self._changes, self._problems = prepare_each(self._writes, partial(prepare_write, layout))

    def apply(self, transaction: WriteTransaction) -> list[StoreError | None]:
        """Apply the valid writes. Return the error or None of each write."""
        if not self._is_allowed(transaction):
            return [problem or schema_changed_error() for problem in self._problems]
        transaction.put_all([change for change in self._changes if change.is_unconditional_put])
        for change in self._changes:
            if not change.is_unconditional_put:
                try:
                    transaction.apply_all([change])
                except ConditionFailed as problem:
                    self._problems[change.position] = problem
        return self._problems


class TransactionJob(WriterJob):
    """An atomic set of writes, applied once per token."""

    def __init__(self, writes: Sequence[TransactionWrite], token: str, now: float) -> None:
        super().__init__()
        self._writes = writes
        self._token = token
        self._now = now
        self.weight = len(writes)
        self._changes: list[PreparedWrite] = []
        self._digest = b""

    def _prepare(self, layout: TableLayout) -> None:
        """Validate and encode all writes. One invalid write refuses the transaction."""
        self._changes = prepare_transaction(self._writes, self._token, partial(prepare_write, layout))
        if sum(len(change.body or b"") for change in self._changes) > MAX_TRANSACTION_BYTES // 2:
            check_transaction_size(self._writes)
        self._digest = _digest(self._changes)

    def apply(self, transaction: WriteTransaction) -> None:
        """Apply all writes if the token is new and all conditions hold."""
        if transaction.use_token(self._token, self._digest, self._now):
            if not self._is_allowed(transaction):
                raise schema_changed_error()
            transaction.apply_all(self._changes)


def _digest(changes: Sequence[PreparedWrite]) -> bytes:
    """Return the digest by which repeated requests are compared."""
    parts = []
    for change in changes:
        condition: list[Any] | None = None
        if change.expect is not None:
            condition = [change.expect.absent, tagged_values(change.expect.attributes)]
            condition += [sorted(set(change.expect.without))] if change.expect.without else []
        parts.append([*change.key, "check" if change.only_checks else change.parts, condition])
    return blake2b(orjson.dumps(parts, default=tag_number, option=orjson.OPT_SORT_KEYS), digest_size=32).digest()


class LayoutJob(WriterJob):
    """A change of the table definition, or of the entries of added indexes."""

    changes_layout = True

    def __init__(self, change: Callable[[WriteTransaction], Any]) -> None:
        super().__init__()
        self.apply = change


def backfill_batch(transaction: WriteTransaction) -> bool:
    """Backfill one batch of stored records into the indexes with the least progress. Return whether to continue."""
    sql, layout = transaction.sql, transaction.layout
    (filled_to,) = sql.execute("SELECT min(filled_to) FROM indexes").fetchone()
    if filled_to is None:
        return False
    numbers = {number for (number,) in sql.execute("SELECT number FROM indexes WHERE filled_to = ?", (filled_to,))}
    added = replace(layout, indexes=tuple(index for index in layout.indexes if index.number in numbers))
    records = sql.execute(
        "SELECT id, hash, range, body FROM records WHERE id > ? ORDER BY id LIMIT ?", (filled_to, BACKFILL_BATCH)
    ).fetchall()
    transaction.add_entries(
        [
            (*entry, record)
            for record, hash_key, range_key, body in records
            for entry in added.stored_entries(decode_body(body), tie_breaker(hash_key, range_key))
        ]
    )
    reached = records[-1][0] if records else None
    sql.executemany("UPDATE indexes SET filled_to = ? WHERE number = ?", [(reached, number) for number in numbers])
    if not records:
        bump_layout_version(sql)
    return True
