"""The health of an open SQLite file: nothing is acknowledged into a file that is lost, and probes notice it."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from graphql_api.errors import StoreDamaged, StoreDenied, StoreError, StoreUnavailable, WrongTable
from graphql_api.storage import IndexDefinition, Key, Put, TableDefinition
from graphql_api.storage.engines.sqlite import SqliteStore, file_health, open_sqlite
from graphql_api.storage.engines.sqlite.database_file import BUSY_SECONDS, log_path
from tests.support.run_depth import depth
from tests.support.small_disks import fill, make_read_only, small_disk

TABLE = TableDefinition((IndexDefinition("byText", "textHash", "text"),))


def put(number: int, size: int = 10) -> Put:
    """A put of a record of this size in the text index."""
    return Put({"hashKey": f"h!{number}", "rangeKey": "r", "textHash": "t!", "text": "text", "body": "x" * size})


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A store with 50 records, most of which are merged into the file."""
    opened = await open_sqlite(tmp_path / "store.db")
    await opened.ensure_table(TABLE)
    await opened.write([put(number, 1_000) for number in range(40)])
    merge_log(tmp_path / "store.db")
    await opened.write([put(number) for number in range(40, 50)])
    yield opened
    await opened.close()


def merge_log(path: Path, mode: str = "PASSIVE") -> None:
    """Merge the log into the file, as a checkpoint does."""
    sql = sqlite3.connect(path, isolation_level=None)
    sql.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    sql.close()


async def healthy(store: SqliteStore) -> None:
    """Check the store as if the last probe was long ago."""
    store._health._checked_at = float("-inf")
    await store.check_health()


async def read(store: SqliteStore, *numbers: int) -> list[bool]:
    """Return whether records exist."""
    return [item is not None for item in await store.get_many([Key(f"h!{number}", "r") for number in numbers], True)]


# --- files that are lost ---------------------------------------------------------------------------------------


def remove_all(path: Path) -> None:
    """Remove the file and its log."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace(path: Path) -> None:
    """Replace the file by a copy."""
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def replace_by_empty(path: Path) -> None:
    """Replace the file by an empty one."""
    remove_all(path)
    path.touch()


def shorten(path: Path) -> None:
    """Cut the file in the middle."""
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def rename_folder(path: Path) -> None:
    """Rename the folder of the file."""
    path.parent.rename(path.parent.with_name("elsewhere"))


LOSSES: dict[str, Callable[[Path], None]] = {
    "all files removed": remove_all,
    "file removed": Path.unlink,
    "log removed": lambda path: log_path(path).unlink(),
    "file replaced": replace,
    "file replaced by an empty one": replace_by_empty,
    "log replaced": lambda path: replace(log_path(path)),
    "file truncated": shorten,
    "file emptied": lambda path: os.truncate(path, 0),
    "log emptied": lambda path: os.truncate(log_path(path), 0),
    "folder renamed": rename_folder,
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES.keys())
async def test_lost_files(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    """After a file is removed, replaced or truncated, nothing is acknowledged or read, and the probe fails."""
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    await store.write([put(number, 1_000) for number in range(40)])
    merge_log(path)
    await store.write([put(number) for number in range(40, 50)])
    await healthy(store)
    lose(path)
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            await store.write([put(1_000)])
        with pytest.raises(StoreDamaged):
            await store.write_together([put(1_001)], "token")
        with pytest.raises(StoreDamaged):
            await read(store, 1)
        with pytest.raises(StoreDamaged):
            await store.check_health()
    await store.close()


async def test_file_lost_during_a_commit(tmp_path: Path) -> None:
    """If the file is lost while a transaction commits, its outcome is unknown."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    store.writer._sql.set_trace_callback(lambda statement: remove_all(path) if statement == "COMMIT" else None)
    with pytest.raises(StoreUnavailable, match=r"removed while it was open.*may be lost") as caught:
        await store.write_together([put(1)], "token")
    assert not caught.value.certain
    await store.close()


async def write_until_error(store: SqliteStore, acknowledged: list[int], reached: asyncio.Event, count: int) -> None:
    """Write one record after the other, and note those that are acknowledged. `reached`: `count` of them are."""
    while True:
        assert await store.write([put(len(acknowledged))]) == [None]
        acknowledged.append(len(acknowledged))
        if len(acknowledged) == count:
            reached.set()


