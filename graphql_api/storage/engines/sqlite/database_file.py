"""The database file: how it is identified, created and opened. docs/explanation/engines.md describes its tables."""

import os
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic, sleep
from typing import Literal, TypeAlias
from urllib.parse import quote

import orjson

from graphql_api.errors import Conflict, StoreDamaged, StoreDenied, StoreError, StoreUnavailable, WrongTable

STORAGE_PROBLEMS = (sqlite3.Error, orjson.JSONDecodeError)
"""exceptions that `storage_error` converts: those of SQLite, and of the decoding of records"""

Access: TypeAlias = Literal["rw", "ro", "immutable"]
"""how a connection opens the file; `immutable`: read-only, in a folder that is read-only too"""

APPLICATION_ID = 0x5368514C
"""`ShQL`"""

FORMAT = 1
"""Stored in user_version. Incremented when older releases cannot read or write the file."""

BUSY_SECONDS = 10.0
"""how long a write waits for the lock of another process"""

READ_BUSY_SECONDS = 1.0
"""how long a read may block the event loop while another process recovers the log"""

_DAMAGED = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})

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


# --- errors ----------------------------------------------------------------------------------------------------


def storage_error(path: Path, problem: Exception) -> StoreError:
    """Return the error for an exception of SQLite, or for a record that cannot be decoded."""
    code = _error_code(problem)
    if code in _DAMAGED or not isinstance(problem, sqlite3.Error):
        return StoreDamaged(f"{path} is damaged: {problem}. Restore it from a backup.")
    if code == sqlite3.SQLITE_READONLY:
        return StoreDenied(f"{path} cannot be written: {problem}. Change its permissions, or open it read-only.")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"{path}: the disk is full, and nothing is written. Free space on it.")
    return StoreUnavailable(f"{path}: SQLite reports {problem}. Try again. If it persists, check the disk.")


def write_error(path: Path, problem: Exception, *, committing: bool) -> StoreError:
    """Return the error for a failed transaction. `committing`: whether COMMIT was sent, so it may have succeeded."""
    if _is_busy(problem):
        return Conflict(
            f"{path}: other writes locked the file for {BUSY_SECONDS:g} seconds, and nothing is written. Try again. If "
            "it persists, look for a process that holds a transaction open."
        )
    error = storage_error(path, problem)
    if isinstance(error, StoreUnavailable):  # A commit that finds no space has not written its last frame.
        error.certain = not committing or _error_code(problem) == sqlite3.SQLITE_FULL
    return error


def _error_code(problem: Exception) -> int:
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF


def _is_busy(problem: Exception) -> bool:
    return _error_code(problem) == sqlite3.SQLITE_BUSY


# --- preparing -------------------------------------------------------------------------------------------------


def prepare_file(path: Path) -> None:
    """Create the file if it is new. Refuse a file of another program or of a later format."""
    _refuse_memory(path)
    deadline = monotonic() + BUSY_SECONDS
    while True:  # SQLite itself does not wait for locks of other processes when it changes the journal mode.
        try:
            _create_private(path)
            _create_or_check(path)
        except sqlite3.DatabaseError as problem:
            _refuse_damaged(path, problem)
            if not _is_busy(problem) or monotonic() > deadline:
                raise storage_error(path, problem) from problem
            sleep(0.01)
        else:
            return


def readable_access(path: Path) -> Access:
    """Return how to open a file without writing. Refuse a missing file, or one of another program."""
    _refuse_memory(path)
    if not path.exists():
        raise StoreUnavailable(f"{path} does not exist, and nothing is created in read-only mode. Name another file.")
    try:
        _check(path, "ro")
    except sqlite3.DatabaseError as problem:
        _refuse_damaged(path, problem)
        if _error_code(problem) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise storage_error(path, problem) from problem
    else:
        return "ro"
    # The folder is not writable, and SQLite keeps an index of the log in it. A file without a log needs none.
    log = log_path(path)
    if log.exists() and log.stat().st_size:
        raise StoreUnavailable(
            f"{path} has unmerged changes in {log.name}, which need write access to the folder once: open it with a "
            "process that may write, and close it."
        )
    try:
        _check(path, "immutable")
    except sqlite3.DatabaseError as problem:
        raise storage_error(path, problem) from problem
    return "immutable"


def _refuse_memory(path: Path) -> None:
    if str(path) == ":memory:":
        raise WrongTable("An in-memory database cannot be shared by several connections. Use the path of a file.")


def _refuse_damaged(path: Path, problem: sqlite3.DatabaseError) -> None:
    if _error_code(problem) in _DAMAGED:
        raise WrongTable(f"{path} is not a SQLite database, or is damaged. Use another path.") from problem


def _create_private(path: Path) -> None:
    """Create a file that only its owner can read and write, unless it exists. SQLite gives its log the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as problem:
        raise StoreUnavailable(
            f"{path} cannot be created: {problem.strerror}. Check the permissions of its folder."
        ) from problem


def _create_or_check(path: Path) -> None:
    with closing(_connect(path, "rw", BUSY_SECONDS)) as sql:
        sql.execute("BEGIN")  # reads of one transaction are consistent while another process creates the file
        is_new = _is_new_file(path, sql)
        sql.execute("COMMIT")
        if is_new:
            sql.execute("PRAGMA journal_mode = WAL")
            _create(path, sql)
        _check_options(path, sql)


def _check(path: Path, access: Access) -> None:
    with closing(_connect(path, access, BUSY_SECONDS)) as sql:
        if _is_new_file(path, sql):
            raise WrongTable(f"{path} is empty, and nothing is created in read-only mode. Use another path.")
        _check_options(path, sql)


def _check_options(path: Path, sql: sqlite3.Connection) -> None:
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


# --- connecting ------------------------------------------------------------------------------------------------


def log_path(path: Path) -> Path:
    """Return the path of the write-ahead log, which SQLite keeps next to the file that a symbolic link names."""
    return Path(f"{os.path.realpath(path)}-wal")


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the connection for writes. A commit is on disk before it returns."""
    sql = _open(path, "rw", BUSY_SECONDS, cache_kib=128 * 1024)
    sql.execute("PRAGMA synchronous = FULL")
    sql.execute("PRAGMA wal_autocheckpoint = 16000")
    return sql


def connect_reader(path: Path, access: Access = "rw", *, cache_kib: int = 32 * 1024) -> sqlite3.Connection:
    """Open a read-only connection."""
    sql = _open(path, access, READ_BUSY_SECONDS, cache_kib)
    sql.execute("PRAGMA query_only = ON")
    return sql


def _open(path: Path, access: Access, busy_seconds: float, cache_kib: int) -> sqlite3.Connection:
    try:
        with ExitStack() as on_failure:
            sql = on_failure.enter_context(closing(_connect(path, access, busy_seconds)))
            sql.execute(f"PRAGMA cache_size = -{cache_kib}")
            sql.execute("SELECT count(*) FROM meta").fetchone()  # Opens the log.
            on_failure.pop_all()
    except sqlite3.Error as problem:
        raise storage_error(path, problem) from problem
    return sql


def _connect(path: Path, access: Access, busy_seconds: float) -> sqlite3.Connection:
    """Open an existing file. With `immutable`, SQLite takes no locks and expects that the file never changes."""
    options = "mode=ro&immutable=1" if access == "immutable" else f"mode={access}"
    return sqlite3.connect(
        f"file:{quote(str(path))}?{options}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
