"""What the writer is asked to do; each job is one caller waiting for an answer."""

from abc import ABC, abstractmethod
from asyncio import Future, get_running_loop
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, ClassVar

import orjson

from graphql_api.errors import ConditionFailed, StoreError, StoreRefused
from graphql_api.storage import (
    MAX_TOGETHER_BYTES,
    Expect,
    TableDefinition,
    TogetherWrite,
    Write,
    check_together,
    check_together_size,
    refuse_check,
    refuse_doubles,
)
from graphql_api.storage.engines.sqlite import table_layout as layouts
from graphql_api.storage.engines.sqlite.key_bytes import tie_of
from graphql_api.storage.engines.sqlite.record_body import decode_body, encode_body
from graphql_api.storage.engines.sqlite.table_layout import Layout
from graphql_api.storage.engines.sqlite.write_transaction import Change, Transaction, prepare

TOKEN_SECONDS = 600.0

FILL_BATCH = 500
"""records that one transaction of a backfill looks at, so that writes of others get their turn"""


class Job(ABC):
    """A caller's request, and the future it waits for."""

    weight: int = 1
    """how many writes it stands for"""
    redefines: ClassVar[bool] = False
    """the table's definition may be another one afterwards"""

    def __init__(self) -> None:
        self.future: Future[Any] = get_running_loop().create_future()
        self.prepared_for: Layout | None = None

    def prepare(self, layout: Layout) -> None:
        """Does what needs no transaction; called again when the layout turns out to be another one."""
        self.prepared_for = layout

    @abstractmethod
    def apply(self, transaction: Transaction) -> Any:
        """The answer, from within the transaction."""


class WriteEach(Job):
    """Writes that succeed or fail one by one."""

    def __init__(self, writes: Sequence[Write]) -> None:
        super().__init__()
        self._writes = writes
        self.weight = len(writes)
        self._changes: list[Change] = []
        self._problems: list[StoreError | None] = []

    def prepare(self, layout: Layout) -> None:
        """Checks and encodes each write, and remembers which are wrong by themselves."""
        self._changes, self._problems = [], [None] * len(self._writes)
        for position, write in enumerate(self._writes):
            try:
                refuse_check(write)
                self._changes.append(prepare(layout, position, write))
            except StoreError as problem:
                self._problems[position] = problem
        refuse_doubles(change.key for change in self._changes)
        super().prepare(layout)

    def apply(self, transaction: Transaction) -> list[StoreError | None]:
        """Applies those that are right; tells for each write what was wrong."""
        plain = [change for change in self._changes if change.body is not None and change.expect is None]
        transaction.put_all(plain)
        for change in self._changes:
            if change.body is None or change.expect is not None:
                try:
                    transaction.apply(change, transaction.find(change))
                except ConditionFailed as problem:
                    self._problems[change.position] = problem
        return self._problems


class WriteTogether(Job):
    """Writes that all happen or not at all, once for each token."""

    def __init__(self, writes: Sequence[TogetherWrite], token: str, now: float) -> None:
        super().__init__()
        check_together(len(writes), token)
        self._writes = writes
        self._token = token
        self._now = now
        self.weight = len(writes)
        self._changes: list[Change] = []

    def prepare(self, layout: Layout) -> None:
        """Checks and encodes all writes; the first wrong one refuses them all."""
        self._changes = []
        for position, write in enumerate(self._writes):
            try:
                self._changes.append(prepare(layout, position, write))
            except StoreError as problem:
                raise type(problem)(f"write {position}: {problem.message}") from problem
        refuse_doubles(change.key for change in self._changes)
        if sum(len(change.body or b"") for change in self._changes) > MAX_TOGETHER_BYTES // 2:
            check_together_size(self._writes)
        super().prepare(layout)

    def apply(self, transaction: Transaction) -> None:
        """Applies all writes if all expectations hold and the token is new."""
        sql = transaction.sql
        sql.execute("DELETE FROM tokens WHERE used <= ?", (self._now - TOKEN_SECONDS,))
        digest = self._digest()
        used = sql.execute("SELECT digest FROM tokens WHERE token = ?", (self._token,)).fetchone()
        if used is not None:
            if used[0] != digest:
                raise StoreRefused(
                    f"The token {self._token!r} was used for other writes. Make a new token for each set."
                )
            return
        standing = transaction.find_all(self._changes)
        for change, stored in zip(self._changes, standing, strict=True):
            transaction.apply(change, stored)
        sql.execute("INSERT INTO tokens (token, digest, used) VALUES (?, ?, ?)", (self._token, digest, self._now))

    def _digest(self) -> bytes:
        parts = []
        for change in self._changes:
            does = "check" if change.only_checks else change.body and orjson.loads(change.body)
            parts.append([*change.key, does, change.expect and _told(change.expect)])
        return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=32).digest()


def _told(expect: Expect) -> list[Any]:
    """An expectation as it is compared with that of another attempt."""
    told = [expect.absent, orjson.loads(encode_body(expect.attributes))]
    return [*told, sorted(set(expect.without))] if expect.without else told


class Define(Job):
    """Makes the table, or adds indexes that are still to be filled."""

    redefines = True

    def __init__(self, definition: TableDefinition) -> None:
        super().__init__()
        self._definition = definition

    def apply(self, transaction: Transaction) -> None:
        """Adds what the definition has and the file has not."""
        layouts.define(transaction.sql, self._definition)


class Fill(Job):
    """Gives some more stored records their entries in indexes that were added; answers whether there is more to do."""

    redefines = True

    def apply(self, transaction: Transaction) -> bool:
        """Fills one batch of the indexes that are furthest behind."""
        sql = transaction.sql
        (filled_to,) = sql.execute("SELECT min(filled_to) FROM indexes").fetchone()
        if filled_to is None:
            return False
        transaction.catch_up(0)  # so that every stored record is the present one
        numbers = {number for (number,) in sql.execute("SELECT number FROM indexes WHERE filled_to = ?", (filled_to,))}
        indexes = [index for index in transaction.layout.indexes if index.number in numbers]
        records = sql.execute(
            "SELECT id, hash, range, body FROM records WHERE id > ? ORDER BY id LIMIT ?", (filled_to, FILL_BATCH)
        ).fetchall()
        entries = []
        for record, hash_key, range_key, body in records:
            item, tie = decode_body(body), tie_of(hash_key, range_key, transaction.layout.tie_order)
            found = (layouts.stored_entry(index, item, tie) for index in indexes)
            entries += [(*entry, record) for entry in found if entry is not None]
        transaction.add_entries(entries)
        reached = records[-1][0] if records else None
        sql.executemany("UPDATE indexes SET filled_to = ? WHERE number = ?", [(reached, number) for number in numbers])
        if not records:
            layouts.touch(sql)
        return True


class Settle(Job):
    """Brings every index entry up to date."""

    def apply(self, transaction: Transaction) -> None:
        """Applies every change that still waits."""
        transaction.catch_up(0)
