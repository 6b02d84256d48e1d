"""The table itself: making it, adding indexes, scanning all of it, finding it again."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api.errors import StoreRefused, WrongTable
from graphql_api.storage.port import Store
from graphql_api.storage.values import Delete, IndexDefinition, Key, Put, TableDefinition
from tests.clocks import Clock
from tests.store_contract.engines import Engine
from tests.store_contract.samples import TABLE, page, put, reading, record, unordered

LATER = IndexDefinition("later", "laterHash", "later", "N")


async def test_describe(bare_store: Store) -> None:
    """A table is described as it was defined; defining it again changes nothing."""
    assert await bare_store.describe() is None
    for _ in range(2):
        await bare_store.ensure_table(TABLE)
        assert unordered(await bare_store.describe()) == unordered(TABLE)
    await bare_store.ensure_table(TableDefinition())
    assert unordered(await bare_store.describe()) == unordered(TABLE)


async def test_own_key_attributes(bare_store: Store) -> None:
    """A table may name its key attributes as it likes, and keeps them."""
    await bare_store.ensure_table(TableDefinition((), "pk", "sk"))
    await put(bare_store, {"pk": "h!", "sk": "r"})
    assert list(await bare_store.get_many([Key("h!", "r")], True)) == [{"pk": "h!", "sk": "r"}]
    with pytest.raises(WrongTable):
        await bare_store.ensure_table(TABLE)


async def test_added_index(store: Store) -> None:
    """An index that is added later holds every stored record that fits it, and follows writes from then on."""
    fitting = [record(("h!", f"{place:04}"), laterHash="l!", later=place) for place in range(1200)]
    others: list[dict[str, Any]] = [
        record(("h!", "a")),
        record(("h!", "b"), laterHash="l!"),
        record(("h!", "c"), later=1),
    ]
    await put(store, *fitting, *others)

    await store.ensure_table(TableDefinition((*TABLE.indexes, LATER)))

    rows = (await page(store, reading("later", "l!"), want=10_000)).rows
    assert [row.item for row in rows] == fitting
    assert unordered(await store.describe()) == unordered(TableDefinition((*TABLE.indexes, LATER)))
    await put(store, {**fitting[0], "later": 5000})
    await store.write([Delete(Key("h!", "0001"))])
    values = [row.value for row in (await page(store, reading("later", "l!"), want=10_000)).rows]
    assert values == [*range(2, 1200), 5000]
    assert len((await page(store, reading("byText", "t!"))).rows) == 0


@pytest.mark.needs("unfit")
async def test_records_that_do_not_fit_an_added_index(store: Store) -> None:
    """A stored record whose attribute is not of the added index's type stays out of it until it is written anew."""
    unfit = record(("h!", "d"), laterHash="l!", later="text")
    await put(store, unfit, record(("h!", "e"), laterHash="l!", later=1))
    await store.ensure_table(TableDefinition((LATER,)))
    assert [row.value for row in (await page(store, reading("later", "l!"))).rows] == [1]
    await put(store, {**unfit, "later": -1})
    assert [row.value for row in (await page(store, reading("later", "l!"))).rows] == [-1, 1]


async def test_writes_during_a_fill(store: Store) -> None:
    """What is written while an index is being filled stands in it as it is in the end."""
    await put(store, *(record(("h!", f"{place:04}"), laterHash="l!", later=place) for place in range(2000)))

    async def change() -> None:
        for place in range(0, 2000, 40):
            await put(store, record(("h!", f"{place:04}"), laterHash="l!", later=place + 10_000))
            await store.write([Delete(Key("h!", f"{place + 1:04}"))])
            await put(store, record(("h!", f"{place:04}-new"), laterHash="l!", later=place + 20_000))

    await asyncio.gather(store.ensure_table(TableDefinition((LATER,))), change())

    rows = (await page(store, reading("later", "l!"), want=10_000)).rows
    kept = [place for place in range(2000) if place % 40 not in (0, 1)]
    moved = [place + offset for offset in (10_000, 20_000) for place in range(0, 2000, 40)]
    assert [row.value for row in rows] == kept + moved
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
async def test_index_of_the_same_name(store: Store, other: IndexDefinition) -> None:
    """An index of the same name with other attributes is refused, both are named, and nothing changes."""
    with pytest.raises(StoreRefused) as caught:
        await store.ensure_table(TableDefinition((LATER, other)))
    assert other.name in caught.value.message
    assert other.range_attribute in caught.value.message
    assert unordered(await store.describe()) == unordered(TABLE)


