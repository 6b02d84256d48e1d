"""One ordered scan for all shards: what it costs, and that a thinner choice of shards changes only the cost."""

from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreRefused
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.ordered_scan import YIELD_AFTER_ROWS, ENTRIES_ONLY, WITH_RECORDS
from graphql_api.storage.values import IndexDefinition, Put, RangeRead, RowPage, StartKey, TableDefinition

TABLE = TableDefinition((IndexDefinition("byText", "textHash", "text"), IndexDefinition("byNumber", "nHash", "n", "N")))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An empty store with a table."""
    made = await open_sqlite(tmp_path / "store.db")
    await made.ensure_table(TABLE)
    yield made
    await made.close()


def row(shard: int, place: int, text: str) -> Put:
    """A record of a shard in the text index."""
    hash_key = f"t!{shard:03}"
    return Put({"hashKey": hash_key, "rangeKey": f"{place:06}", "textHash": hash_key, "text": text})


def reads_of(shards: Sequence[int], key_range: KeyRange | None = None, *, descending: bool = False) -> list[RangeRead]:
    """A read of each shard."""
    whole = key_range or KeyRange()
    return [RangeRead("byText", f"t!{shard:03}", shard, whole, 1, descending) for shard in shards]


async def pages(store: SqliteStore, reads: Sequence[RangeRead], want: int) -> list[RowPage]:
    """Answers, all of which have to be pages."""
    answers = await store.read_ranges(reads, want)
    assert all(isinstance(answer, RowPage) for answer in answers)
    return [answer for answer in answers if isinstance(answer, RowPage)]


def merged(found: Sequence[RowPage], *, descending: bool = False) -> list[tuple[Any, ...]]:
    """The rows of several pages in the order of the whole answer."""
    rows = [(row.value, row.ordinal, row.key.range) for page in found for row in page.rows]
    return sorted(rows, key=lambda row: row[:2], reverse=descending)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("statements", [WITH_RECORDS, ENTRIES_ONLY])
async def test_a_page_is_one_index_range(store: SqliteStore, statements: dict[bool, str], descending: bool) -> None:
    """SQLite searches the primary key between two places and sorts nothing."""
    places = (1, b"t!", b"a", b"00", b"", b"b", b"", b"")
    plan = [detail for *_, detail in store._sql.execute(f"EXPLAIN QUERY PLAN {statements[descending]}", places)]
    assert plan[0].startswith("SEARCH entries USING PRIMARY KEY (idx=? AND base=? AND (value,shard,tie)>(?,?,?)")
    assert "(value,shard,tie)<(?,?,?)" in plan[0]
    assert plan[1:] in ([], ["SEARCH records USING INTEGER PRIMARY KEY (rowid=?)"])


async def test_equal_cost_at_start_and_end(store: SqliteStore) -> None:
    """100,000 rows tied on one raw value over 150 shards: a page costs the same wherever the walk stands."""
    for first in range(0, 100_000, 20_000):
        await store.write([row(place % 150, place, "same") for place in range(first, first + 20_000)])
    steps = count()
    costs = []
    seen = set()
    for shard, descending in ((0, False), (75, False), (149, False), (149, True), (0, True)):
        (place,) = await pages(store, reads_of([shard], descending=descending), 5)
        start = StartKey("same", place.rows[-1].key)
        reads = [
            RangeRead(read.index, read.hash_key, read.ordinal, read.range, 21, descending, start)
            if read.ordinal == shard
            else read
            for read in reads_of(range(150), KeyRange("same", "same"), descending=descending)
            if (read.ordinal <= shard if descending else read.ordinal >= shard)
        ]
        before = next(steps)
        store._sql.set_progress_handler(lambda: next(steps) < 0, 1)
        found = await pages(store, reads, 21)
        store._sql.set_progress_handler(None, 0)
        costs.append(next(steps) - before)
        seen.add(sum(page.records_read for page in found))
        assert sum(len(page.rows) for page in found) == 21
    assert seen == {21}
    assert max(costs) < 1.25 * min(costs)


@pytest.mark.parametrize("descending", [False, True])
async def test_few_shards_of_many(store: SqliteStore, random: Random, descending: bool) -> None:
    """A choice of shards is answered the same whether the others' rows are stepped over, jumped over, or not there."""
    texts = [*(f"{random.randrange(400):03}" for _ in range(3000)), *["200"] * 3000]
    places = [(place % 40, place, text) for place, text in enumerate(texts)]
    await store.write([row(*place) for place in places])
    for chosen in ([7], [0, 39], [11, 12, 30]):
        stored = sorted(((text, shard) for shard, _, text in places if shard in chosen), reverse=descending)
        for want in (1, 3, 50, 5000):
            found = await pages(store, reads_of(chosen, descending=descending), want)
            rows = merged(found, descending=descending)
            assert [row[:2] for row in rows] == stored[:want]
            for page in found:
                assert page.scanned_to is None or page.scanned_to[:2] == stored[want - 1]


async def test_jumps_over_ties(store: SqliteStore) -> None:
    """A shard alone among many that tie is found by jumping: the others' rows are not looked at one by one."""
    await store.write([row(place % 100, place, "same") for place in range(20_000)])
    for descending in (False, True):
        (found,) = await pages(store, reads_of([50], descending=descending), 300)
        assert len(found.rows) == 200
        assert found.scanned_to is None
        assert found.records_read < 200 + 4 * 300 + 200


async def test_breaths(store: SqliteStore) -> None:
    """A long search for the rows of one shard lets others run in between, and finds them all."""
    await store.write([row(place % 100, place, f"{place:06}") for place in range(4 * YIELD_AFTER_ROWS)])
    (found,) = await pages(store, reads_of([99]), 1000)
    assert [row.value for row in found.rows] == [f"{place:06}" for place in range(99, 4 * YIELD_AFTER_ROWS, 100)]
    assert found.records_read == 4 * YIELD_AFTER_ROWS


async def test_records_read(store: SqliteStore) -> None:
    """Each page counts its own rows, and the first one what nobody asked for."""
    await store.write([row(shard, place, f"{place}") for place in range(4) for shard in range(3)])
    found = await pages(store, reads_of([0, 1, 2]), 7)
    assert [page.records_read for page in found] == [3, 2, 2]
    found = await pages(store, reads_of([0, 2]), 100)
    assert [(len(page.rows), page.records_read) for page in found] == [(4, 8), (4, 4)]


async def test_one_position_for_all(store: SqliteStore) -> None:
    """Where the scan stops is said to every read that may have more, and None to those that cannot."""
    await store.write([row(shard, place, f"{place}") for place in range(4) for shard in range(3)])
    reads = [*reads_of([0, 1]), *reads_of([2], KeyRange("0", "1", high_open=True))]
    first, second, third = await pages(store, reads, 6)
    assert first.scanned_to == second.scanned_to == ("2", 0, ("t!000", "000002"))
    assert third.scanned_to is None
    for page in await pages(store, reads_of([0, 1, 2]), 13):
        assert page.scanned_to is None


async def test_ordinals_follow_shards(store: SqliteStore) -> None:
    """Ordinals that do not grow with the shards, or a hash key asked twice, would break the order: both are refused."""
    first, second = reads_of([0, 1])
    for wrong in (
        [RangeRead("byText", first.hash_key, 5, KeyRange(), 1), second],
        [first, RangeRead("byText", second.hash_key, 0, KeyRange(), 1)],
        [first, RangeRead("byText", first.hash_key, 1, KeyRange(), 1)],
    ):
        with pytest.raises(StoreRefused):
            await store.read_ranges(wrong, 10)
