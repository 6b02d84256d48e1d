"""How a SQLite store notices that another process has changed the indexes of the file."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from graphql_api.codecs import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage import Check, Expect, IndexDefinition, Key, Put, RangeRead, RowPage, TableDefinition
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite

TEXT, OTHER = IndexDefinition("text", "h", "t"), IndexDefinition("other", "h", "o")
NUMBER = replace(TEXT, range_type="N", range_attribute="n")
TABLE = TableDefinition((TEXT, OTHER))
RECORD = {"hashKey": "a!", "rangeKey": "1", "h": "a!", "t": "x", "n": 1, "o": "y"}


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[list[SqliteStore]]:
    """Two stores on one file, as two processes have them. It holds a record."""
    stores = [await open_sqlite(tmp_path / "table.db") for _ in range(2)]
    await stores[0].ensure_table(TABLE)
    assert await stores[0].write([Put(RECORD)]) == [None]
    yield stores
    for store in stores:
        await store.close()


async def values(store: SqliteStore, index: str, low: int | str | None = None) -> list[object]:
    """The range values of all entries of an index."""
    (page,) = await store.read_ranges([RangeRead(index, "a!", 0, KeyRange(low), 10)], want=10)
    assert isinstance(page, RowPage)
    return [row.value for row in page.rows]


async def test_a_search_and_its_comparison_need_one_statement_more(stores: list[SqliteStore]) -> None:
    """A page of an index is one scan. A single statement then shows that neither layout nor epoch has changed."""
    store, _ = stores
    check = Check(Key("a!", "1"), Expect(attributes={"t": "x"}))
    statements: list[str] = []
    for expected in (None, ["SELECT value, shard", "PRAGMA data_version"]):
        store._sql.set_trace_callback(statements.append)
        store.forget_snapshot()
        assert await values(store, "text") == ["x"]
        assert store.holds(check)
        store._sql.set_trace_callback(None)
        if expected is not None:
            assert [statement[: len(text)] for statement, text in zip(statements, expected, strict=True)] == expected
        statements.clear()


async def test_an_index_that_is_replaced_between_two_searches(stores: list[SqliteStore]) -> None:
    """An index that was dropped and added again has another number, which the next search uses."""
    store, other = stores
    for definitions in ((OTHER, TEXT), (TEXT, OTHER)):
        assert await values(store, "text") == ["x"]
        assert await values(store, "other") == ["y"]
        await other.drop_index("text")
        await other.drop_index("other")
        await other.ensure_table(TableDefinition(definitions))
    assert await values(store, "text") == ["x"]


async def test_an_index_that_is_replaced_by_one_of_another_type(stores: list[SqliteStore]) -> None:
    """Bounds are compared with the type that the index has now."""
    store, other = stores
    assert await values(store, "text", "a") == ["x"]
    await other.drop_index("text")
    await other.ensure_table(TableDefinition((OTHER, NUMBER)))
    assert await values(store, "text", 0) == [1]
    with pytest.raises(StoreRefused):
        await values(store, "text", "a")


async def test_an_index_that_is_dropped(stores: list[SqliteStore]) -> None:
    """A search by an index that another process has dropped is refused, and not answered without entries."""
    store, other = stores
    assert await values(store, "text") == ["x"]
    await other.drop_index("text")
    with pytest.raises(StoreRefused, match="no index 'text'"):
        await values(store, "text")


async def test_an_index_that_is_replaced_during_a_search(
    stores: list[SqliteStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search whose index is replaced while it scans is repeated."""
    store, other = stores
    assert await values(store, "text") == ["x"]
    scan, replaced = SqliteStore._scan_ranges, list[bool]()

    async def scan_after_a_change(self: SqliteStore, *arguments: object) -> object:
        if not replaced:
            replaced.append(True)
            await other.drop_index("text")
            await other.drop_index("other")
            await other.ensure_table(TableDefinition((OTHER, TEXT)))
        return await scan(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteStore, "_scan_ranges", scan_after_a_change)
    assert await values(store, "text") == ["x"]
    assert replaced
