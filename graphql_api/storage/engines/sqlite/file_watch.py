"""Detects that the open database file is no longer the file at its path, or has lost its end."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Lock

from graphql_api.errors import StoreDamaged, StoreError, StoreUnavailable
from graphql_api.storage.engines.sqlite.database_file import Access, connect_reader, log_path

_REMEDY = "Restore the file if it is needed, then restart the server."


class FileWatch:
    """The identity of an open database file and its log: device, inode, and the size that they had at least.

    SQLite itself continues with a file that was deleted or replaced. Its commits then reach a file that no other
    process can open. A file that became shorter, as it does after a `VACUUM`, is verified completely.
    """

    def __init__(self, path: Path, access: Access) -> None:
        """Remember the file at the path, which is opened next."""
        self._path = path
        self._access = access
        self._lock = Lock()
        self._known = {path: _read_state(path)}

    def add_log(self) -> None:
        """Remember the write-ahead log too, if the open file has one."""
        log = log_path(self._path)
        if log.exists():
            self._known[log] = _read_state(log)

    def check(self) -> None:
        """Raise `StoreDamaged` if a path does not name the open file, or if the file has lost data."""
        for path, known in self._known.items():
            present = _read_state(path)
            if present.st_ino != known.st_ino or present.st_dev != known.st_dev:
                raise StoreDamaged(f"{path} was replaced by another file while it was open. {_REMEDY}")
            if present.st_size != known.st_size or self._access == "immutable":
                self._note_size(path)

    def _note_size(self, path: Path) -> None:
        with self._lock:  # The event loop and the writer thread check at the same time.
            present, known = _read_state(path), self._known[path]
            changed = (present.st_size, present.st_mtime_ns) != (known.st_size, known.st_mtime_ns)
            if self._access == "immutable" and (changed or log_path(path).exists()):
                raise StoreDamaged(f"{path} has changed while it was served read-only. Restart the server.")
            if present.st_size < known.st_size:
                verify_file(self._path, self._access)
            self._known[path] = present


def _read_state(path: Path) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116 - called for every read
    except FileNotFoundError:
        raise StoreDamaged(f"{path} was removed while it was open. {_REMEDY}") from None
    except OSError as problem:
        raise StoreUnavailable(f"{path} cannot be reached: {problem.strerror}. Check the disk.") from problem


def verify_file(path: Path, access: Access) -> None:
    """Raise `StoreDamaged` unless the structure of the whole file is consistent, without what a cache holds."""
    try:
        with closing(connect_reader(path, access)) as sql:
            (result,) = sql.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as problem:
        result = str(problem)
    except StoreError as problem:
        result = problem.message
    if result != "ok":
        raise StoreDamaged(f"{path} became shorter while it was open, and is damaged: {result} {_REMEDY}")
