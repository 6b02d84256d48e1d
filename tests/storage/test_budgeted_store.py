"""Replies within the memory budget: reservations, estimates from earlier replies, and reads in waves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, Id, Index, Secrets, Shards, Timestamp, Ttl, open_catalog
from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.runtime import MemoryBudget
from graphql_api.storage.budgeted_store import FIRST_ROW_BYTES, MAX_REPLY_BYTES, BudgetedStore
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.values import Item, Key, Position, RangeRead, ReadResult, Row, RowPage, StartKey
from tests.support.store_doubles import IndependentReadsStore, TinyMemoryStore

ROW_BYTES = 50_000
SHARDS = 20


class Refused(Exception):
    """The error of an operation that has waited too long."""


@dataclass
class ScriptedStore(ForwardingStore):
    """Answers reads with rows of one size, whose values are spread over all shards."""

    row_bytes: int = ROW_BYTES
    rows: int = 100
    """of each shard"""
    calls: list[list[int]] = field(default_factory=list)
    """the shards of each call"""
    error: StoreError | None = None
    """result of the reads of shard 3"""
    used: list[int] = field(default_factory=list)
    """the used part of the budget in each call"""
    budget: MemoryBudget | None = None

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.calls.append([read.ordinal for read in reads])
        if self.budget is not None:
            self.used.append(self.budget.used)
        await asyncio.sleep(0)
        return [self._read(read) for read in reads]

    def _read(self, read: RangeRead) -> ReadResult:
        if self.error is not None and read.ordinal == 3:
            return self.error
        values = [number * SHARDS + read.ordinal for number in range(self.rows)]
        if read.descending:
            values.reverse()
        rows = [Row(value, read.ordinal, Key("h", str(value)), {}) for value in values[: read.limit]]
        has_rest = read.limit < self.rows
        return RowPage(rows, rows[-1].position if has_rest else None, len(rows), self.row_bytes * len(rows))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        if self.budget is not None:
            self.used.append(self.budget.used)
        return [None if key.range == "missing" else {"text": "x" * self.row_bytes} for key in keys]

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.calls, self.used, self.budget = [], [], budget


def budget_of(max_bytes: int) -> MemoryBudget:
    """A budget for which operations wait for ten seconds."""
    return MemoryBudget(max_bytes, 10.0, Refused)


def reads(limit: int, *, descending: bool = False) -> list[RangeRead]:
    """One read of each shard."""
    return [
        RangeRead("byText", f"h!{number:02}", number, KeyRange(), limit, descending=descending)
        for number in range(SHARDS)
    ]


async def test_estimates_follow_the_replies() -> None:
    """The first reservation assumes small rows. Later ones assume rows as large as those that were received."""
    budget = budget_of(1 << 30)
    inner = ScriptedStore(budget)
    store = BudgetedStore(inner)
    for _ in range(2):
        with budget.operation() as memory:
            await store.read_ranges(reads(4), 30)
            assert memory.held == SHARDS * 4 * ROW_BYTES
        assert budget.used == 0
    assert inner.used == [SHARDS * 4 * FIRST_ROW_BYTES, SHARDS * 4 * ROW_BYTES]


async def test_a_reply_has_a_maximum_size() -> None:
    """Reads of many large rows reserve a megabyte for each reply."""
    budget = budget_of(1 << 30)
    inner = ScriptedStore(budget)
    store = BudgetedStore(inner)
    for _ in range(2):
        with budget.operation():
            await store.read_ranges(reads(100), 500)
    assert inner.used[1] == SHARDS * MAX_REPLY_BYTES


@pytest.mark.parametrize("descending", [False, True])
async def test_large_reads_run_in_waves(descending: bool) -> None:
    """Reads beyond the budget are sent in waves that fit. The rows that are kept are those that the caller can use."""
    budget = budget_of(30 * ROW_BYTES)
    inner = ScriptedStore(budget)
    store = BudgetedStore(inner)
    want = 30
    await _learn(store, budget)
    inner.calls.clear()
    with budget.operation() as memory:
        results = await store.read_ranges(reads(6, descending=descending), want)
        assert memory.held <= (want + SHARDS) * ROW_BYTES
    assert [len(call) for call in inner.calls] == [5, 5, 5, 5]
    assert budget.used == 0
    pages = [page for page in results if isinstance(page, RowPage)]
    assert len(pages) == SHARDS
    values = sorted((row.value for page in pages for row in page.rows), reverse=descending)
    everything = sorted(range(SHARDS * inner.rows), reverse=descending)
    assert values == everything[:want]
    for ordinal, page in enumerate(pages):
        _check_page(page, ordinal, everything, descending=descending)


def _check_page(page: RowPage, ordinal: int, everything: list[int], *, descending: bool) -> None:
    """All rows of the shard up to `scanned_to` are in the page."""
    assert page.scanned_to is not None
    end = page.scanned_to.value
    assert isinstance(end, int)
    known = [
        value for value in everything if value % SHARDS == ordinal and (value >= end if descending else value <= end)
    ]
    assert [row.value for row in page.rows] == known


async def _learn(store: BudgetedStore, budget: MemoryBudget) -> None:
    """Let a store learn the size of rows."""
    with budget.operation():
        await store.read_ranges(reads(1), 1)


async def test_failed_reads_of_a_wave_stay() -> None:
    """The error of a shard is its result, in waves too."""
    budget = budget_of(30 * ROW_BYTES)
    inner = ScriptedStore(budget)
    store = BudgetedStore(inner)
    await _learn(store, budget)
    inner.error = StoreUnavailable("shard 3")
    with budget.operation():
        results = await store.read_ranges(reads(6), 30)
    assert [number for number, result in enumerate(results) if isinstance(result, StoreError)] == [3]


async def test_large_reads_run_alone() -> None:
    """While a search larger than the budget runs, no other one starts."""
    budget = budget_of(30 * ROW_BYTES)
    inner = ScriptedStore(budget)
    store = BudgetedStore(inner)
    await _learn(store, budget)
    running = most = 0

    async def search() -> None:
        nonlocal running, most
        with budget.operation():
            await store.read_ranges(reads(6), 30)
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    await asyncio.gather(*(search() for _ in range(5)))
    assert most == 1
    assert budget.used == 0


async def test_reads_by_key() -> None:
    """Reads by key reserve memory by the size of records that were read before."""
    budget = budget_of(1 << 30)
    inner = ScriptedStore(budget)
    store = BudgetedStore(inner)
    keys = [Key("h", "a"), Key("h", "missing"), Key("h", "b"), Key("h", "c")]
    for _ in range(2):
        with budget.operation() as memory:
            assert len(await store.get_many(keys, consistent=False)) == 4
            assert 3 * ROW_BYTES <= memory.held <= 3.1 * ROW_BYTES
    assert inner.used[0] == 4 * FIRST_ROW_BYTES
    assert 3 * ROW_BYTES <= inner.used[1] <= 3.1 * ROW_BYTES


async def test_a_failed_read_releases_its_reservation() -> None:
    """If the store raises an error, or the search is cancelled, nothing stays reserved."""
    budget = budget_of(1 << 30)

    class BrokenStore(ScriptedStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            raise StoreUnavailable("gone")

    with budget.operation() as memory:
        with pytest.raises(StoreUnavailable):
            await BudgetedStore(BrokenStore()).read_ranges(reads(4), 30)
        assert memory.held == 0
    assert budget.used == 0


async def test_without_a_budget_reads_are_forwarded() -> None:
    """Outside of an operation with a budget, all reads are sent at once."""
    inner = ScriptedStore()
    results = await BudgetedStore(inner).read_ranges(reads(6), 30)
    assert len(inner.calls) == 1
    assert sum(len(page.rows) for page in results if isinstance(page, RowPage)) == 6 * SHARDS


async def test_ties_at_the_end_of_a_wave() -> None:
    """Rows of one shard with equal values are cut after the last row that is kept, at its exact position."""

    class TiedStore(ScriptedStore):
        def _read(self, read: RangeRead) -> ReadResult:
            page = super()._read(read)
            assert isinstance(page, RowPage)
            return replace(page, rows=[Row("same", row.ordinal, row.key, {}) for row in page.rows])

    budget = budget_of(30 * ROW_BYTES)
    store = BudgetedStore(TiedStore(budget))
    await _learn(store, budget)
    with budget.operation():
        results = await store.read_ranges(reads(6), 8)
    pages = [page for page in results if isinstance(page, RowPage)]
    assert [len(page.rows) for page in pages] == [6, 2, *[0] * (SHARDS - 2)]
    last = pages[1].rows[-1].position
    assert isinstance(last, Position)
    assert [page.scanned_to for page in pages[1:]] == [last] * (SHARDS - 1)


RESUMED = [
    RangeRead("index", "h!1", 1, KeyRange(high=10, high_open=True), 1, descending=True),
    RangeRead("index", "h!1", 1, KeyRange(high=10), 1, descending=True),
    RangeRead("index", "h!1", 1, KeyRange(high=12), 1, descending=True, start=StartKey(10, Key("h", "r"))),
    RangeRead("index", "h!1", 1, KeyRange(low=10, low_open=True), 1),
    RangeRead("index", "h!1", 1, KeyRange(low=10), 1),
]
"""reads that may have resumed at the value 10"""


@pytest.mark.parametrize("resumed", RESUMED)
async def test_a_wave_makes_progress_in_every_shard(resumed: RangeRead) -> None:
    """A shard whose rows are not among the first ones keeps its first row, if it was read up to their end before."""
    ends = {0: 10, 1: 5 if resumed.descending else 15}

    class OneRowEach(ForwardingStore):
        async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
            rows = [Row(ends[read.ordinal], read.ordinal, Key("h", "r"), {}) for read in reads]
            return [RowPage([row], row.position, 1, ROW_BYTES) for row in rows]

    store, budget = BudgetedStore(OneRowEach(ScriptedStore())), budget_of(1)
    first = RangeRead("index", "h!0", 0, KeyRange(), 1, descending=resumed.descending)
    with budget.operation():
        one, other = await store.read_ranges([first, resumed], 1)
    assert isinstance(one, RowPage)
    assert isinstance(other, RowPage)
    assert [row.value for row in (*one.rows, *other.rows)] == [10, ends[1]]
    assert other.scanned_to is not None
    assert other.scanned_to.value == ends[1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("expired", [{"t0", "t15"}, {"t18"}, {"t7", "t24"}])
async def test_pages_of_ties_are_read_in_waves(tmp_path: Path, reverse: bool, rows: int, expired: set[str]) -> None:
    """Records with one value in many shards are each found once, one shard at a time and few rows a read.

    Fetched records that have expired take further rounds, in which shards resume between rows with equal values.
    """

    class Task(Entity, shards=Shards(16)):
        """A task."""

        task_id: Id[str]
        state: str
        expires: Ttl[Timestamp] | None = None

        by_state = Index(sort="state", raw=True, projection="KEYS_ONLY")

    url, secrets = f"sqlite:///{tmp_path / 'tasks.db'}", Secrets.generate()
    async with open_catalog(Catalog(Task), url, secrets=secrets, clock=lambda: 1000.0) as opened:
        ids = {f"t{number}" for number in (0, 7, 15, 17, 18, 24)}
        await opened.put_many([Task(task_id=one, state="open", expires=999 if one in expired else None) for one in ids])
        db = replace(opened, store=TinyMemoryStore(IndependentReadsStore(opened.store, rows)))
        page = await db.search(Task.by_state, reverse=reverse, limit=1)
        found = [*page.items]
        while page.next_token is not None:
            page = await db.search(Task.by_state, reverse=reverse, limit=1, next_token=page.next_token)
            found += page.items
    assert sorted(task.task_id for task in found) == sorted(ids - expired)
