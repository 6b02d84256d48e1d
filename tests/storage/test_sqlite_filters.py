"""Filters and projections of the ordered scan, and its estimated capacity."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.values import (
    AllOf,
    AnyOf,
    AttributeTest,
    IndexDefinition,
    Key,
    Put,
    RangeRead,
    RowPage,
    TableDefinition,
)
from tests.support.distributed_store import ThrottledStore

TABLE = TableDefinition(
    (IndexDefinition("byText", "textHash", "text"), IndexDefinition("keys", "textHash", "text", projection="KEYS_ONLY"))
)
EVEN = AttributeTest("even", "eq", (True,), or_missing=False)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """Twenty records over four shards of an index, about 5 KB each."""
    opened_store = await open_sqlite(tmp_path / "store.db")
    await opened_store.ensure_table(TABLE)
    await opened_store.write([Put(item(number)) for number in range(20)])
    yield opened_store
    await opened_store.close()


def item(number: int) -> dict[str, Any]:
    """A record of the index."""
    hash_key = f"t!{number % 4:02}"
    keys = {"hashKey": hash_key, "rangeKey": f"{number:02}", "textHash": hash_key, "text": f"{number:02}"}
    return {**keys, "even": number % 8 < 4, "more": "x" * 5_000}


def reads_of_all_shards(index: str = "byText", **more: Any) -> list[RangeRead]:
    """A read of each shard."""
    return [RangeRead(index, f"t!{shard:02}", shard, KeyRange(), 1, **more) for shard in range(4)]


async def read_pages(store: SqliteStore, reads: Sequence[RangeRead], want: int) -> list[RowPage]:
    """Return the results of reads, all of which must be pages."""
    results = await store.read_ranges(reads, want)
    return [result for result in results if isinstance(result, RowPage)]


async def test_filtered_rows_count_as_examined(store: SqliteStore) -> None:
    """A scan examines as many rows as are wanted, matching or not, and stops at the last one."""
    pages = await read_pages(store, reads_of_all_shards(filter=EVEN), 7)
    assert [[row.value for row in page.rows] for page in pages] == [["00"], ["01"], ["02"], ["03"]]
    assert [page.records_read for page in pages] == [2, 2, 2, 1]
    assert {page.scanned_to for page in pages} == {("06", 2, Key("t!02", "06"))}


async def test_each_read_has_its_own_filter(store: SqliteStore) -> None:
    """Reads of one call may have different filters."""
    first, second, third, fourth = reads_of_all_shards()
    odd = AttributeTest("even", "eq", (False,), or_missing=False)
    reads = [first._replace(filter=EVEN), second._replace(filter=odd), third, fourth._replace(filter=EVEN)]
    pages = await read_pages(store, reads, 100)
    assert [[row.value for row in page.rows] for page in pages] == [
        ["00", "08", "16"],
        ["05", "13"],
        ["02", "06", "10", "14", "18"],
        ["03", "11", "19"],
    ]


async def test_unknown_operations_are_not_evaluated(store: SqliteStore) -> None:
    """A test with an operation that the port does not define excludes no row; other tests still apply."""
    unknown = AttributeTest("more", "ends_with", ("y",), or_missing=False)
    for filter, count in ((unknown, 20), (AllOf((unknown, EVEN)), 12), (AnyOf((unknown, EVEN)), 20)):
        pages = await read_pages(store, reads_of_all_shards(filter=filter), 100)
        assert sum(len(page.rows) for page in pages) == count


async def test_filtered_rows_have_their_attributes(store: SqliteStore) -> None:
    """A matching row has the attributes that its index projects, or the requested ones of them."""
    for attributes, shown in ((None, item(0)), (frozenset({"even"}), {**item(0)})):
        (page, *_) = await read_pages(store, reads_of_all_shards(filter=EVEN, attributes=attributes), 4)
        expected = shown if attributes is None else {name: shown[name] for name in shown if name != "more"}
        assert page.rows[0].item == expected


async def test_estimated_capacity_of_reads(store: SqliteStore) -> None:
    """Each hash key costs what DynamoDB charges for the examined entries, at least half a unit."""
    consumed = []
    for reads, want in (
        (reads_of_all_shards(), 8),
        (reads_of_all_shards("keys"), 8),
        (reads_of_all_shards(filter=EVEN), 8),
        (reads_of_all_shards(), 1),
    ):
        with meter_capacity() as meter:
            await read_pages(store, reads, want)
        assert meter.estimated
        consumed.append(meter.units)
    assert consumed == [4 * 1.5, 4 * 0.5, 4 * 1.5, 1.0 + 3 * 0.5]


async def test_estimated_capacity_of_point_lookups(store: SqliteStore) -> None:
    """Each record costs by its size, a missing one half a unit, and a duplicate key is counted once."""
    keys = [Key("t!00", "00"), Key("t!00", "nothing"), Key("t!00", "00")]
    consumed = []
    for consistent in (False, True):
        with meter_capacity() as meter:
            await store.get_many(keys, consistent)
        assert meter.estimated
        consumed.append(meter.units)
    assert consumed == [1.5, 3.0]


async def test_throttled_reads_consume_no_capacity(tmp_path: Path) -> None:
    """A throttled read consumes no capacity."""
    throttled = iter([True, False, False, False])
    inner = await open_sqlite(tmp_path / "throttled.db")
    store = ThrottledStore(inner, lambda name: name == "read_ranges" and next(throttled))
    await store.ensure_table(TABLE)
    with meter_capacity() as meter:
        await store.read_ranges(reads_of_all_shards(), 5)
    await store.close()
    assert meter.units == 3 * 0.5
