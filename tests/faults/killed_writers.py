"""A process that forks writers of a SQLite file. Each writer reports its acknowledged writes until it is killed.

The process outlives its writers, so that no writer has to import the package again.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.values import (
    Check,
    Delete,
    Expect,
    IndexDefinition,
    Key,
    Put,
    TableDefinition,
    TransactionWrite,
    Write,
)
from tests.support.dynamodb_servers import ROOT

TABLE = TableDefinition(
    (IndexDefinition("byText", "textHash", "text"), IndexDefinition("byNumber", "numberHash", "number", "N"))
)
FIXED = Key("fixed!", "r")
BATCH = 5


def record(key: Key, number: int, **attributes: Any) -> dict[str, Any]:
    """A record with entries in both indexes, at positions that follow its number."""
    indexed = {"textHash": f"t!{number % 3}", "text": f"{number:06}", "numberHash": "n!", "number": -number}
    return {"hashKey": key.hash, "rangeKey": key.range, **indexed, **attributes}


def batch(name: str, number: int) -> Sequence[Write]:
    """A batch of new records."""
    return [Put(record(Key(f"batch-{name}!", f"{number:06}-{part}"), number)) for part in range(BATCH)]


def change(name: str, number: int) -> Put:
    """A write that moves one record to its next position in both indexes."""
    expect = Expect(attributes={"number": 1 - number}) if number else Expect(absent=True)
    return Put(record(Key(f"change-{name}!", "r"), number), expect)


def move_transaction(name: str, number: int) -> Sequence[TransactionWrite]:
    """A transaction that replaces the previous record by the next one, and counts the moves."""
    hash_key = f"move-{name}!"
    counter = {"hashKey": hash_key, "rangeKey": "counter", "n": number + 1}
    return [
        Delete(Key(hash_key, f"{number - 1:06}"), Expect() if number else Expect(absent=True)),
        Put(record(Key(hash_key, f"{number:06}"), number), Expect(absent=True)),
        Check(FIXED, Expect(without=("n",))),
        Put(counter, Expect(attributes={"n": number}) if number else Expect(absent=True)),
    ]


async def _write_forever(path: str, name: str, pages: int) -> None:
    """Execute batches, changes and moves concurrently. Checkpoint the log after this number of pages."""
    store = await open_sqlite(path)
    store.writer._sql.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    await asyncio.gather(_batches(store, name), _changes(store, name), _moves(store, name))


async def _batches(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        assert list(await store.write(batch(name, number))) == [None] * BATCH
        _report("batch", number)
        number += 1


async def _changes(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        assert list(await store.write([change(name, number)])) == [None]
        _report("change", number)
        number += 1


async def _moves(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        await store.write_together(move_transaction(name, number), f"{name} {number}")
        _report("move", number)
        number += 1


def _report(*values: object) -> None:
    os.write(1, (" ".join(map(str, values)) + "\n").encode())  # a write this short to a pipe is atomic


def _serve_forks() -> None:
    """Fork one writer for each line from stdin, and wait for its exit."""
    for line in sys.stdin:
        path, name, pages = line.split()
        child = os.fork()
        if not child:
            asyncio.run(_write_forever(path, name, int(pages)))
            os._exit(0)
        _report("started", child)
        _, status = os.waitpid(child, 0)
        _report("exited", os.waitstatus_to_exitcode(status))


# --- in the test process ---------------------------------------------------------------------------------------


class WriterForkServer:
    """The process, as seen from the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def fork_writer(self, path: Path, name: str, pages: int) -> int:
        """Fork a writer of a file and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {name} {pages}\n")
        self._process.stdin.flush()
        return self.read_until("started")["started"]

    def read_until(self, last_name: str) -> dict[str, int]:
        """Read reports until one of this name. Return the last number of each name."""
        assert self._process.stdout is not None
        reported: dict[str, int] = {}
        while last_name not in reported:
            name, number = self._process.stdout.readline().split()
            reported[name] = int(number)
        return reported


@contextmanager
def start_fork_server() -> Iterator[WriterForkServer]:
    """Start the process, and end it on exit."""
    command = (sys.executable, "-m", "tests.faults.killed_writers")
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)  # noqa: S603 - ours
    try:
        yield WriterForkServer(process)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    _serve_forks()
