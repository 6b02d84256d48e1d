"""The wrappers that make SQLite behave like a distributed engine, and the defaults of SQLite that they replace."""

import sqlite3
from pathlib import Path

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import Throttled, WrongTable
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.read_resumption import resume_after
from graphql_api.storage.values import Delete, IndexDefinition, Key, Put, RangeRead, RowPage, TableDefinition
from tests.support.distributed_store import KeyOrderedStore, LaggingStore, ThrottledStore, open_lagging

TABLE = TableDefinition((IndexDefinition("byText", "textHash", "text"),))


def put(number: int, text: str) -> Put:
    """A put of a record in the text index."""
    return Put({"hashKey": "h!", "rangeKey": f"{number:03}", "textHash": "t!", "text": text})


async def open_store(path: Path) -> SqliteStore:
    """Open a store with a table."""
    store = await open_sqlite(path / "store.db")
    await store.ensure_table(TABLE)
    return store


async def open_lagging_store(path: Path, lag: int) -> LaggingStore:
    """Open a store with a table whose index entries lag."""
    store = await open_lagging(path / "store.db", lag)
    await store.ensure_table(TABLE)
    return store


async def read_index(store: Store, *, descending: bool = False) -> list[tuple[str, object]]:
    """Return the range keys and texts of the index."""
    (page,) = await store.read_ranges([RangeRead("byText", "t!", 0, KeyRange(), 1000, descending)], 1000)
    assert isinstance(page, RowPage)
    assert all(row.item["text"] == row.value for row in page.rows)
    return [(row.key.range, row.value) for row in page.rows]


async def test_tie_orders(tmp_path: Path) -> None:
    """SQLite orders tied rows by a hash, the wrapper by table key."""
    hashed = await open_store(tmp_path)
    by_key = KeyOrderedStore(hashed)
    await by_key.write([put(number, "same") for number in range(30)])
    hashed_rows, key_rows = await read_index(hashed), await read_index(by_key)
    assert await read_index(hashed, descending=True) == hashed_rows[::-1]
    assert await read_index(by_key, descending=True) == key_rows[::-1]
    assert key_rows == sorted(key_rows)
    assert hashed_rows != key_rows
    assert sorted(hashed_rows) == key_rows
    await by_key.close()


@pytest.mark.parametrize(
    "change",
    ["UPDATE meta SET value = 'key' WHERE name = 'tie_order'", "INSERT INTO lagging (old, new) VALUES (NULL, 1)"],
)
async def test_files_with_test_options_of_earlier_releases(tmp_path: Path, change: str) -> None:
    """A file with another order of ties, or with late index entries, is rejected."""
    await (await open_store(tmp_path)).close()
    with sqlite3.connect(tmp_path / "store.db") as sql:
        sql.execute(change)
    sql.close()
    with pytest.raises(WrongTable, match="test options of an earlier release"):
        await open_sqlite(tmp_path / "store.db")


async def test_index_lag(tmp_path: Path) -> None:
    """Index reads omit the last writes. Reads by key and of the table include them."""
    store = await open_lagging_store(tmp_path, 2)
    await store.write([put(1, "a")])
    await store.write([put(2, "b")])
    assert await read_index(store) == []
    await store.write([put(1, "c")])
    assert await read_index(store) == [("001", "a")]
    assert list(await store.get_many([Key("h!", "001")], True)) == [put(1, "c").item]
    await store.write([Delete(Key("h!", "001"))])
    assert await read_index(store) == [("001", "a"), ("002", "b")]
    assert list(await store.get_many([Key("h!", "001")], False)) == [None]
    (page,) = await store.read_ranges([RangeRead(None, "h!", 0, KeyRange(), 10)], 10)
    assert isinstance(page, RowPage)
    assert [row.key.range for row in page.rows] == ["002"]
    await store.write_together([put(1, "d")], "token")
    assert await read_index(store) == [("002", "b"), ("001", "c")]
    await store.catch_up_indexes()
    assert await read_index(store) == [("002", "b"), ("001", "d")]
    await store.close()


