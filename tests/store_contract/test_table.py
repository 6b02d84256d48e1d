"""The table: creating it, adding indexes, scanning it, reopening it."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, IndexDefinition, Key, Put, TableDefinition
from tests.store_contract.contract_engines import Engine
from tests.store_contract.samples import TABLE, comparable_definition, put, range_read, read_page, record
from tests.support.fake_clock import FakeClock

LATER = IndexDefinition("later", "laterHash", "later", "N")


async def test_describe(bare_store: Store) -> None:
    """`describe` returns the definition of the table. Defining the table again changes nothing."""
    assert await bare_store.describe() is None
    for _ in range(2):
        await bare_store.ensure_table(TABLE)
        assert comparable_definition(await bare_store.describe()) == comparable_definition(TABLE)
    await bare_store.ensure_table(TableDefinition())
    assert comparable_definition(await bare_store.describe()) == comparable_definition(TABLE)


async def test_custom_key_attributes(bare_store: Store) -> None:
    """A table may have its own names for the key attributes, and keeps them."""
    await bare_store.ensure_table(TableDefinition((), "pk", "sk"))
    await put(bare_store, {"pk": "h!", "sk": "r"})
    assert list(await bare_store.get_many([Key("h!", "r")], True)) == [{"pk": "h!", "sk": "r"}]
    with pytest.raises(WrongTable):
        await bare_store.ensure_table(TABLE)


async def test_added_index(store: Store) -> None:
    """An added index contains every stored record that has its attributes, and follows later writes."""
    fitting = [record(("h!", f"{number:04}"), laterHash="l!", later=number) for number in range(1200)]
    others: list[dict[str, Any]] = [
        record(("h!", "a")),
        record(("h!", "b"), laterHash="l!"),
        record(("h!", "c"), later=1),
    ]
    await put(store, *fitting, *others)

    await store.ensure_table(TableDefinition((*TABLE.indexes, LATER)))

    rows = (await read_page(store, range_read("later", "l!"), want=10_000)).rows
    assert [row.item for row in rows] == fitting
    assert comparable_definition(await store.describe()) == comparable_definition(
        TableDefinition((*TABLE.indexes, LATER))
    )
    await put(store, {**fitting[0], "later": 5000})
    await store.write([Delete(Key("h!", "0001"))])
    values = [row.value for row in (await read_page(store, range_read("later", "l!"), want=10_000)).rows]
    assert values == [*range(2, 1200), 5000]
    assert len((await read_page(store, range_read("byText", "t!"))).rows) == 0


async def test_a_dropped_index_is_gone_and_can_be_added_again(store: Store) -> None:
    """A dropped index cannot be read; records and other indexes stay, and it can be added with other attributes."""
    items = [record(("h!", f"{number}"), laterHash="l!", later=number) for number in range(5)]
    await put(store, *items)
    await store.ensure_table(TableDefinition((LATER,)))
    await store.drop_index("later")
    await store.drop_index("later")
    assert comparable_definition(await store.describe()) == comparable_definition(TABLE)
    with pytest.raises(StoreRefused):
        await read_page(store, range_read("later", "l!"))
    await put(store, record(("h!", "5"), laterHash="l!", later="text"))
    assert await store.get_many([Key("h!", "3")], consistent=True) == [items[3]]
    await store.ensure_table(TableDefinition((replace(LATER, range_attribute="laterHash", hash_attribute="later2"),)))
    assert len((await read_page(store, range_read("later", "l!"))).rows) == 0


@pytest.mark.needs("mistyped entries")
async def test_mistyped_records_are_not_in_an_added_index(store: Store) -> None:
    """A record whose attribute has another type than an added index is not in the index until it is rewritten."""
    mistyped = record(("h!", "d"), laterHash="l!", later="text")
    await put(store, mistyped, record(("h!", "e"), laterHash="l!", later=1))
    await store.ensure_table(TableDefinition((LATER,)))
    assert [row.value for row in (await read_page(store, range_read("later", "l!"))).rows] == [1]
    await put(store, {**mistyped, "later": -1})
    assert [row.value for row in (await read_page(store, range_read("later", "l!"))).rows] == [-1, 1]


async def test_writes_during_a_backfill(store: Store) -> None:
    """Writes during the backfill of an index are in the index with their final values."""
    await put(store, *(record(("h!", f"{number:04}"), laterHash="l!", later=number) for number in range(2000)))

    async def change() -> None:
        for number in range(0, 2000, 40):
            await put(store, record(("h!", f"{number:04}"), laterHash="l!", later=number + 10_000))
            await store.write([Delete(Key("h!", f"{number + 1:04}"))])
            await put(store, record(("h!", f"{number:04}-new"), laterHash="l!", later=number + 20_000))

    await asyncio.gather(store.ensure_table(TableDefinition((LATER,))), change())

    rows = (await read_page(store, range_read("later", "l!"), want=10_000)).rows
    unchanged = [number for number in range(2000) if number % 40 not in (0, 1)]
    rewritten = [number + offset for offset in (10_000, 20_000) for number in range(0, 2000, 40)]
    assert [row.value for row in rows] == unchanged + rewritten
    assert all(row.item["later"] == row.value for row in rows)


@pytest.mark.parametrize(
    "other",
    [
        replace(TABLE.indexes[0], hash_attribute="otherHash"),
        replace(TABLE.indexes[0], range_attribute="other"),
        replace(TABLE.indexes[0], projection="KEYS_ONLY"),
        replace(TABLE.indexes[3], projection=("size",)),
        replace(TABLE.indexes[1], range_type="S"),
    ],
)
async def test_conflicting_index_definitions(store: Store, other: IndexDefinition) -> None:
    """A known index with other attributes is rejected. The error names both, and the table stays unchanged."""
    with pytest.raises(StoreRefused) as caught:
        await store.ensure_table(TableDefinition((LATER, other)))
    assert other.name in caught.value.message
    assert other.range_attribute in caught.value.message
    assert comparable_definition(await store.describe()) == comparable_definition(TABLE)


@pytest.mark.parametrize(
    "definition",
    [
        TableDefinition((LATER, LATER)),
        TableDefinition((replace(LATER, name="ab"),)),
        TableDefinition((replace(LATER, name="with space"),)),
        TableDefinition((replace(LATER, range_attribute="laterHash"),)),
        TableDefinition((LATER, replace(LATER, name="another", range_type="S"))),
        TableDefinition((replace(LATER, range_attribute="rangeKey"),)),
        TableDefinition((replace(LATER, projection=tuple(f"a{number}" for number in range(101))),)),
        TableDefinition((), "key", "key"),
    ],
)
async def test_invalid_definitions(bare_store: Store, definition: TableDefinition) -> None:
    """A definition that is contradictory or exceeds a limit is rejected, and no table is created."""
    with pytest.raises(StoreRefused):
        await bare_store.ensure_table(definition)
    assert await bare_store.describe() is None


@pytest.mark.needs("concurrent definitions")
async def test_concurrent_definitions(bare_store: Store) -> None:
    """Concurrent calls may define the table with different indexes. All indexes exist afterwards."""
    await bare_store.ensure_table(TableDefinition())
    items = [
        record(("h!", f"{number:03}"), **{f"a{index}": "a!" for index in range(4)}, b="v") for number in range(700)
    ]
    await put(bare_store, *items)
    indexes = [IndexDefinition(f"index{number}", f"a{number}", "b") for number in range(4)]
    await asyncio.gather(*(bare_store.ensure_table(TableDefinition((index,))) for index in (*indexes, *indexes)))
    for index in indexes:
        assert len((await read_page(bare_store, range_read(index.name, "a!"), want=10_000)).rows) == 700
    table = await bare_store.describe()
    assert table is not None
    assert sorted(index.name for index in table.indexes) == [index.name for index in indexes]


@pytest.mark.parametrize("of", [1, 3, 7])
async def test_scan(store: Store, of: int) -> None:
    """The segments of a scan return every record once, in consecutive pages of at most 1,000 records."""
    items = [record((f"h!{number % 5}", f"{number:05}"), position=number) for number in range(2500)]
    await put(store, *items)
    positions: list[int] = []
    for segment in range(of):
        after = None
        while True:
            scan_page = await store.scan(segment, of, after)
            assert len(scan_page.items) <= 1000
            positions += [item["position"] for item in scan_page.items]
            after = scan_page.after
            if after is None:
                break
    assert len(positions) == 2500
    assert sorted(positions) == list(range(2500))


async def test_scan_of_an_empty_table(store: Store) -> None:
    """The scan of an empty table returns one empty page."""
    scan_page = await store.scan(0, 1, None)
    assert (list(scan_page.items), scan_page.after) == ([], None)


@pytest.mark.needs("reopen", "tokens")
async def test_reopening_keeps_acknowledged_writes(engine: Engine, tmp_path: Path, clock: FakeClock) -> None:
    """A reopened store has everything that was acknowledged: table, records, index entries, tokens."""
    path = tmp_path / "again"
    path.mkdir()
    store = await engine.open(path, clock)
    await store.ensure_table(TABLE)
    await put(store, record(("h!", "0"), textHash="t!", text="a"), record(("h!", "1"), textHash="t!", text="b"))
    await store.write([Delete(Key("h!", "0"))])
    await store.write_together([Put(record(("h!", "2"), textHash="t!", text="c"))], "token")
    await store.close()

    store = await engine.open(path, clock)
    assert comparable_definition(await store.describe()) == comparable_definition(TABLE)
    assert [row.value for row in (await read_page(store, range_read("byText", "t!"))).rows] == ["b", "c"]
    with pytest.raises(StoreRefused):
        await store.write_together([Put(record(("h!", "3")))], "token")
    await store.close()


async def test_closing_completes_pending_writes(engine: Engine, tmp_path: Path, clock: FakeClock) -> None:
    """Pending writes complete when the store is closed. Later calls are rejected."""
    path = tmp_path / "closing"
    path.mkdir()
    store = await engine.open(path, clock)
    await store.ensure_table(TABLE)
    writes = [asyncio.ensure_future(store.write([Put(record(("h!", f"{number}")))])) for number in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert [list(problems) for problems in await asyncio.gather(*writes)] == [[None]] * 50
    await store.close()
    with pytest.raises(StoreRefused):
        await store.write([Put(record(("h!", "r")))])
    with pytest.raises(StoreRefused):
        await store.get_many([Key("h!", "r")], True)
    with pytest.raises(StoreRefused):
        await store.read_ranges([range_read(None, "h!")], 1)
