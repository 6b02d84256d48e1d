"""A process that has children which write to a file until they are killed; each says what was acknowledged to it.

It stays while its children go, so that nothing has to be imported again for the next one.
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
from tests.dynamodb_local import ROOT

TABLE = TableDefinition(
    (IndexDefinition("byText", "textHash", "text"), IndexDefinition("byNumber", "numberHash", "number", "N"))
)
FIXED = Key("fixed!", "r")
BATCH = 5


def record(key: Key, number: int, **attributes: Any) -> dict[str, Any]:
    """A record that stands in both indexes, at places that go with its number."""
    indexed = {"textHash": f"t!{number % 3}", "text": f"{number:06}", "numberHash": "n!", "number": -number}
    return {"hashKey": key.hash, "rangeKey": key.range, **indexed, **attributes}


def batch(name: str, number: int) -> Sequence[Write]:
    """New records."""
    return [Put(record(Key(f"batch-{name}!", f"{number:06}-{part}"), number)) for part in range(BATCH)]


def change(name: str, number: int) -> Put:
    """Moves one record on in both indexes."""
    expect = Expect(attributes={"number": 1 - number}) if number else Expect(absent=True)
    return Put(record(Key(f"change-{name}!", "r"), number), expect)


def move(name: str, number: int) -> Sequence[TransactionWrite]:
    """A transaction: the record before goes, another one comes, a counter says how many there were."""
    home = f"move-{name}!"
    counter = {"hashKey": home, "rangeKey": "counter", "n": number + 1}
    return [
        Delete(Key(home, f"{number - 1:06}"), Expect() if number else Expect(absent=True)),
        Put(record(Key(home, f"{number:06}"), number), Expect(absent=True)),
        Check(FIXED, Expect(without=("n",))),
        Put(counter, Expect(attributes={"n": number}) if number else Expect(absent=True)),
    ]


async def _write_on(path: str, name: str, pages: int) -> None:
    """All three at once, for ever; the log goes into the file whenever it has so many pages."""
    store = await open_sqlite(path)
    store._writer._sql.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    await asyncio.gather(_batches(store, name), _changes(store, name), _moves(store, name))


async def _batches(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        assert list(await store.write(batch(name, number))) == [None] * BATCH
        _tell("batch", number)
        number += 1


async def _changes(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        assert list(await store.write([change(name, number)])) == [None]
        _tell("change", number)
        number += 1


async def _moves(store: SqliteStore, name: str) -> None:
    number = 0
    while True:
        await store.write_together(move(name, number), f"{name} {number}")
        _tell("move", number)
        number += 1


def _tell(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # so few octets come whole or not at all


def _bear() -> None:
    """Has one child for each line that it reads, and outlives it."""
    for line in sys.stdin:
        path, name, pages = line.split()
        child = os.fork()
        if not child:
            asyncio.run(_write_on(path, name, int(pages)))
            os._exit(0)
        _tell("born", child)
        _, status = os.waitpid(child, 0)
        _tell("dead", os.waitstatus_to_exitcode(status))


# --- seen from the test ----------------------------------------------------------------------------------------


class Mother:
    """The process, seen from the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def bear(self, path: Path, name: str, pages: int) -> int:
        """Has a child that writes to a file; its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {name} {pages}\n")
        self._process.stdin.flush()
        return self.hear("born")["born"]

    def hear(self, until: str) -> dict[str, int]:
        """The last number of everything that is told until this is."""
        assert self._process.stdout is not None
        told: dict[str, int] = {}
        while until not in told:
            word, number = self._process.stdout.readline().split()
            told[word] = int(number)
        return told


@contextmanager
def mother() -> Iterator[Mother]:
    """Starts the process, and ends it."""
    command = (sys.executable, "-m", "tests.faults.doomed")
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)  # noqa: S603 - ours
    try:
        yield Mother(process)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    _bear()