async def test_index_lag_ends_without_the_wrapper(tmp_path: Path) -> None:
    """The index entries of the file itself never lag."""
    lagging = await open_lagging_store(tmp_path, 100)
    await lagging.write([put(number, "a") for number in range(5)])
    await lagging.write([put(0, "b")])
    assert await read_index(lagging) == []
    await lagging.close()
    store = await open_store(tmp_path)
    assert [text for _, text in await read_index(store)] == ["a", "a", "a", "a", "b"]
    await store.close()


async def test_short_pages(tmp_path: Path) -> None:
    """A page ends after the number of rows that is set for the number of rows that are left."""
    store = KeyOrderedStore(await open_store(tmp_path), page_rows=(1, 2))
    await store.write([put(number, f"{number}") for number in range(3)])
    read: RangeRead | None = RangeRead("byText", "t!", 0, KeyRange(), 10)
    for expected in (["0", "1"], ["2"]):
        assert read is not None
        (page,) = await store.read_ranges([read], 10)
        assert isinstance(page, RowPage)
        assert [row.value for row in page.rows] == expected
        read = None if page.scanned_to is None else resume_after(read, page.scanned_to, may_tie=True)
    assert read is None
    await store.close()


async def test_default_page_size(tmp_path: Path) -> None:
    """A page of SQLite ends once it holds more than 1 MB."""
    store = await open_store(tmp_path)
    await store.write([Put({**put(number, f"{number}").item, "much": "x" * 300_000}) for number in range(6)])
    (page,) = await store.read_ranges([RangeRead("byText", "t!", 0, KeyRange(), 10)], 10)
    assert isinstance(page, RowPage)
    assert [row.value for row in page.rows] == ["0", "1", "2", "3"]
    assert page.scanned_to == page.rows[-1].position
    await store.close()


async def test_throttled_calls(tmp_path: Path) -> None:
    """A throttled operation fails with a retryable error and has no effect."""
    throttled: set[str] = set()
    operations: list[str] = []

    def throttle(operation: str) -> bool:
        operations.append(operation)
        return operation in throttled

    store = ThrottledStore(await open_sqlite(tmp_path / "store.db"), throttle)
    await store.ensure_table(TABLE)
    throttled |= {"write", "write_together", "get_many", "scan", "ensure_table"}
    with pytest.raises(Throttled) as caught:
        await store.write([put(0, "a")])
    assert caught.value.retryable
    with pytest.raises(Throttled):
        await store.write_together([put(0, "a")], "token")
    with pytest.raises(Throttled):
        await store.get_many([Key("h!", "000")], True)
    with pytest.raises(Throttled):
        await store.scan(0, 1, None)
    with pytest.raises(Throttled):
        await store.ensure_table(TABLE)
    assert operations == ["ensure_table", "write", "write_together", "get_many", "scan", "ensure_table"]
    throttled.clear()
    assert list(await store.get_many([Key("h!", "000")], True)) == [None]
    await store.close()


async def test_throttled_reads(tmp_path: Path) -> None:
    """A throttled read fails alone, and the other reads return their rows."""
    is_throttled = iter([False, True, False])
    inner = await open_store(tmp_path)
    store = ThrottledStore(inner, lambda operation: operation == "read_ranges" and next(is_throttled))
    await store.write(
        [
            Put({"hashKey": "h!", "rangeKey": f"{shard}", "textHash": f"t!{shard}", "text": f"{shard}"})
            for shard in range(3)
        ]
    )
    reads = [RangeRead("byText", f"t!{shard}", shard, KeyRange(), 10) for shard in range(3)]
    first, second, third = await store.read_ranges(reads, 10)
    assert isinstance(second, Throttled)
    assert [row.value for page in (first, third) if isinstance(page, RowPage) for row in page.rows] == ["0", "2"]
    await store.close()
