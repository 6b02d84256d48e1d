"""The test switches of SQLite, which make it behave like a distributed engine."""

from dataclasses import fields
from pathlib import Path

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import Throttled, WrongTable
from graphql_api.storage.engines.sqlite import EngineQuirks, SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.engine_quirks import NO_QUIRKS
from graphql_api.storage.values import Delete, IndexDefinition, Key, Put, RangeRead, RowPage, TableDefinition

TABLE = TableDefinition((IndexDefinition("byText", "textHash", "text"),))


def put(number: int, text: str) -> Put:
    """A put of a record in the text index."""
    return Put({"hashKey": "h!", "rangeKey": f"{number:03}", "textHash": "t!", "text": text})


async def open_store(path: Path, quirks: EngineQuirks) -> SqliteStore:
    """Open a store with a table."""
    store = await open_sqlite(path / "store.db", quirks=quirks)
    await store.ensure_table(TABLE)
    return store


async def read_index(store: SqliteStore, *, descending: bool = False) -> list[tuple[str, object]]:
    """Return the range keys and texts of the index."""
    (page,) = await store.read_ranges([RangeRead("byText", "t!", 0, KeyRange(), 1000, descending)], 1000)
    assert isinstance(page, RowPage)
    assert all(row.item["text"] == row.value for row in page.rows)
    return [(row.key.range, row.value) for row in page.rows]


def test_switches_are_documented() -> None:
    """The table of switches in docs/engines.md lists each switch with its default."""
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    for field in fields(EngineQuirks):
        default = getattr(NO_QUIRKS, field.name)
        assert f"| `{field.name}` | `{default!r}` |".replace("'", '"') in page


async def test_tie_orders(tmp_path: Path) -> None:
    """Tied rows are ordered by table key or by a hash. The file keeps the order that it was created with."""
    orders = {}
    for order in ("key", "hashed"):
        folder = tmp_path / order
        folder.mkdir()
        quirks = EngineQuirks(tie_order="key" if order == "key" else "hashed")
        store = await open_store(folder, quirks)
        await store.write([put(number, "same") for number in range(30)])
        orders[order] = await read_index(store)
        assert await read_index(store, descending=True) == orders[order][::-1]
        await store.close()
    assert orders["key"] == sorted(orders["key"])
    assert orders["hashed"] != orders["key"]
    assert sorted(orders["hashed"]) == orders["key"]
    with pytest.raises(WrongTable):
        await open_sqlite(tmp_path / "key" / "store.db")


async def test_index_lag(tmp_path: Path) -> None:
    """Index reads omit the last writes. Reads by key and of the table include them."""
    store = await open_store(tmp_path, EngineQuirks(index_lag=2))
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
    assert store._sql.execute("SELECT count(*) FROM records").fetchone() == (2,)
    await store.close()


async def test_index_lag_ends_without_the_switch(tmp_path: Path) -> None:
    """A lagging file is brought up to date when it is opened without the switch."""
    store = await open_store(tmp_path, EngineQuirks(index_lag=100))
    await store.write([put(number, "a") for number in range(5)])
    await store.write([put(0, "b")])
    assert await read_index(store) == []
    await store.close()
    store = await open_store(tmp_path, EngineQuirks())
    assert [text for _, text in await read_index(store)] == ["a", "a", "a", "a", "b"]
    await store.close()


async def test_page_bytes(tmp_path: Path) -> None:
    """A page ends after the record that exceeds its size."""
    store = await open_store(tmp_path, EngineQuirks(page_bytes=1))
    await store.write([put(number, f"{number}") for number in range(3)])
    read = RangeRead("byText", "t!", 0, KeyRange(), 10)
    (page,) = await store.read_ranges([read], 10)
    assert isinstance(page, RowPage)
    assert [row.value for row in page.rows] == ["0"]
    assert page.scanned_to == page.rows[0].position
    await store.close()


async def test_default_page_size(tmp_path: Path) -> None:
    """Without the switch, a page ends once it holds more than 1 MB."""
    store = await open_store(tmp_path, EngineQuirks())
    await store.write([Put({**put(number, f"{number}").item, "much": "x" * 300_000}) for number in range(6)])
    (page,) = await store.read_ranges([RangeRead("byText", "t!", 0, KeyRange(), 10)], 10)
    assert isinstance(page, RowPage)
    assert [row.value for row in page.rows] == ["0", "1", "2", "3"]
    await store.close()


async def test_throttled_calls(tmp_path: Path) -> None:
    """A throttled operation fails with a retryable error and has no effect."""
    throttled: set[str] = set()
    operations: list[str] = []

    def throttle(operation: str) -> bool:
        operations.append(operation)
        return operation in throttled

    store = await open_store(tmp_path, EngineQuirks(throttle=throttle))
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
    store = await open_store(
        tmp_path, EngineQuirks(throttle=lambda operation: operation == "read_ranges" and next(is_throttled))
    )
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
