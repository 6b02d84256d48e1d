"""The file: how it is recognised, made and opened (docs/engines.md shows its tables)."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from graphql_api.errors import Conflict, StoreError, StoreUnavailable, WrongTable
from graphql_api.storage.engines.sqlite.test_switches import TieOrder

APPLICATION_ID = 0x5368514C
"""`ShQL`"""

FORMAT = 1
"""Kept in user_version; rises when an older release could no longer read or write the file."""

BUSY_SECONDS = 10.0
"""how long a write waits for another process"""

READ_BUSY_SECONDS = 1.0
"""how long a read may hold up the event loop while another process recovers the log"""

_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    """CREATE TABLE indexes (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, hash_attribute TEXT NOT NULL,
        range_attribute TEXT NOT NULL, range_type TEXT NOT NULL, projection TEXT NOT NULL, filled_to INTEGER)""",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, hash BLOB NOT NULL, range BLOB NOT NULL, body BLOB NOT NULL)",
    """CREATE TABLE entries (idx INTEGER NOT NULL, base BLOB NOT NULL, value BLOB NOT NULL, shard BLOB NOT NULL,
        tie BLOB NOT NULL, record INTEGER NOT NULL, PRIMARY KEY (idx, base, value, shard, tie)) WITHOUT ROWID""",
    "CREATE TABLE tokens (token TEXT PRIMARY KEY, digest BLOB NOT NULL, used REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX tokens_used ON tokens (used)",
    "CREATE TABLE lagging (turn INTEGER PRIMARY KEY AUTOINCREMENT, old INTEGER, new INTEGER)",
)

T = TypeVar("T")


def unavailable(path: Path, problem: sqlite3.Error) -> StoreUnavailable:
    """What a caller learns of an error of SQLite's."""
    return StoreUnavailable(f"{path}: SQLite reports {problem}. Try again; look after the disk if it goes on.")


def not_begun(path: Path, problem: sqlite3.Error) -> StoreError:
    """What a caller learns whose transaction could not begin."""
    if not _is_busy(problem):
        error = unavailable(path, problem)
        error.certain = True
        return error
    return Conflict(
        f"{path}: other writes have kept the file locked for {BUSY_SECONDS:g} seconds, and nothing is written. Try "
        "again; look for a process that holds it open if it goes on."
    )


def _is_busy(problem: sqlite3.Error) -> bool:
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def prepare_file(path: Path, tie_order: TieOrder) -> None:
    """Makes the file ours if it is new, and refuses it if it is somebody else's or newer than this release."""
    if str(path) == ":memory:":
        raise WrongTable("Several connections share the store, so it cannot live in memory. Give a path of a file.")
    try:
        _patiently(lambda: _prepare(path, tie_order))
    except sqlite3.DatabaseError as problem:
        if getattr(problem, "sqlite_errorcode", None) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise WrongTable(f"{path} is no SQLite database, or a damaged one. Give another path.") from problem
        raise unavailable(path, problem) from problem


def _patiently(action: Callable[[], T]) -> T:
    """Tries until other processes let go: SQLite does not wait by itself for a change of the journal mode."""
    deadline = monotonic() + BUSY_SECONDS
    while True:
        try:
            return action()
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem) or monotonic() > deadline:
                raise
            sleep(0.01)


def _prepare(path: Path, tie_order: TieOrder) -> None:
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as sql:
        sql.execute("BEGIN")  # all that tells whose file it is, at one moment: another process may be making it
        new = _is_new(path, sql)
        sql.execute("COMMIT")
        if new:
            sql.execute("PRAGMA journal_mode = WAL")
            _create(path, sql, tie_order)
        (found,) = sql.execute("SELECT value FROM meta WHERE name = 'tie_order'").fetchone()
        if found != tie_order:
            raise WrongTable(f"{path} orders ties by {found!r}, not by {tie_order!r}. Open it with its own tie order.")


def _is_new(path: Path, sql: sqlite3.Connection) -> bool:
    (application,) = sql.execute("PRAGMA application_id").fetchone()
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == APPLICATION_ID:
        if version > FORMAT:
            raise WrongTable(
                f"{path} has format {version}, this release knows {FORMAT}. Use a newer release of ShardQL."
            )
        return False
    if application or version or tables:
        raise WrongTable(f"{path} belongs to another program. Give another path.")
    return True


def _create(path: Path, sql: sqlite3.Connection, tie_order: TieOrder) -> None:
    sql.execute("BEGIN IMMEDIATE")
    try:
        if _is_new(path, sql):  # another process may have been faster
            for statement in _SCHEMA:
                sql.execute(statement)
            sql.execute("INSERT INTO meta VALUES ('tie_order', ?), ('layout', 0)", (tie_order,))
            sql.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            sql.execute(f"PRAGMA user_version = {FORMAT}")
        sql.execute("COMMIT")
    except BaseException:
        if sql.in_transaction:
            sql.execute("ROLLBACK")
        raise


def connect_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes: every commit is on the disk before it returns."""
    sql = _connect(path, BUSY_SECONDS, cache_kib=128 * 1024)
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA wal_autocheckpoint = 16000")
    return sql


def connect_reader(path: Path) -> sqlite3.Connection:
    """The connection that answers reads; it cannot write."""
    sql = _connect(path, READ_BUSY_SECONDS, cache_kib=32 * 1024)
    sql.execute("PRAGMA query_only = ON")
    return sql


def _connect(path: Path, patience: float, cache_kib: int) -> sqlite3.Connection:
    try:
        sql = sqlite3.connect(
            path, timeout=patience, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        sql.execute(f"PRAGMA cache_size = -{cache_kib}")
    except sqlite3.Error as problem:
        raise unavailable(path, problem) from problem
    return sql
