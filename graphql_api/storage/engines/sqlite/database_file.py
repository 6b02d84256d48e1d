"""The database file: how it is identified, created and opened. docs/explanation/engines.md describes its tables."""

import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

from graphql_api.errors import Conflict, StoreError, StoreUnavailable, WrongTable

APPLICATION_ID = 0x5368514C
"""`ShQL`"""

FORMAT = 1
"""Stored in user_version. Incremented when older releases cannot read or write the file."""

BUSY_SECONDS = 10.0
"""how long a write waits for the lock of another process"""

READ_BUSY_SECONDS = 1.0
"""how long a read may block the event loop while another process recovers the log"""

_TIE_ORDER = "hashed"
"""earlier releases had a test option for another order, and expect this row and the table `lagging`"""

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


def unavailable_error(path: Path, problem: sqlite3.Error) -> StoreUnavailable:
    """Return the error for an exception of SQLite."""
    return StoreUnavailable(f"{path}: SQLite reports {problem}. Try again. If it persists, check the disk.")


def begin_error(path: Path, problem: sqlite3.Error) -> StoreError:
    """Return the error for a transaction that could not begin."""
    if not _is_busy(problem):
        error = unavailable_error(path, problem)
        error.certain = True
        return error
    return Conflict(
        f"{path}: other writes locked the file for {BUSY_SECONDS:g} seconds, and nothing is written. Try again. If it "
        "persists, look for a process that holds a transaction open."
    )


def _is_busy(problem: sqlite3.Error) -> bool:
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def prepare_file(path: Path) -> None:
    """Create the file if it is new. Refuse a file of another program or of a later format."""
    if str(path) == ":memory:":
        raise WrongTable("An in-memory database cannot be shared by several connections. Use the path of a file.")
    deadline = monotonic() + BUSY_SECONDS
    while True:  # SQLite itself does not wait for locks of other processes when it changes the journal mode.
        try:
            _create_or_check(path)
        except sqlite3.DatabaseError as problem:
            if getattr(problem, "sqlite_errorcode", None) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise WrongTable(f"{path} is not a SQLite database, or is damaged. Use another path.") from problem
            if not _is_busy(problem) or monotonic() > deadline:
                raise unavailable_error(path, problem) from problem
            sleep(0.01)
        else:
            return


def _create_or_check(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as sql:
        sql.execute("BEGIN")  # reads of one transaction are consistent while another process creates the file
        is_new = _is_new_file(path, sql)
        sql.execute("COMMIT")
        if is_new:
            sql.execute("PRAGMA journal_mode = WAL")
            _create(path, sql)
        (tie_order,) = sql.execute("SELECT value FROM meta WHERE name = 'tie_order'").fetchone()
        (lagging,) = sql.execute("SELECT count(*) FROM lagging").fetchone()
        if tie_order != _TIE_ORDER or lagging:
            raise WrongTable(f"{path} was written with test options of an earlier release. Use another path.")


def _is_new_file(path: Path, sql: sqlite3.Connection) -> bool:
    (application_id,) = sql.execute("PRAGMA application_id").fetchone()
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application_id == APPLICATION_ID:
        if version > FORMAT:
            raise WrongTable(
                f"{path} has format {version}, this release supports {FORMAT}. Use a newer release of ShardQL."
            )
        return False
    if application_id or version or tables:
        raise WrongTable(f"{path} belongs to another program. Use another path.")
    return True


def _create(path: Path, sql: sqlite3.Connection) -> None:
    with sql:  # commits or rolls back
        sql.execute("BEGIN IMMEDIATE")
        if _is_new_file(path, sql):  # another process may have created the tables
            for statement in _SCHEMA:
                sql.execute(statement)
            sql.execute("INSERT INTO meta VALUES ('tie_order', ?), ('layout', 0)", (_TIE_ORDER,))
            sql.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            sql.execute(f"PRAGMA user_version = {FORMAT}")


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the connection for writes. A commit is on disk before it returns."""
    sql = _connect(path, BUSY_SECONDS, cache_kib=128 * 1024)
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA wal_autocheckpoint = 16000")
    return sql


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the read-only connection."""
    sql = _connect(path, READ_BUSY_SECONDS, cache_kib=32 * 1024)
    sql.execute("PRAGMA query_only = ON")
    return sql


def _connect(path: Path, busy_seconds: float, cache_kib: int) -> sqlite3.Connection:
    try:
        sql = sqlite3.connect(
            path, timeout=busy_seconds, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        sql.execute(f"PRAGMA cache_size = -{cache_kib}")
    except sqlite3.Error as problem:
        raise unavailable_error(path, problem) from problem
    return sql
