"""Writers of a SQLite file that are killed at any moment: what was acknowledged is there, and nothing is half done."""

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
from graphql_api.storage.engines.sqlite.key_bytes import encode_hash_key, tie_breaker
from graphql_api.storage.engines.sqlite.record_body import decode_body
from graphql_api.storage.engines.sqlite.table_layout import load_layout
from graphql_api.storage.values import Key, Put, RangeRead, RowPage
from tests.depth import depth
from tests.faults.doomed import BATCH, FIXED, TABLE, Mother, change, mother, move
from tests.faults.timing import best_of

READY_SECONDS = 1.0


@pytest.fixture(scope="module")
def doomed() -> Iterator[Mother]:
    """A process whose children are killed."""
    with mother() as process:
        yield process


async def test_killed_writers(doomed: Mother, tmp_path: Path, random: Random) -> None:
    """After each of many kills the file is ready within a second, and holds what was acknowledged, all of it whole."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    await store.ensure_table(TABLE)
    await store.write([Put({"hashKey": FIXED.hash, "rangeKey": FIXED.range})])
    await store.close()
    for number in range(depth(20, 200)):
        name = f"child{number}"
        child = doomed.bear(path, name, random.choice([20, 16_000]))
        first = doomed.hear(random.choice(["batch", "change", "move"]))
        await asyncio.sleep(random.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        told = {"batch": -1, "change": -1, "move": -1, **first, **doomed.hear("dead")}
        assert told["dead"] == -signal.SIGKILL
        assert await best_of(3, lambda: seconds_until_ready(path), enough=READY_SECONDS) < READY_SECONDS
        store = await open_sqlite(path)
        await check_what_stands(store, name, told)
        await check_answers_that_were_lost(store, name, told)
        await store.close()
        check_entries(path)


async def seconds_until_ready(path: Path) -> float:
    """How long it takes from opening the file, as it was left, to its first answer."""
    copy = path.with_suffix(".copy")
    for suffix in ("", "-wal", "-shm"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    now = asyncio.get_running_loop().time
    began = now()
    store = await open_sqlite(copy)
    assert (await store.get_many([FIXED], True))[0] is not None
    assert list(await store.write([Put({"hashKey": "ready!", "rangeKey": "r"})])) == [None]
    seconds = now() - began
    await store.close()
    return seconds


async def rows(store: SqliteStore, hash_key: str) -> list[str]:
    """The range keys of a hash key."""
    (page,) = await store.read_ranges([RangeRead(None, hash_key, 0, KeyRange(), 10**6)], 10**6)
    assert isinstance(page, RowPage)
    return [row.key.range for row in page.rows]


async def check_what_stands(store: SqliteStore, name: str, told: Mapping[str, int]) -> None:
    """What was acknowledged is there; of what was not, at most the next of each is, and that is whole."""
    batches = await rows(store, f"batch-{name}!")
    number = len(batches) // BATCH
    assert number in {told["batch"] + 1, told["batch"] + 2}
    assert batches == [f"{one:06}-{part}" for one in range(number) for part in range(BATCH)]
    (changed,) = await store.get_many([Key(f"change-{name}!", "r")], True)
    changes = -1 if changed is None else -changed["number"]
    assert changes in {told["change"], told["change"] + 1}
    assert changed is None or changed == change(name, changes).item
    moves = await moved(store, name)
    assert moves in {told["move"] + 1, told["move"] + 2}
    assert await rows(store, f"move-{name}!") == ([f"{moves - 1:06}", "counter"] if moves else [])


async def check_answers_that_were_lost(store: SqliteStore, name: str, told: Mapping[str, int]) -> None:
    """The transaction that may have happened happens now, if it has not, and so do those before; none happens twice."""
    lost = told["move"] + 1
    if lost:
        await store.write_together(move(name, lost - 1), f"{name} {lost - 1}")
    await store.write_together(move(name, lost), f"{name} {lost}")
    assert await moved(store, name) == lost + 1
    with pytest.raises(StoreRefused):
        await store.write_together(move(name, lost + 1), f"{name} {lost}")


async def moved(store: SqliteStore, name: str) -> int:
    """How many moves there were, by their counter."""
    (counter,) = await store.get_many([Key(f"move-{name}!", "counter")], True)
    return 0 if counter is None else int(counter["n"])


def check_entries(path: Path) -> None:
    """Every record has its entries in the table and in each index, and every entry its record; the file is sound."""
    with closing(sqlite3.connect(path)) as sql:
        assert sql.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        layout = load_layout(sql)
        assert layout is not None
        wanted = set()
        for record, hash_key, range_key, body in sql.execute("SELECT id, hash, range, body FROM records"):
            base, shard = encode_hash_key(hash_key.decode(), "the record")
            wanted.add((0, base, range_key, shard, b"", record))
            tie = tie_breaker(hash_key, range_key, layout.tie_order)
            wanted |= {(*entry, record) for entry in layout.stored_entries(decode_body(body), tie)}
        found = sql.execute("SELECT idx, base, value, shard, tie, record FROM entries").fetchall()
        assert len(found) == len(wanted)
        assert set(found) == wanted
