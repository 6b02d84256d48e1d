"""The SQLite file: its detection, concurrent processes, durability, and the writer thread."""

import asyncio
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import Conflict, StoreError, StoreRefused, StoreUnavailable, WrongTable
from graphql_api.storage.engines.sqlite import SqliteStore, database_file, open_sqlite
from graphql_api.storage.values import Expect, IndexDefinition, Key, Put, RangeRead, RowPage, TableDefinition
from tests.support.run_depth import depth

TABLE = TableDefinition((IndexDefinition("byText", "textHash", "text"),))

WRITER = """
import asyncio, sys
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.values import IndexDefinition, Put, TableDefinition

async def main(path, name, rounds):
    store = await open_sqlite(path)
    await store.ensure_table(TableDefinition((IndexDefinition("byText", "textHash", "text"),)))
    for number in range(int(rounds)):
        items = [
            {"hashKey": f"{name}!", "rangeKey": f"{number:05}-{part}", "textHash": f"t!{name}", "text": f"{number:05}"}
            for part in range(5)
        ]
        await store.write([Put(item) for item in items])
        print(number, flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store with a table."""
    opened_store = await open_sqlite(tmp_path / "store.db")
    await opened_store.ensure_table(TABLE)
    yield opened_store
    await opened_store.close()


def put(number: int, expect: Expect | None = None) -> Put:
    """A put of a record in the text index."""
    return Put({"hashKey": "h!", "rangeKey": f"{number:05}", "textHash": "t!", "text": f"{number:05}"}, expect)


async def texts(store: SqliteStore, name: str) -> list[object]:
    """The index values of the records of one writer."""
    (page,) = await store.read_ranges([RangeRead("byText", f"t!{name}", 0, KeyRange(), 10**6)], 10**6)
    assert isinstance(page, RowPage)
    return [row.value for row in page.rows]