@pytest.mark.parametrize("lose", [remove_all, replace, replace_by_empty], ids=["removed", "replaced", "emptied"])
async def test_acknowledged_writes_are_kept(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    """Every acknowledged write is in the file that was lost: none was acknowledged afterwards."""
    for attempt in range(depth(3, 150)):
        path, kept = tmp_path / f"store{attempt}.db", tmp_path / f"kept{attempt}.db"
        store = await open_sqlite(path)
        await store.ensure_table(TABLE)
        acknowledged, reached = list[int](), asyncio.Event()
        writing = asyncio.create_task(write_until_error(store, acknowledged, reached, 5 + attempt))
        await reached.wait()
        before = len(acknowledged)
        os.link(path, kept)
        os.link(log_path(path), log_path(kept))
        lose(path)
        with pytest.raises(StoreError):
            await writing
        await store.close()
        reopened = await open_sqlite(kept)
        assert all(await read(reopened, *range(len(acknowledged))))
        assert len(acknowledged) <= before + 1  # One commit may end between the two links and the loss.
        await reopened.close()


async def test_file_moved_away_and_back(store: SqliteStore, tmp_path: Path) -> None:
    """A file that is back at its path serves again."""
    path, elsewhere = tmp_path / "store.db", tmp_path / "elsewhere.db"
    path.rename(elsewhere)
    with pytest.raises(StoreDamaged):
        await healthy(store)
    elsewhere.rename(path)
    await healthy(store)
    assert await store.write([put(100)]) == [None]
    assert await read(store, 1, 100) == [True, True]


async def test_a_symbolic_link(store: SqliteStore, tmp_path: Path) -> None:
    """The log of a file that was opened through a symbolic link is watched, and so is the link."""
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "store.db")
    linked = await open_sqlite(link)
    assert await linked.write([put(100)]) == [None]
    log_path(link).rename(tmp_path / "elsewhere-wal")
    with pytest.raises(StoreDamaged, match=r"store\.db-wal was removed"):
        await linked.write([put(101)])
    (tmp_path / "elsewhere-wal").rename(log_path(link))
    assert await linked.write([put(101)]) == [None]
    await (await open_sqlite(tmp_path / "other.db")).close()
    link.unlink()
    link.symlink_to(tmp_path / "other.db")
    with pytest.raises(StoreDamaged, match="was replaced"):
        await read(linked, 100)
    await linked.close()


async def test_maintenance_by_other_processes(store: SqliteStore, tmp_path: Path) -> None:
    """A file and a log that become shorter by a vacuum and a checkpoint are healthy."""
    path = tmp_path / "store.db"
    await store.write([put(number, 100_000) for number in range(100, 120)])
    merge_log(path)
    sizes = path.stat().st_size, log_path(path).stat().st_size
    sql = sqlite3.connect(path, isolation_level=None)
    sql.execute("UPDATE records SET body = (SELECT body FROM records WHERE id = 45) WHERE id > 50")
    sql.execute("VACUUM")
    sql.close()
    merge_log(path, "TRUNCATE")
    assert path.stat().st_size < sizes[0]
    assert log_path(path).stat().st_size < sizes[1]
    await healthy(store)
    assert await store.write([put(200)]) == [None]
    assert await read(store, 1, 200) == [True, True]


# --- damage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_page", [1, 2], ids=["whole file", "all pages but the first"])
async def test_damaged_pages(store: SqliteStore, tmp_path: Path, first_page: int) -> None:
    """A probe notices pages that were overwritten, also if a cache holds them, and does not forget it."""
    path = tmp_path / "store.db"
    merge_log(path, "TRUNCATE")
    await healthy(store)
    with path.open("r+b") as file:
        file.seek((first_page - 1) * 4096)
        file.write(os.urandom(path.stat().st_size - (first_page - 1) * 4096))
    with pytest.raises(StoreDamaged, match=str(path)):
        await healthy(store)
    with pytest.raises(StoreDamaged):
        await store.check_health()
    with pytest.raises(StoreDamaged):
        await store.write([put(100)])


async def test_damage_that_a_read_meets(store: SqliteStore, tmp_path: Path) -> None:
    """A record that cannot be decoded is an error of the store, and the probe reports it."""
    sql = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    sql.execute("UPDATE records SET body = x'00' WHERE id = 25")
    sql.close()
    with pytest.raises(StoreDamaged, match="Restore it from a backup"):
        await read(store, 24)
    with pytest.raises(StoreDamaged, match="Restore it from a backup"):
        await store.check_health()
    with pytest.raises(StoreDamaged):
        await store.write([put(24, 20)])


async def test_a_record_without_a_key(store: SqliteStore, tmp_path: Path) -> None:
    """A record that its key does not find is damage."""
    sql = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    sql.execute("DELETE FROM entries WHERE idx = 0 AND record = 1")
    sql.close()
    with pytest.raises(StoreDamaged, match="a record has no key"):
        await healthy(store)


# --- full disks ------------------------------------------------------------------------------------------------


async def check_full(store: SqliteStore, free: Callable[[], object]) -> None:
    """Check a store without space: `free` makes space again."""
    for _ in range(2):
        with pytest.raises(StoreUnavailable) as written:
            await store.write([put(100, 300_000), put(101, 300_000)])
        with pytest.raises(StoreUnavailable) as committed:
            await store.write_together([put(102, 300_000), put(103, 300_000)], "token")
        assert (written.value.certain, committed.value.certain) == (True, True)
        assert "the disk is full, and nothing is written" in committed.value.message
        with pytest.raises(StoreUnavailable, match="disk"):
            await healthy(store)
        assert await read(store, 1, 100, 102) == [True, False, False]
    free()
    await healthy(store)
    await store.write_together([put(102, 300_000)], "token")
    assert await read(store, 1, 102) == [True, True]


