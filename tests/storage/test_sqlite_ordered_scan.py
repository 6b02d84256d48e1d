"""The ordered scan over all shards: its cost, and its results for a subset of the shards."""

from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.ordered_scan import ENTRIES_ONLY, WITH_RECORDS, YIELD_AFTER_ROWS
from graphql_api.storage.values import IndexDefinition, Put, RangeRead, RowPage, StartKey, TableDefinition

TABLE = TableDefinition((IndexDefinition("byText", "textHash", "text"), IndexDefinition("byNumber", "nHash", "n", "N")))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store with a table."""
    opened_store = await open_sqlite(tmp_path / "store.db")
    await opened_store.ensure_table(TABLE)
    yield opened_store
    await opened_store.close()


def put_row(shard: int, number: int, text: str) -> Put:
    """A put of a record of one shard in the text index."""
    hash_key = f"t!{shard:03}"
    return Put({"hashKey": hash_key, "rangeKey": f"{number:06}", "textHash": hash_key, "text": text})


def reads_of_shards(
    shards: Sequence[int], key_range: KeyRange | None = None, *, descending: bool = False
) -> list[RangeRead]:
    """A read of each shard."""
    all_rows = key_range or KeyRange()
    return [RangeRead("byText", f"t!{shard:03}", shard, all_rows, 1, descending) for shard in shards]


async def read_pages(store: SqliteStore, reads: Sequence[RangeRead], want: int) -> list[RowPage]:
    """Return the results of reads, all of which must be pages."""
    results = await store.read_ranges(reads, want)
    assert all(isinstance(result, RowPage) for result in results)
    return [result for result in results if isinstance(result, RowPage)]


def merge_rows(pages: Sequence[RowPage], *, descending: bool = False) -> list[tuple[Any, ...]]:
    """The rows of several pages in result order."""
    rows = [(row.value, row.ordinal, row.key.range) for page in pages for row in page.rows]
    return sorted(rows, key=lambda row: row[:2], reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("statements", [WITH_RECORDS, ENTRIES_ONLY])
async def test_a_page_is_one_index_range(store: SqliteStore, statements: dict[bool, str], descending: bool) -> None:
    """SQLite searches the primary key between two positions, without sorting."""
    bounds = (1, b"t!", b"a", b"00", b"", b"b", b"", b"")
    plan = [detail for *_, detail in store._sql.execute(f"EXPLAIN QUERY PLAN {statements[descending]}", bounds)]
    assert plan[0].startswith("SEARCH entries USING PRIMARY KEY (idx=? AND base=? AND (value,shard,tie)>(?,?,?)")
    assert "(value,shard,tie)<(?,?,?)" in plan[0]
    assert plan[1:] in ([], ["SEARCH records USING INTEGER PRIMARY KEY (rowid=?)"])


async def test_equal_cost_at_every_position(store: SqliteStore) -> None:
    """With 100,000 rows tied on one raw value over 150 shards, a page costs the same at every position."""
    for first in range(0, 100_000, 20_000):
        await store.write([put_row(number % 150, number, "same") for number in range(first, first + 20_000)])
    steps = count()
    step_counts = []
    seen = set()
    for shard, descending in ((0, False), (75, False), (149, False), (149, True), (0, True)):
        (page,) = await read_pages(store, reads_of_shards([shard], descending=descending), 5)
        start = StartKey("same", page.rows[-1].key)
        reads = [
            RangeRead(read.index, read.hash_key, read.ordinal, read.range, 21, descending, start)
            if read.ordinal == shard
            else read
            for read in reads_of_shards(range(150), KeyRange("same", "same"), descending=descending)
            if (read.ordinal <= shard if descending else read.ordinal >= shard)
        ]
        before = next(steps)
        store._sql.set_progress_handler(lambda: next(steps) < 0, 1)
        pages = await read_pages(store, reads, 21)
        store._sql.set_progress_handler(None, 0)
        step_counts.append(next(steps) - before)
        seen.add(sum(page.records_read for page in pages))
        assert sum(len(page.rows) for page in pages) == 21
    assert seen == {21}
    assert max(step_counts) < 1.25 * min(step_counts)


@pytest.mark.parametrize("descending", [False, True])
async def test_subset_of_shards(store: SqliteStore, random: Random, descending: bool) -> None:
    """A subset of shards has the same rows whether the scan steps over the other shards or skips them."""
    texts = [*(f"{random.randrange(400):03}" for _ in range(3000)), *["200"] * 3000]
    shard_rows = [(number % 40, number, text) for number, text in enumerate(texts)]
    await store.write([put_row(*row) for row in shard_rows])
    for chosen in ([7], [0, 39], [11, 12, 30]):
        stored = sorted(((text, shard) for shard, _, text in shard_rows if shard in chosen), reverse=descending)
        for want in (1, 3, 50, 5000):
            pages = await read_pages(store, reads_of_shards(chosen, descending=descending), want)
            rows = merge_rows(pages, descending=descending)
            assert [row[:2] for row in rows] == stored[:want]
            for page in pages:
                assert page.scanned_to is None or page.scanned_to[:2] == stored[want - 1]


async def test_ties_of_other_shards_are_skipped(store: SqliteStore) -> None:
    """The scan of one shard among many with tied rows skips the other rows without examining each."""
    await store.write([put_row(number % 100, number, "same") for number in range(20_000)])
    for descending in (False, True):
        (page,) = await read_pages(store, reads_of_shards([50], descending=descending), 300)
        assert len(page.rows) == 200
        assert page.scanned_to is None
        assert page.records_read < 200 + 4 * 300 + 200


async def test_long_scans_yield(store: SqliteStore) -> None:
    """A long scan for the rows of one shard yields to other tasks, and finds all rows."""
    await store.write([put_row(number % 100, number, f"{number:06}") for number in range(4 * YIELD_AFTER_ROWS)])
    (page,) = await read_pages(store, reads_of_shards([99]), 1000)
    assert [row.value for row in page.rows] == [f"{number:06}" for number in range(99, 4 * YIELD_AFTER_ROWS, 100)]
    assert page.records_read == 4 * YIELD_AFTER_ROWS


async def test_records_read(store: SqliteStore) -> None:
    """Each page counts its own examined rows. The first page also counts the rows of other shards."""
    await store.write([put_row(shard, number, f"{number}") for number in range(4) for shard in range(3)])
    pages = await read_pages(store, reads_of_shards([0, 1, 2]), 7)
    assert [page.records_read for page in pages] == [3, 2, 2]
    pages = await read_pages(store, reads_of_shards([0, 2]), 100)
    assert [(len(page.rows), page.records_read) for page in pages] == [(4, 8), (4, 4)]


async def test_scanned_to_is_shared(store: SqliteStore) -> None:
    """All reads that may have more rows have the same `scanned_to`. The others have None."""
    await store.write([put_row(shard, number, f"{number}") for number in range(4) for shard in range(3)])
    reads = [*reads_of_shards([0, 1]), *reads_of_shards([2], KeyRange("0", "1", high_open=True))]
    first, second, third = await read_pages(store, reads, 6)
    assert first.scanned_to == second.scanned_to == ("2", 0, ("t!000", "000002"))
    assert third.scanned_to is None
    for page in await read_pages(store, reads_of_shards([0, 1, 2]), 13):
        assert page.scanned_to is None


async def test_ordinals_follow_shards(store: SqliteStore) -> None:
    """Ordinals in another order than the shards, and duplicate hash keys, are rejected."""
    first, second = reads_of_shards([0, 1])
    for invalid_reads in (
        [RangeRead("byText", first.hash_key, 5, KeyRange(), 1), second],
        [first, RangeRead("byText", second.hash_key, 0, KeyRange(), 1)],
        [first, RangeRead("byText", first.hash_key, 1, KeyRange(), 1)],
    ):
        with pytest.raises(StoreRefused):
            await store.read_ranges(invalid_reads, 10)
