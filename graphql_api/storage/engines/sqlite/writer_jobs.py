"""Jobs of the writer thread. Each job belongs to one waiting caller."""

from abc import ABC, abstractmethod
from asyncio import Future, get_running_loop
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import orjson

from graphql_api.errors import ConditionFailed, StoreError, StoreRefused
from graphql_api.storage import (
    MAX_TRANSACTION_BYTES,
    Expect,
    TableDefinition,
    TransactionWrite,
    Write,
    check_distinct_keys,
    check_transaction,
    check_transaction_size,
    refuse_lone_check,
)
from graphql_api.storage.engines.sqlite import table_layout as layouts
from graphql_api.storage.engines.sqlite.key_bytes import tie_breaker
from graphql_api.storage.engines.sqlite.record_body import decode_body, encode_body
from graphql_api.storage.engines.sqlite.table_layout import TableLayout
from graphql_api.storage.engines.sqlite.write_transaction import PreparedWrite, WriteTransaction, prepare_write

TOKEN_SECONDS = 600.0

BACKFILL_BATCH = 500
"""records per transaction of a backfill, so that other writes can proceed in between"""


class WriterJob(ABC):
    """A request to the writer thread, and the future of its result."""

    weight: int = 1
    """number of writes in the job"""
    changes_layout: ClassVar[bool] = False
    """the job may change the table definition"""

    def __init__(self) -> None:
        self.future: Future[Any] = get_running_loop().create_future()
        self.prepared_for: TableLayout | None = None

    def prepare(self, layout: TableLayout) -> None:
        """Prepare the job outside the transaction. Called again if the layout has changed."""
        self.prepared_for = layout

    @abstractmethod
    def apply(self, transaction: WriteTransaction) -> Any:
        """Apply the job within the transaction and return its result."""


class WriteEachJob(WriterJob):
    """Independent writes."""

    def __init__(self, writes: Sequence[Write]) -> None:
        super().__init__()
        self._writes = writes
        self.weight = len(writes)
        self._changes: list[PreparedWrite] = []
        self._problems: list[StoreError | None] = []

    def prepare(self, layout: TableLayout) -> None:
        """Validate and encode each write, and collect the errors of invalid writes."""
        self._changes, self._problems = [], [None] * len(self._writes)
        for position, write in enumerate(self._writes):
            try:
                refuse_lone_check(write)
                self._changes.append(prepare_write(layout, position, write))
            except StoreError as problem:
                self._problems[position] = problem
        check_distinct_keys(change.key for change in self._changes)
        super().prepare(layout)

    def apply(self, transaction: WriteTransaction) -> list[StoreError | None]:
        """Apply the valid writes. Return the error or None of each write."""
        unconditional = [change for change in self._changes if change.body is not None and change.expect is None]
        transaction.put_all(unconditional)
        for change in self._changes:
            if change.body is None or change.expect is not None:
                try:
                    transaction.apply(change, transaction.read_and_check(change))
                except ConditionFailed as problem:
                    self._problems[change.position] = problem
        return self._problems


class TransactionJob(WriterJob):
    """An atomic set of writes, applied once per token."""

    def __init__(self, writes: Sequence[TransactionWrite], token: str, now: float) -> None:
        super().__init__()
        check_transaction(len(writes), token)
        self._writes = writes
        self._token = token
        self._now = now
        self.weight = len(writes)
        self._changes: list[PreparedWrite] = []

    def prepare(self, layout: TableLayout) -> None:
        """Validate and encode all writes. One invalid write refuses the transaction."""
        self._changes = []
        for position, write in enumerate(self._writes):
            try:
                self._changes.append(prepare_write(layout, position, write))
            except StoreError as problem:
                raise type(problem)(f"write {position}: {problem.message}") from problem
        check_distinct_keys(change.key for change in self._changes)
        if sum(len(change.body or b"") for change in self._changes) > MAX_TRANSACTION_BYTES // 2:
            check_transaction_size(self._writes)
        super().prepare(layout)

    def apply(self, transaction: WriteTransaction) -> None:
        """Apply all writes if the token is new and all conditions hold."""
        sql = transaction.sql
        sql.execute("DELETE FROM tokens WHERE used <= ?", (self._now - TOKEN_SECONDS,))
        digest = self._digest()
        used = sql.execute("SELECT digest FROM tokens WHERE token = ?", (self._token,)).fetchone()
        if used is not None:
            if used[0] != digest:
                raise StoreRefused(
                    f"The token {self._token!r} was used for other writes. Use a new token per set of writes."
                )
            return
        stored_records = transaction.read_and_check_all(self._changes)
        for change, stored in zip(self._changes, stored_records, strict=True):
            transaction.apply(change, stored)
        sql.execute("INSERT INTO tokens (token, digest, used) VALUES (?, ?, ?)", (self._token, digest, self._now))

    def _digest(self) -> bytes:
        parts = []
        for change in self._changes:
            content = "check" if change.only_checks else change.body and orjson.loads(change.body)
            parts.append([*change.key, content, change.expect and _condition_parts(change.expect)])
        return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=32).digest()


def _condition_parts(expect: Expect) -> list[Any]:
    """Return a condition in the form in which repeated requests are compared."""
    parts = [expect.absent, orjson.loads(encode_body(expect.attributes))]
    return [*parts, sorted(set(expect.without))] if expect.without else parts


class DefineTableJob(WriterJob):
    """Creates the table, or adds indexes that are backfilled later."""

    changes_layout = True

    def __init__(self, definition: TableDefinition) -> None:
        super().__init__()
        self._definition = definition

    def apply(self, transaction: WriteTransaction) -> None:
        """Add what the file lacks of the definition."""
        layouts.define_table(transaction.sql, self._definition)


class BackfillJob(WriterJob):
    """Backfills one batch of stored records into added indexes. The result is whether to continue."""

    changes_layout = True

    def apply(self, transaction: WriteTransaction) -> bool:
        """Backfill one batch of the indexes with the least progress."""
        sql = transaction.sql
        (filled_to,) = sql.execute("SELECT min(filled_to) FROM indexes").fetchone()
        if filled_to is None:
            return False
        transaction.catch_up_entries(0)  # so that every stored record is current
        numbers = {number for (number,) in sql.execute("SELECT number FROM indexes WHERE filled_to = ?", (filled_to,))}
        indexes = [index for index in transaction.layout.indexes if index.number in numbers]
        records = sql.execute(
            "SELECT id, hash, range, body FROM records WHERE id > ? ORDER BY id LIMIT ?", (filled_to, BACKFILL_BATCH)
        ).fetchall()
        entries = []
        for record, hash_key, range_key, body in records:
            item, tie = decode_body(body), tie_breaker(hash_key, range_key, transaction.layout.tie_order)
            index_entries = (layouts.stored_entry(index, item, tie) for index in indexes)
            entries += [(*entry, record) for entry in index_entries if entry is not None]
        transaction.add_entries(entries)
        reached = records[-1][0] if records else None
        sql.executemany("UPDATE indexes SET filled_to = ? WHERE number = ?", [(reached, number) for number in numbers])
        if not records:
            layouts.bump_layout_version(sql)
        return True


class CatchUpJob(WriterJob):
    """Brings all index entries up to date."""

    def apply(self, transaction: WriteTransaction) -> None:
        """Apply all lagging changes."""
        transaction.catch_up_entries(0)
