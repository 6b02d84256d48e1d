"""The file: recognised, shared by processes, and never without what was acknowledged."""

import asyncio
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import Conflict, StoreRefused, StoreUnavailable, WrongTable
from graphql_api.storage.engines.sqlite import SqliteStore, database_file, open_sqlite
from graphql_api.storage.values import Expect, IndexDefinition, Key, Put, RangeRead, RowPage, TableDefinition
from tests.depth import depth

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
    made = await open_sqlite(tmp_path / "store.db")
    await made.ensure_table(TABLE)
    yield made
    await made.close()


def put(place: int, expect: Expect | None = None) -> Put:
    """A record of the text index."""
    return Put({"hashKey": "h!", "rangeKey": f"{place:05}", "textHash": "t!", "text": f"{place:05}"}, expect)


async def texts(store: SqliteStore, name: str) -> list[object]:
    """What the index shows of one writer's records."""
    (page,) = await store.read_ranges([RangeRead("byText", f"t!{name}", 0, KeyRange(), 10**6)], 10**6)
    assert isinstance(page, RowPage)
    return [row.value for row in page.rows]


async def start_writer(path: Path, name: str, rounds: int) -> asyncio.subprocess.Process:
    """Another process that writes five records a round and says each round once it is acknowledged."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), name, str(rounds), stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
    )


async def test_two_processes(tmp_path: Path) -> None:
    """Several processes make, write and read one file at the same time, and nothing of any of them is lost."""
    path = tmp_path / "store.db"
    rounds = 30
    others = [await start_writer(path, name, rounds) for name in ("one", "two")]
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    for number in range(rounds):
        assert await store.write([put(number)]) == [None]
    for other in others:
        await other.communicate()
        assert other.returncode == 0
    for name in ("one", "two"):
        assert await texts(store, name) == [f"{number:05}" for number in range(rounds) for _ in range(5)]
    assert len(await texts(store, "")) == rounds
    await store.close()


async def test_killed_writer(tmp_path: Path) -> None:
    """A writer killed at any moment has lost nothing that it acknowledged, and left no round half done."""
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
        whole = [line for line in rest if line]
        acknowledged = max([acknowledged, *map(int, whole[:-1])])
        store = await open_sqlite(path)
        found = await texts(store, name)
        assert len(found) % 5 == 0
        assert len(found) >= 5 * (acknowledged + 1)
        assert found == [f"{number:05}" for number in range(len(found) // 5) for _ in range(5)]
        (page,) = await store.read_ranges([RangeRead(None, f"{name}!", 0, KeyRange(), 10**6)], 10**6)
        assert isinstance(page, RowPage)
        assert len(page.rows) == len(found)
        await store.close()


async def test_definition_by_another_process(tmp_path: Path) -> None:
    """An index that another opening of the file adds is used by this one at once, for writes and for reads."""
    one, other = await open_sqlite(tmp_path / "store.db"), await open_sqlite(tmp_path / "store.db")
    await one.ensure_table(TableDefinition())
    await one.write([put(0)])
    await other.ensure_table(TABLE)
    await one.write([put(1)])
    for store in (one, other):
        assert await texts(store, "") == ["00000", "00001"]
        assert await store.describe() == TABLE
        await store.close()


async def test_index_that_is_being_filled(tmp_path: Path, store: SqliteStore) -> None:
    """An index cannot be read before it is full: that would hide records."""
    sql = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    sql.execute("INSERT INTO indexes VALUES (9, 'later', 'a', 'b', 'S', '\"ALL\"', 0)")
    sql.execute("UPDATE meta SET value = value + 1 WHERE name = 'layout'")
    sql.close()
    with pytest.raises(StoreUnavailable):
        await store.read_ranges([RangeRead("later", "a!", 0, KeyRange(), 1)], 1)
    await store.ensure_table(TABLE)
    assert len(await store.read_ranges([RangeRead("later", "a!", 0, KeyRange(), 1)], 1)) == 1


# --- recognising ----------------------------------------------------------------------------------------------


async def test_other_files(tmp_path: Path) -> None:
    """Files of other programs, newer formats, damaged headers and memory are refused, and left as they were."""
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


async def test_no_such_folder(tmp_path: Path) -> None:
    """A path that cannot be opened is reported as such."""
    with pytest.raises(StoreUnavailable):
        await open_sqlite(tmp_path / "missing" / "store.db")


async def test_how_the_file_is_kept(store: SqliteStore, tmp_path: Path) -> None:
    """The file is marked as ours, logs ahead, and every commit waits for the disk."""
    sql = store._writer._sql
    assert sql.execute("PRAGMA application_id").fetchone() == (database_file.APPLICATION_ID,)
    assert sql.execute("PRAGMA user_version").fetchone() == (database_file.FORMAT,)
    assert sql.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert sql.execute("PRAGMA synchronous").fetchone() == (2,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._sql.execute("DELETE FROM records")


# --- the writer -----------------------------------------------------------------------------------------------


async def test_waiting_writes_share_a_commit(store: SqliteStore) -> None:
    """Writes that arrive together are committed together, and each caller gets its own answer."""
    commits = []
    store._writer._sql.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    writes = [put(0, Expect()), *(put(place) for place in range(1, 200)), put(200, Expect())]
    answers = await asyncio.gather(*(store.write([write]) for write in writes))
    assert [answer[0] is None for answer in answers] == [False, *[True] * 199, False]
    assert len(commits) < 50
    assert len(await texts(store, "")) == 199


async def test_a_refused_write_leaves_the_others(store: SqliteStore) -> None:
    """A transaction that fails in a shared commit takes nothing of its neighbours with it."""
    together = [
        store.write_together([put(2 * place), put(2 * place + 1, Expect() if place % 2 else None)], f"token{place}")
        for place in range(20)
    ]
    answers = await asyncio.gather(*together, return_exceptions=True)
    assert [answer is None for answer in answers] == [not place % 2 for place in range(20)]
    assert await texts(store, "") == [f"{place:05}" for place in range(40) if place // 2 % 2 == 0]


async def test_cancelled_callers(store: SqliteStore) -> None:
    """Callers that are cancelled while they wait disturb neither the writer nor those who still wait."""
    calls = [asyncio.ensure_future(store.write([put(place)])) for place in range(100)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert all(answer == [None] for answer in answers[1::2])
    found = await texts(store, "")
    assert found == sorted(set(map(str, found)))
    assert {f"{place:05}" for place in range(1, 100, 2)} <= set(map(str, found))


async def test_locked_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """While another process keeps the file locked a write meets a conflict, to be tried again, and later it works."""
    monkeypatch.setattr(database_file, "BUSY_SECONDS", 0.05)
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answers = await asyncio.gather(
        store.write([put(0)]), store.write_together([put(1)], "token"), return_exceptions=True
    )
    for problem in answers:
        assert isinstance(problem, Conflict)
        assert problem.retryable
        assert str(path) in problem.message
    assert await texts(store, "") == []
    other.execute("ROLLBACK")
    other.close()
    assert await store.write([put(0)]) == [None]
    assert await texts(store, "") == ["00000"]
    await store.close()


class _Failing:
    """A connection that fails at the next statement of these words, as on a full disk."""

    def __init__(self, inner: sqlite3.Connection, statement: str) -> None:
        self.inner = inner
        self.statement = statement
        self.failures = 1

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Passes everything on but that one statement."""
        if statement == self.statement and self.failures:
            self.failures -= 1
            raise sqlite3.OperationalError("database or disk is full")
        return self.inner.execute(statement, *values)  # type: ignore[arg-type]


