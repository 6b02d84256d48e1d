"""What one ordered scan leaves out for its reads, shows of its rows, and would cost elsewhere."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.runtime.capacity_meter import meter_capacity
from graphql_api.storage.engines.sqlite import SqliteStore, EngineQuirks, open_sqlite
from graphql_api.storage.values import AttributeTest, IndexDefinition, Key, Put, RangeRead, RowPage, TableDefinition

TABLE = TableDefinition(
    (IndexDefinition("byText", "textHash", "text"), IndexDefinition("keys", "textHash", "text", projection="KEYS_ONLY"))
)
EVEN = AttributeTest("even", "eq", (True,), or_missing=False)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """Twenty records over four shards of an index, about 5 KB each."""
    made = await open_sqlite(tmp_path / "store.db")
    await made.ensure_table(TABLE)
    await made.write([Put(item(place)) for place in range(20)])
    yield made
    await made.close()


def item(place: int) -> dict[str, Any]:
    """A record of the index."""
    hash_key = f"t!{place % 4:02}"
    keys = {"hashKey": hash_key, "rangeKey": f"{place:02}", "textHash": hash_key, "text": f"{place:02}"}
    return {**keys, "even": place % 8 < 4, "more": "x" * 5_000}


def reads_of(index: str = "byText", **more: Any) -> list[RangeRead]:
    """A read of each shard."""
    return [RangeRead(index, f"t!{shard:02}", shard, KeyRange(), 1, **more) for shard in range(4)]


async def pages(store: SqliteStore, reads: Sequence[RangeRead], want: int) -> list[RowPage]:
    """Answers, all of which have to be pages."""
    answers = await store.read_ranges(reads, want)
    return [answer for answer in answers if isinstance(answer, RowPage)]


async def test_rows_left_out_count(store: SqliteStore) -> None:
    """A scan looks at as many rows as are wanted, whether they pass or not, and stops at the last of them."""
    found = await pages(store, reads_of(filter=EVEN), 7)
    assert [[row.value for row in page.rows] for page in found] == [["00"], ["01"], ["02"], ["03"]]
    assert [page.records_read for page in found] == [2, 2, 2, 1]
    assert {page.scanned_to for page in found} == {("06", 2, Key("t!02", "06"))}


async def test_each_read_has_its_own_filter(store: SqliteStore) -> None:
    """Reads of one call may be filtered differently."""
    first, second, third, fourth = reads_of()
    odd = AttributeTest("even", "eq", (False,), or_missing=False)
    reads = [replace(first, filter=EVEN), replace(second, filter=odd), third, replace(fourth, filter=EVEN)]
    found = await pages(store, reads, 100)
    assert [[row.value for row in page.rows] for page in found] == [
        ["00", "08", "16"],
        ["05", "13"],
        ["02", "06", "10", "14", "18"],
        ["03", "11", "19"],
    ]


async def test_rows_of_a_filter_are_whole(store: SqliteStore) -> None:
    """A row that passed shows what its index carries, or what was asked for of that."""
    for attributes, shown in ((None, item(0)), (frozenset({"even"}), {**item(0)})):
        (page, *_) = await pages(store, reads_of(filter=EVEN, attributes=attributes), 4)
        expected = shown if attributes is None else {name: shown[name] for name in shown if name != "more"}
        assert page.rows[0].item == expected


async def test_reads_are_estimated(store: SqliteStore) -> None:
    """Each hash key costs what DynamoDB would charge for the entries looked at there, half a unit at least."""
    costs = []
    for reads, want in ((reads_of(), 8), (reads_of("keys"), 8), (reads_of(filter=EVEN), 8), (reads_of(), 1)):
        with meter_capacity() as meter:
            await pages(store, reads, want)
        assert meter.estimated
        costs.append(meter.units)
    assert costs == [4 * 1.5, 4 * 0.5, 4 * 1.5, 1.0 + 3 * 0.5]


async def test_records_by_key_are_estimated(store: SqliteStore) -> None:
    """Each record costs by its size, one that is not there half a unit, and one that is asked for twice costs once."""
    keys = [Key("t!00", "00"), Key("t!00", "nothing"), Key("t!00", "00")]
    costs = []
    for consistent in (False, True):
        with meter_capacity() as meter:
            await store.get_many(keys, consistent)
        assert meter.estimated
        costs.append(meter.units)
    assert costs == [1.5, 3.0]


async def test_what_is_refused_costs_nothing(tmp_path: Path) -> None:
    """A read that is throttled is on no bill."""
    refused = iter([True, False, False, False])
    store = await open_sqlite(
        tmp_path / "throttled.db", quirks=EngineQuirks(throttle=lambda name: name == "read_ranges" and next(refused))
    )
    await store.ensure_table(TABLE)
    with meter_capacity() as meter:
        await store.read_ranges(reads_of(), 5)
    await store.close()
    assert meter.units == 3 * 0.5
