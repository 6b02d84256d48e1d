"""The health of an open database file, for readiness probes: it writes a value, reads it back, and samples records."""

import os
import sqlite3
from asyncio import Future, to_thread, wait
from contextlib import closing
from pathlib import Path
from random import Random
from time import monotonic

from graphql_api.errors import StoreDamaged, StoreUnavailable, for_one_of_several
from graphql_api.storage import Key, decode_body
from graphql_api.storage.engines.sqlite.database_file import (
    BUSY_SECONDS,
    STORAGE_PROBLEMS,
    Access,
    connect_reader,
    storage_error,
)
from graphql_api.storage.engines.sqlite.file_watch import FileWatch
from graphql_api.storage.engines.sqlite.group_commit import GroupCommitWriter
from graphql_api.storage.engines.sqlite.table_layout import encode_table_key
from graphql_api.storage.engines.sqlite.writer_jobs import FIND_RECORD, LayoutJob, WriteTransaction

FRESH_SECONDS = 1.0
"""age below which a result is used again, so that frequent probes cost little"""

MIN_FREE_BYTES = 1 << 20
"""free space on the disk below which writes are about to fail"""

SPACE_BYTES = 1 << 18
"""written after a failed commit, to verify that there is space again"""

SAMPLED_RECORDS = 16
"""records that a probe reads from each place"""

_WAIT_SECONDS = 0.5
"""how long a probe waits for its own commit, while other processes write"""

_COUNT_PROBE = "INSERT INTO meta VALUES ('probe', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value"
_READ_PROBE = "SELECT value FROM meta WHERE name = 'probe'"
_RECORDS = "SELECT id, hash, range, body FROM records"
_ENTRY_ORDERS = ("idx, base, value, shard, tie", "idx DESC, base DESC, value DESC, shard DESC, tie DESC")


class FileHealth:
    """Checks an open file. A file that was found damaged once stays so until it is opened again."""

    def __init__(self, path: Path, access: Access, watch: FileWatch) -> None:
        self.damage: StoreDamaged | None = None
        """damage that a read, a write or a check has met"""
        self._path = path
        self._access = access
        self._watch = watch
        self._checked_at = float("-inf")
        self._random = Random()  # noqa: S311 - samples, no secrets

    async def check(self, writer: GroupCommitWriter | None) -> None:
        """Raise a `StoreError` if the file is not the open one, cannot be written, or cannot be read."""
        self.raise_damage()
        self._watch.check()
        if monotonic() - self._checked_at > FRESH_SECONDS:
            try:
                written = None if writer is None else await self._write(writer)
                await to_thread(self._read, written)
            except StoreDamaged as problem:
                self.damage = problem
            self.raise_damage()
            self._checked_at = monotonic()

    def raise_damage(self) -> None:
        """Raise the damage that is known."""
        if self.damage is not None:
            raise for_one_of_several(self.damage)

    async def _write(self, writer: GroupCommitWriter) -> int | None:
        """Commit a value and return it. While other commits are in progress, their outcome decides instead."""
        state = os.statvfs(self._path)
        if 0 <= state.f_bavail * state.f_frsize < MIN_FREE_BYTES and state.f_blocks:
            raise StoreUnavailable(f"The disk of {self._path} is full. Free space on it.")
        if writer.busy_since is None:
            needs_space = writer.failure is not None
            if needs_space:
                await writer.submit(LayoutJob(_use_space))
            commit = writer.submit(LayoutJob(_count_probe))
            done, _ = await wait([commit], timeout=_WAIT_SECONDS)
            if done:
                return int(commit.result())
            commit.add_done_callback(_retrieve_exception)
        since = writer.busy_since
        if since is not None and monotonic() - since > 2 * BUSY_SECONDS:
            raise StoreUnavailable(f"A commit to {self._path} has not ended for {monotonic() - since:.0f} seconds.")
        if writer.failure is not None:
            raise for_one_of_several(writer.failure)
        return None

    def _read(self, written: int | None) -> None:
        """Read the value and a sample of the records, by a connection without cached pages."""
        try:
            with closing(connect_reader(self._path, self._access)) as sql:
                sql.execute("BEGIN")
                stored = sql.execute(_READ_PROBE).fetchone()
                if written is not None and (stored is None or stored[0] < written):
                    raise StoreDamaged(f"{self._path} does not return what was written to it. Check the disk.")
                self._sample(sql)
        except STORAGE_PROBLEMS as problem:
            raise storage_error(self._path, problem) from problem

    def _sample(self, sql: sqlite3.Connection) -> None:
        (highest,) = sql.execute("SELECT max(id) FROM records").fetchone()
        start = self._random.randint(1, highest or 1)
        records = [
            *sql.execute(f"{_RECORDS} ORDER BY id LIMIT ?", (SAMPLED_RECORDS,)),
            *sql.execute(f"{_RECORDS} ORDER BY id DESC LIMIT ?", (SAMPLED_RECORDS,)),
            *sql.execute(f"{_RECORDS} WHERE id >= ? ORDER BY id LIMIT ?", (start, SAMPLED_RECORDS)),
        ]
        for number, hash_key, range_key, body in records:
            decode_body(body)
            key = Key(hash_key.decode(), range_key.decode())
            found = sql.execute(FIND_RECORD, encode_table_key(key)).fetchone()
            if found is None or found[0] != number:
                self.damage = StoreDamaged(f"{self._path} is damaged: a record has no key. Restore it from a backup.")
        for order in _ENTRY_ORDERS:
            sql.execute(f"SELECT record FROM entries ORDER BY {order} LIMIT ?", (SAMPLED_RECORDS,)).fetchall()


def _count_probe(transaction: WriteTransaction) -> int:
    transaction.sql.execute("DELETE FROM meta WHERE name = 'probe space'")
    (value,) = transaction.sql.execute(_COUNT_PROBE).fetchone()
    return int(value)


def _use_space(transaction: WriteTransaction) -> None:
    transaction.sql.execute("REPLACE INTO meta VALUES ('probe space', zeroblob(?))", (SPACE_BYTES,))


def _retrieve_exception(commit: Future[object]) -> None:
    """Mark the exception as retrieved: asyncio would log it otherwise."""
    if not commit.cancelled():
        commit.exception()