async def test_failed_commit(store: SqliteStore) -> None:
    """If the commit fails, every caller of it is told and nothing of it is seen; the next commit works."""
    store._writer._sql = _Failing(store._writer._sql, "COMMIT")  # type: ignore[assignment]
    answers = await asyncio.gather(
        *(store.write([put(place), put(place + 100)]) for place in range(3)), return_exceptions=True
    )
    failed = [place for place, answer in enumerate(answers) if isinstance(answer, StoreUnavailable)]
    assert failed[0] == 0
    assert len(await texts(store, "")) == 2 * (3 - len(failed))
    assert await store.write([put(500)]) == [None]
    assert "00500" in await texts(store, "")


@pytest.mark.parametrize(("statement", "certain"), [("BEGIN IMMEDIATE", True), ("COMMIT", False)])
async def test_what_a_failure_says(store: SqliteStore, statement: str, certain: bool) -> None:
    """Where a transaction could not even begin it is certain that nothing was written; behind its end it is not."""
    store._writer._sql = _Failing(store._writer._sql, statement)  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable) as caught:
        await store.write_together([put(0)], "token")
    assert caught.value.certain is certain


@pytest.mark.parametrize("place", ["write_transaction.WriteTransaction.put_all", "writer_jobs.prepare_write"])
async def test_a_mistake_of_ours_is_told_to_its_caller(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """An unforeseen error reaches the caller whose write met it, and the writer lives on."""
    assert await store.write([put(2)]) == [None]

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(f"graphql_api.storage.engines.sqlite.{place}", broken)
        with pytest.raises(ZeroDivisionError):
            await store.write([put(0)])
    assert await store.write([put(1)]) == [None]
    assert await store.get_many([Key("h!", "00000")], True) == [None]


async def test_closed_loop(tmp_path: Path) -> None:
    """A caller whose event loop has ended is not waited for: the write is done and the store closes."""
    store = await open_sqlite(tmp_path / "store.db")
    await store.ensure_table(TABLE)

    def elsewhere() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(_write_and_leave(store))
        loop.run_until_complete(task)
        loop.close()

    await asyncio.to_thread(elsewhere)
    assert await store.write([put(1)]) == [None]
    await store.close()
    with pytest.raises(StoreRefused):
        await store.write([put(2)])


async def _write_and_leave(store: SqliteStore) -> None:
    waiting = asyncio.ensure_future(store.write([put(place) for place in range(2000)]))
    await asyncio.sleep(0)
    waiting.cancel()
