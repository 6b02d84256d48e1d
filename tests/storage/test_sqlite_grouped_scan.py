"""Reads of many keys and of many ranges by one statement of SQLite."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs import KeyRange, ShardHashKeys
from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.grouped_scan import MAX_RANGES
from graphql_api.storage.engines.sqlite.record_reads import MAX_TOGETHER
from graphql_api.storage.port import Store
from graphql_api.storage.shard_reads import MergedPages, RangeGroups, RangePart, pages_of_groups
from graphql_api.storage.values import IndexDefinition, Key, Put, RangeRead, ReadResult, RowPage, TableDefinition
from tests.support.run_depth import examples
from tests.support.store_doubles import store_with_runner

TABLE = TableDefinition((IndexDefinition("byText", "iHash", "iRange"),))
VALUES = ["a", "aa", "ab", "b", "ba", "é"]
SHARD_TEXTS = ["01", "02", "03", "04", "05"]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store."""
    opened = await open_sqlite(tmp_path / "x.db")
    await opened.ensure_table(TABLE)
    yield opened
    await opened.close()


@pytest.mark.parametrize("count", [1, 2, 8, 9, MAX_TOGETHER, MAX_TOGETHER + 1, 3 * MAX_TOGETHER - 1])
async def test_many_keys_are_read_in_their_order(store: SqliteStore, count: int) -> None:
    """Records are returned in the order of any number of keys, also for keys that repeat or have no record."""
    await store.write([Put({"hashKey": f"x!{at % 3}", "rangeKey": f"r{at}", "at": at}) for at in range(0, count, 2)])
    keys = [Key(f"x!{at % 3}", f"r{at}") for at in reversed(range(count))] + [Key("x!0", "r0")]
    found = await store.get_many(keys, consistent=True)
    expected = [at if at % 2 == 0 else None for at in reversed(range(count))] + [0]
    assert [None if item is None else item["at"] for item in found] == expected


@st.composite
def range_groups(draw: st.DrawFn) -> RangeGroups:
    """Draws the reads of some searches that differ in their bounds, shards and bases."""
    low_open, high_open = draw(st.booleans()), draw(st.booleans())
    common = RangeRead("byText", "", 0, KeyRange(None, None, low_open, high_open), 1)
    parts = []
    for _ in range(draw(st.sampled_from([1, 2, 5, MAX_RANGES + 3]))):
        texts = draw(st.lists(st.sampled_from(SHARD_TEXTS), min_size=1, unique=True))
        keys = ShardHashKeys(
            "x", draw(st.sampled_from([(), (("h", "1"),), (("h", "é"),)])), None,
            {text: int(text) for text in sorted(texts)},
        )  # fmt: skip
        low, high = sorted(
            [draw(st.sampled_from(VALUES)), draw(st.sampled_from(VALUES)) + draw(st.sampled_from(["", "\x7f"]))]
        )
        if low == high:
            high += "z"
        parts.append(RangePart(keys, low, high, draw(st.integers(1, 9))))
    return RangeGroups(common, draw(st.sampled_from([1, 2, 3, 9, 100])), parts)


def _as_values(page: ReadResult) -> Any:
    assert isinstance(page, RowPage)
    return [(row.position, row.item) for row in page.rows], page.scanned_to


def test_ranges_of_many_searches_have_the_rows_that_each_has_alone(tmp_path: Path) -> None:
    """Rows, positions, sizes and numbers of read records are those of a scan for each search."""
    seen = Counter[str]()

    async def check(store: Store, reads: RangeGroups) -> None:
        found = pages_of_groups(reads, await store.read_ranges(reads, reads.want))
        for group, pages in zip(reads.groups, found, strict=True):
            alone = [page for page in await store.read_ranges([*group.reads], group.want) if isinstance(page, RowPage)]
            assert [*map(_as_values, pages)] == [*map(_as_values, alone)]
            if isinstance(pages, MergedPages):
                assert pages.records_read == sum(page.records_read for page in alone)
                assert pages.size == sum(page.size for page in alone)
                rows = sorted((row for page in alone for row in page.rows), key=lambda row: (row.value, row.ordinal))
                assert [row.position for row in pages.rows] == [row.position for row in rows]
                stopped = {page.scanned_to for page in alone} - {None}
                assert pages.scanned_to == next(iter(stopped), None)
                seen["one statement"] += 1
                seen["stopped"] += pages.scanned_to is not None
                seen["skipped"] += pages.records_read > len(rows)
            else:
                seen["own scan"] += 1

    @examples(60)
    @given(reads=range_groups())
    def law(reads: RangeGroups) -> None:
        runner.run(check(store, reads))

    with store_with_runner(open_sqlite(tmp_path / "x.db"), TABLE) as (runner, store):
        hash_keys = [f"x!{shard}{end}" for shard in SHARD_TEXTS for end in ("", "|h#1", "|h#é")]
        many = [("x!05", f"b{number:03}") for number in range(600)]  # Scans of other shards skip too many of them.
        items: Sequence[tuple[str, str]] = [*((key, value) for key in hash_keys for value in [*VALUES, "b\x7f"]), *many]
        puts = [
            Put({"hashKey": "t!", "rangeKey": f"{at}", "iHash": key, "iRange": value, "at": at})
            for at, (key, value) in enumerate(items)
        ]
        runner.run(store.write(puts))
        law()
    assert {*seen} == {"one statement", "stopped", "skipped", "own scan"}


async def test_invalid_reads_of_a_group_are_refused(store: SqliteStore) -> None:
    """A search with an invalid bound is refused, as it is alone."""
    keys = ShardHashKeys("x", (), None, {"": 0})
    common = RangeRead("byText", "", 0, KeyRange(), 1)
    reads = RangeGroups(common, 5, [RangePart(keys, "a", "b", 1), RangePart(keys, "b", "a", 1)])
    with pytest.raises(StoreRefused, match="empty"):
        await store.read_ranges(reads, reads.want)


async def test_other_work_runs_between_statements(store: SqliteStore) -> None:
    """A call for many searches yields to the event loop."""
    keys = ShardHashKeys("x", (), None, {"": 0})
    parts = [RangePart(keys, f"a{at}", f"b{at}", 1) for at in range(3 * MAX_RANGES)]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    reads = RangeGroups(RangeRead("byText", "", 0, KeyRange(), 1), 5, parts)
    assert len(pages_of_groups(reads, await store.read_ranges(reads, reads.want))) == len(parts)
    counting.cancel()
    assert turns >= 2