@pytest.mark.parametrize(
    "definition",
    [
        TableDefinition((LATER, LATER)),
        TableDefinition((replace(LATER, name="ab"),)),
        TableDefinition((replace(LATER, name="with space"),)),
        TableDefinition((replace(LATER, range_attribute="laterHash"),)),
        TableDefinition((LATER, replace(LATER, name="another", range_type="S"))),
        TableDefinition((replace(LATER, range_attribute="rangeKey"),)),
        TableDefinition((replace(LATER, projection=tuple(f"a{place}" for place in range(101))),)),
        TableDefinition((), "key", "key"),
    ],
)
async def test_wrong_definitions(bare_store: Store, definition: TableDefinition) -> None:
    """A definition that contradicts itself or passes a limit is refused, and no table is made."""
    with pytest.raises(StoreRefused):
        await bare_store.ensure_table(definition)
    assert await bare_store.describe() is None


@pytest.mark.needs("definers")
async def test_several_definers(bare_store: Store) -> None:
    """Several may define the table at once, each with indexes of its own; all of them are there in the end."""
    await bare_store.ensure_table(TableDefinition())
    items = [record(("h!", f"{place:03}"), **{f"a{index}": "a!" for index in range(4)}, b="v") for place in range(700)]
    await put(bare_store, *items)
    indexes = [IndexDefinition(f"index{number}", f"a{number}", "b") for number in range(4)]
    await asyncio.gather(*(bare_store.ensure_table(TableDefinition((index,))) for index in (*indexes, *indexes)))
    for index in indexes:
        assert len((await page(bare_store, reading(index.name, "a!"), want=10_000)).rows) == 700
    table = await bare_store.describe()
    assert table is not None
    assert sorted(index.name for index in table.indexes) == [index.name for index in indexes]


@pytest.mark.parametrize("of", [1, 3, 7])
async def test_scan(store: Store, of: int) -> None:
    """The segments of a scan hold every record once, in pages of at most 1,000 that go on behind each other."""
    items = [record((f"h!{place % 5}", f"{place:05}"), place=place) for place in range(2500)]
    await put(store, *items)
    found: list[int] = []
    for segment in range(of):
        after = None
        while True:
            part = await store.scan(segment, of, after)
            assert len(part.items) <= 1000
            found += [item["place"] for item in part.items]
            after = part.after
            if after is None:
                break
    assert len(found) == 2500
    assert sorted(found) == list(range(2500))


async def test_scan_of_nothing(store: Store) -> None:
    """An empty table has one empty page."""
    part = await store.scan(0, 1, None)
    assert (list(part.items), part.after) == ([], None)


@pytest.mark.needs("reopen", "tokens")
async def test_reopened(engine: Engine, tmp_path: Path, clock: Clock) -> None:
    """Everything acknowledged is there after closing and opening: table, records, entries, tokens."""
    place = tmp_path / "again"
    place.mkdir()
    store = await engine.open(place, clock)
    await store.ensure_table(TABLE)
    await put(store, record(("h!", "0"), textHash="t!", text="a"), record(("h!", "1"), textHash="t!", text="b"))
    await store.write([Delete(Key("h!", "0"))])
    await store.write_together([Put(record(("h!", "2"), textHash="t!", text="c"))], "token")
    await store.close()

    store = await engine.open(place, clock)
    assert unordered(await store.describe()) == unordered(TABLE)
    assert [row.value for row in (await page(store, reading("byText", "t!"))).rows] == ["b", "c"]
    with pytest.raises(StoreRefused):
        await store.write_together([Put(record(("h!", "3")))], "token")
    await store.close()


async def test_closing_finishes_what_was_accepted(engine: Engine, tmp_path: Path, clock: Clock) -> None:
    """Writes under way when the store is closed are finished and answered; afterwards every call is refused."""
    place = tmp_path / "closing"
    place.mkdir()
    store = await engine.open(place, clock)
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
        await store.read_ranges([reading(None, "h!")], 1)