async def start_writer(path: Path, name: str, rounds: int) -> asyncio.subprocess.Process:
    """Start a process that writes five records per round and prints each acknowledged round."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), name, str(rounds), stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
    )


async def test_concurrent_processes(tmp_path: Path) -> None:
    """Several processes create, write and read one file concurrently without losing writes."""
    path = tmp_path / "store.db"
    rounds = 30
    others = [await start_writer(path, name, rounds) for name in ("one", "two")]
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    for number in range(rounds):
        assert await store.write([put(number)]) == [None]
    for process in others:
        await process.communicate()
        assert process.returncode == 0
    for name in ("one", "two"):
        assert await texts(store, name) == [f"{number:05}" for number in range(rounds) for _ in range(5)]
    assert len(await texts(store, "")) == rounds
    await store.close()


async def test_killed_writer(tmp_path: Path) -> None:
    """A killed writer has lost no acknowledged round and has left no partial round."""
    path = tmp_path / "store.db"
    for attempt in range(depth(2, 30)):
        name = f"writer{attempt}"
        writer = await start_writer(path, name, 100_000)
        assert writer.stdout is not None
        for _ in range(10 + attempt):
            acknowledged = int(await writer.stdout.readline())
        writer.kill()
        rest = (await writer.stdout.read()).split()
        await writer.wait()
        assert writer.returncode == -signal.SIGKILL
        lines = [line for line in rest if line]
        acknowledged = max([acknowledged, *map(int, lines[:-1])])
        store = await open_sqlite(path)
        found = await texts(store, name)
        assert len(found) % 5 == 0
        assert len(found) >= 5 * (acknowledged + 1)
        assert found == [f"{number:05}" for number in range(len(found) // 5) for _ in range(5)]
        (page,) = await store.read_ranges([RangeRead(None, f"{name}!", 0, KeyRange(), 10**6)], 10**6)
        assert isinstance(page, RowPage)
        assert len(page.rows) == len(found)
        await store.close()


async def test_index_added_by_another_store(tmp_path: Path) -> None:
    """An index that another store on the file adds is used immediately for writes and reads."""
    first, second = await open_sqlite(tmp_path / "store.db"), await open_sqlite(tmp_path / "store.db")
    await first.ensure_table(TableDefinition())
    await first.write([put(0)])
    await second.ensure_table(TABLE)
    await first.write([put(1)])
    for store in (first, second):
        assert await texts(store, "") == ["00000", "00001"]
        assert await store.describe() == TABLE
        await store.close()


async def test_index_during_backfill(tmp_path: Path, store: SqliteStore) -> None:
    """An index cannot be read during its backfill, because records would be missing."""
    sql = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    sql.execute("INSERT INTO indexes VALUES (9, 'later', 'a', 'b', 'S', '\"ALL\"', 0)")
    sql.execute("UPDATE meta SET value = value + 1 WHERE name = 'layout'")
    sql.close()
    with pytest.raises(StoreUnavailable):
        await store.read_ranges([RangeRead("later", "a!", 0, KeyRange(), 1)], 1)
    await store.ensure_table(TABLE)
    assert len(await store.read_ranges([RangeRead("later", "a!", 0, KeyRange(), 1)], 1)) == 1


# --- file detection -------------------------------------------------------------------------------------------


async def test_other_files(tmp_path: Path) -> None:
    """Files of other programs, newer formats, invalid files and in-memory databases are rejected and left unchanged."""
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as sql:
        sql.execute("CREATE TABLE theirs (id)")
    sql.close()
    marked = tmp_path / "marked.db"
    with sqlite3.connect(marked) as sql:
        sql.execute("PRAGMA application_id = 7")
    sql.close()
    text = tmp_path / "text.db"
    text.write_text("not a database at all, but long enough to look like one" * 20)
    newer = tmp_path / "newer.db"
    await (await open_sqlite(newer)).close()
    with sqlite3.connect(newer) as sql:
        sql.execute(f"PRAGMA user_version = {database_file.FORMAT + 1}")
    sql.close()
    for path in (foreign, marked, text, newer):
        before = path.read_bytes()
        with pytest.raises(WrongTable) as caught:
            await open_sqlite(path)
        assert str(path) in caught.value.message
        assert path.read_bytes() == before
    with pytest.raises(WrongTable):
        await open_sqlite(":memory:")


async def test_missing_folder(tmp_path: Path) -> None:
    """A path that cannot be opened is a store error."""
    with pytest.raises(StoreUnavailable):
        await open_sqlite(tmp_path / "missing" / "store.db")


async def test_file_settings(store: SqliteStore, tmp_path: Path) -> None:
    """The file has our application id, a write-ahead log, and full synchronization. Readers are read-only."""
    sql = store.writer._sql
    assert sql.execute("PRAGMA application_id").fetchone() == (database_file.APPLICATION_ID,)
    assert sql.execute("PRAGMA user_version").fetchone() == (database_file.FORMAT,)
    assert sql.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._sql.execute("DELETE FROM records")


# --- the writer -----------------------------------------------------------------------------------------------


async def test_group_commit(store: SqliteStore) -> None:
    """Concurrent writes share a commit, and each caller gets its own result."""
    commits = []
    store.writer._sql.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    writes = [put(0, Expect()), *(put(number) for number in range(1, 200)), put(200, Expect())]
    results = await asyncio.gather(*(store.write([write]) for write in writes))
    assert [result[0] is None for result in results] == [False, *[True] * 199, False]
    assert len(commits) < 50
    assert len(await texts(store, "")) == 199


async def test_group_commit_isolates_failures(store: SqliteStore) -> None:
    """A transaction that fails in a group commit does not affect the other transactions."""
    transactions = [
        store.write_together([put(2 * number), put(2 * number + 1, Expect() if number % 2 else None)], f"token{number}")
        for number in range(20)
    ]
    results = await asyncio.gather(*transactions, return_exceptions=True)
    assert [result is None for result in results] == [not number % 2 for number in range(20)]
    assert await texts(store, "") == [f"{number:05}" for number in range(40) if number // 2 % 2 == 0]


async def test_cancelled_callers(store: SqliteStore) -> None:
    """Cancelled callers affect neither the writer nor other callers."""
    calls = [asyncio.ensure_future(store.write([put(number)])) for number in range(100)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])
    assert all(result == [None] for result in results[1::2])
    found = await texts(store, "")
    assert found == sorted(set(map(str, found)))
    assert {f"{number:05}" for number in range(1, 100, 2)} <= set(map(str, found))


async def test_locked_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While another process locks the file, writes fail with a retryable conflict. Afterwards they succeed."""
    monkeypatch.setattr(database_file, "BUSY_SECONDS", 0.05)
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    results = await asyncio.gather(
        store.write([put(0)]), store.write_together([put(1)], "token"), return_exceptions=True
    )
    for error in results:
        assert isinstance(error, Conflict)
        assert error.retryable
        assert str(path) in error.message
    assert await texts(store, "") == []
    connection.execute("ROLLBACK")
    connection.close()
    assert await store.write([put(0)]) == [None]
    assert await texts(store, "") == ["00000"]
    await store.close()


