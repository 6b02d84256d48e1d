"""Processes that are killed while they write to a SQLite file: no acknowledged write is lost, and none is partial."""

import asyncio
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.table_layout import encode_hash_key, load_layout, tie_breaker
from graphql_api.storage.record_body import decode_body
from graphql_api.storage.values import Key, Put, RangeRead, RowPage
from tests.faults.killed_writers import (
    BATCH,
    FIXED,
    TABLE,
    WriterForkServer,
    change,
    move_transaction,
    start_fork_server,
)
from tests.faults.time_bounds import best_of
from tests.support.run_depth import depth

READY_SECONDS = 1.0


@pytest.fixture(scope="module")
def fork_server() -> Iterator[WriterForkServer]:
    """A process that forks writers to be killed."""
    with start_fork_server() as process:
        yield process


async def test_killed_writers(fork_server: WriterForkServer, tmp_path: Path, random: Random) -> None:
    """After each kill, the file opens within a second and contains all acknowledged writes, each of them complete."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    await store.write([Put({"hashKey": FIXED.hash, "rangeKey": FIXED.range})])
    await store.close()
    for number in range(depth(20, 300)):
        name = f"child{number}"
        child = fork_server.fork_writer(path, name, random.choice([20, 16_000]))
        first_reports = fork_server.read_until(random.choice(["batch", "change", "move"]))
        await asyncio.sleep(random.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        acknowledged = {"batch": -1, "change": -1, "move": -1, **first_reports, **fork_server.read_until("exited")}
        assert acknowledged["exited"] == -signal.SIGKILL
        assert await best_of(3, lambda: seconds_until_ready(path), enough=READY_SECONDS) < READY_SECONDS
        store = await open_sqlite(path)
        await check_stored_writes(store, name, acknowledged)
        await check_lost_replies(store, name, acknowledged)
        await store.close()
        check_entries(path)


async def seconds_until_ready(path: Path) -> float:
    """Measure the time from opening a copy of the file to its first response."""
    copied_path = path.with_suffix(".copy")
    for suffix in ("", "-wal", "-shm"):
        shutil.copyfile(f"{path}{suffix}", f"{copied_path}{suffix}")
    now = asyncio.get_running_loop().time
    started = now()
    store = await open_sqlite(copied_path)
    assert (await store.get_many([FIXED], True))[0] is not None
    assert list(await store.write([Put({"hashKey": "ready!", "rangeKey": "r"})])) == [None]
    seconds = now() - started
    await store.close()
    return seconds


async def range_keys(store: SqliteStore, hash_key: str) -> list[str]:
    """The range keys of a hash key."""
    (page,) = await store.read_ranges([RangeRead(None, hash_key, 0, KeyRange(), 10**6)], 10**6)
    assert isinstance(page, RowPage)
    return [row.key.range for row in page.rows]


async def check_stored_writes(store: SqliteStore, name: str, acknowledged: Mapping[str, int]) -> None:
    """Check that acknowledged writes are stored. At most one more of each kind is stored, and it is complete."""
    batches = await range_keys(store, f"batch-{name}!")
    number = len(batches) // BATCH
    assert number in {acknowledged["batch"] + 1, acknowledged["batch"] + 2}
    assert batches == [f"{one:06}-{part}" for one in range(number) for part in range(BATCH)]
    (changed,) = await store.get_many([Key(f"change-{name}!", "r")], True)
    changes = -1 if changed is None else -changed["number"]
    assert changes in {acknowledged["change"], acknowledged["change"] + 1}
    assert changed is None or changed == change(name, changes).item
    moves = await count_moves(store, name)
    assert moves in {acknowledged["move"] + 1, acknowledged["move"] + 2}
    assert await range_keys(store, f"move-{name}!") == ([f"{moves - 1:06}", "counter"] if moves else [])


async def check_lost_replies(store: SqliteStore, name: str, acknowledged: Mapping[str, int]) -> None:
    """Repeat the transaction whose reply may be lost. Check that it happens exactly once."""
    next_move = acknowledged["move"] + 1
    if next_move:
        await store.write_together(move_transaction(name, next_move - 1), f"{name} {next_move - 1}")
    await store.write_together(move_transaction(name, next_move), f"{name} {next_move}")
    assert await count_moves(store, name) == next_move + 1
    with pytest.raises(StoreRefused):
        await store.write_together(move_transaction(name, next_move + 1), f"{name} {next_move}")


async def count_moves(store: SqliteStore, name: str) -> int:
    """The number of moves, by their counter."""
    (counter,) = await store.get_many([Key(f"move-{name}!", "counter")], True)
    return 0 if counter is None else int(counter["n"])


def check_entries(path: Path) -> None:
    """Check that records and index entries match one to one, and that the file has no integrity errors."""
    with closing(sqlite3.connect(path)) as sql:
        assert sql.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        layout = load_layout(sql)
        assert layout is not None
        expected = set()
        for record, hash_key, range_key, body in sql.execute("SELECT id, hash, range, body FROM records"):
            base, shard = encode_hash_key(hash_key.decode())
            expected.add((0, base, range_key, shard, b"", record))
            tie = tie_breaker(hash_key, range_key)
            expected |= {(*entry, record) for entry in layout.stored_entries(decode_body(body), tie)}
        stored = sql.execute("SELECT idx, base, value, shard, tie, record FROM entries").fetchall()
        assert len(stored) == len(expected)
        assert set(stored) == expected