async def test_full_file(store: SqliteStore) -> None:
    """A file at its maximum size fails writes with certainty, and the probe until there is space."""
    sql = store.writer._sql
    (pages,) = sql.execute("PRAGMA page_count").fetchone()
    sql.execute(f"PRAGMA max_page_count = {pages + 10}")
    await check_full(store, lambda: sql.execute("PRAGMA max_page_count = 1000000"))


async def test_full_disk(tmp_path: Path) -> None:
    """A full disk fails writes with certainty, and the probe until there is space."""
    with small_disk(tmp_path / "disk", 8) as disk:
        store = await open_sqlite(disk / "store.db")
        await store.ensure_table(TABLE)
        await store.write([put(number) for number in range(10)])
        filler = fill(disk)
        with pytest.raises(StoreUnavailable, match="disk"):
            await healthy(store)
        await check_full(store, filler.unlink)
        await store.close()


# --- read-only files -------------------------------------------------------------------------------------------


async def test_read_only_store(store: SqliteStore, tmp_path: Path) -> None:
    """A read-only store reads what others write, is healthy, and refuses every write."""
    reader = await open_sqlite(tmp_path / "store.db", read_only=True)
    await store.write([put(100)])
    assert await read(reader, 1, 100, 101) == [True, True, False]
    await healthy(reader)
    for refused in (
        reader.write([put(1)]),
        reader.write_together([put(1)], "token"),
        reader.ensure_table(TABLE),
        reader.drop_index("byText"),
    ):
        with pytest.raises(StoreDenied, match="open read-only"):
            await refused
    await reader.close()


async def test_read_only_files(tmp_path: Path) -> None:
    """A file on a read-only disk is served, and only without a log; opening it for writes is refused."""
    with small_disk(tmp_path / "disk", 8) as disk:
        store = await open_sqlite(disk / "store.db")
        await store.ensure_table(TABLE)
        await store.write([put(1)])
        shutil.copytree(disk, disk / "with log", ignore=shutil.ignore_patterns("*-shm"))
        await store.close()
        make_read_only(disk)
        reader = await open_sqlite(disk / "store.db", read_only=True)
        assert await read(reader, 1, 2) == [True, False]
        await healthy(reader)
        await reader.close()
        with pytest.raises(StoreUnavailable, match=r"unmerged changes in store\.db-wal"):
            await open_sqlite(disk / "with log" / "store.db", read_only=True)
        with pytest.raises((StoreDenied, StoreUnavailable)):
            await open_sqlite(disk / "store.db")


async def test_a_read_only_file_that_changes(tmp_path: Path) -> None:
    """A file that was opened as unchanging, and changes, is not served any more."""
    path = tmp_path / "store.db"
    writer = await open_sqlite(path)
    await writer.ensure_table(TABLE)
    await writer.close()
    reader = SqliteStore(path, lambda: 0.0, "immutable")
    assert await read(reader, 1) == [False]
    writer = await open_sqlite(path)
    await writer.write([put(1)])
    with pytest.raises(StoreDamaged, match="has changed while it was served read-only"):
        await read(reader, 1)
    await writer.close()
    await reader.close()


async def test_opening_read_only_creates_nothing(tmp_path: Path) -> None:
    """Opening a missing or empty file read-only is refused, and nothing is created."""
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await open_sqlite(tmp_path / "missing.db", read_only=True)
    (tmp_path / "empty.db").touch()
    with pytest.raises(WrongTable, match="is empty"):
        await open_sqlite(tmp_path / "empty.db", read_only=True)
    (tmp_path / "text.db").write_text("no database at all, but long enough to look like one" * 20)
    with pytest.raises(WrongTable):
        await open_sqlite(tmp_path / "text.db", read_only=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.db", "text.db"]


# --- probes ----------------------------------------------------------------------------------------------------


async def test_frequent_probes_share_a_result(store: SqliteStore) -> None:
    """Probes within a second write once."""
    commits = []
    store.writer._sql.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    for _ in range(5):
        await store.check_health()
    assert len(commits) == 1


async def test_probes_while_others_write(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process writes is healthy, and not if its own writer does not get on."""
    monkeypatch.setattr(file_health, "_WAIT_SECONDS", 0.01)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await healthy(store)
    await healthy(store)
    assert store.writer.busy_since is not None
    store.writer.busy_since -= 2 * BUSY_SECONDS
    with pytest.raises(StoreUnavailable, match="has not ended for 20 seconds"):
        await healthy(store)
    other.execute("COMMIT")
    other.close()


# --- file modes ------------------------------------------------------------------------------------------------


async def test_files_are_private(tmp_path: Path) -> None:
    """New files are readable and writable only by their owner. Existing files keep their mode."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    await store.close()
    path.chmod(0o640)
    store = await open_sqlite(path)
    await store.write([put(1)])
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o640}
    await store.close()