class _FailingConnection:
    """A connection whose next execution of one statement fails, as on a full disk."""

    def __init__(self, inner: sqlite3.Connection, statement: str) -> None:
        self.inner = inner
        self.statement = statement
        self.failures = 1

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Execute a statement, or fail."""
        if statement == self.statement and self.failures:
            self.failures -= 1
            raise sqlite3.OperationalError("database or disk is full")
        return self.inner.execute(statement, *values)  # type: ignore[arg-type]


async def test_failed_commit(store: SqliteStore) -> None:
    """If a commit fails, all its callers get an error and nothing is stored. The next commit succeeds."""
    store.writer._sql = _FailingConnection(store.writer._sql, "COMMIT")  # type: ignore[assignment]
    results = await asyncio.gather(
        *(store.write([put(number), put(number + 100)]) for number in range(3)), return_exceptions=True
    )
    failed = [number for number, result in enumerate(results) if isinstance(result, StoreUnavailable)]
    assert failed[0] == 0
    assert len(await texts(store, "")) == 2 * (3 - len(failed))
    assert await store.write([put(500)]) == [None]
    assert "00500" in await texts(store, "")


@pytest.mark.parametrize(("statement", "certain"), [("BEGIN IMMEDIATE", True), ("COMMIT", False)])
async def test_certainty_of_failures(store: SqliteStore, statement: str, certain: bool) -> None:
    """A failure before the transaction is certain: nothing was written. After COMMIT was sent it is not certain."""
    store.writer._sql = _FailingConnection(store.writer._sql, statement)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable) as caught:
        await store.write_together([put(0)], "token")
    assert caught.value.certain is certain


@pytest.mark.parametrize("function", ["writer_jobs.WriteTransaction.put_all", "writer_jobs.prepare_write"])
async def test_unexpected_errors_reach_their_caller(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """An unexpected error is raised to the caller of the write, and the writer continues."""
    assert await store.write([put(2)]) == [None]

    def raise_error(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(f"graphql_api.storage.engines.sqlite.{function}", raise_error)
        with pytest.raises(ZeroDivisionError):
            await store.write([put(0)])
    assert await store.write([put(1)]) == [None]
    assert await store.get_many([Key("h!", "00000")], True) == [None]


async def test_closed_event_loop(tmp_path: Path) -> None:
    """If the event loop of a caller is closed, its write still completes and the store can be closed."""
    store = await open_sqlite(tmp_path / "store.db")
    await store.ensure_table(TABLE)

    def write_in_another_loop() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(_write_and_cancel(store))
        loop.run_until_complete(task)
        loop.close()

    await asyncio.to_thread(write_in_another_loop)
    assert await store.write([put(1)]) == [None]
    await store.close()
    with pytest.raises(StoreRefused):
        await store.write([put(2)])


async def _write_and_cancel(store: SqliteStore) -> None:
    pending_write = asyncio.ensure_future(store.write([put(number) for number in range(2000)]))
    await asyncio.sleep(0)
    pending_write.cancel()


def test_a_connection_that_fails_is_closed(tmp_path: Path) -> None:
    """A file that cannot be read stays open no longer than the attempt, also while the error is kept."""
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(StoreError) as caught:
        database_file.connect_reader(path)
    descriptors = Path("/proc/self/fd").iterdir()
    assert path not in [one.readlink() for one in descriptors if one.is_symlink()]
    assert caught.value.__cause__ is not None
