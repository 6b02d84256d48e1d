"""Wrappers of a store that change its behaviour within the storage port, inject failures, or count calls."""

from asyncio import Runner
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.runtime import MemoryBudget
from graphql_api.storage.budgeted_store import BudgetedStore
from graphql_api.storage.filter_evaluation import filter_matches
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.shard_reads import MergedPages, ReadGroups, read_each_group
from graphql_api.storage.values import (
    Item,
    Key,
    RangeRead,
    ReadResult,
    Row,
    RowPage,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
)


async def all_items(store: Store) -> list[Item]:
    """All items of the table."""
    found: list[Item] = []
    page = await store.scan(0, 1, None)
    while page.after is not None:
        found += page.items
        page = await store.scan(0, 1, page.after)
    return [*found, *page.items]


@contextmanager
def store_with_runner(
    open_store: Coroutine[Any, Any, Store], definition: TableDefinition
) -> Iterator[tuple[Runner, Store]]:
    """A table and an event loop, for Hypothesis tests that are not async."""
    with Runner() as runner:
        store = runner.run(open_store)
        runner.run(store.ensure_table(definition))
        try:
            yield runner, store
        finally:
            runner.run(store.close())


class IndependentReadsStore(ForwardingStore):
    """Answers each range read independently, up to its own limit.

    Rows of one shard are found together, and the filter is applied to the rows found. A read returns at most `most`
    rows, even if more were requested.
    """

    def __init__(self, inner: Store, max_rows: int = 1000) -> None:
        super().__init__(inner)
        self.max_rows = max_rows

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        if isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        answers: list[ReadResult] = []
        for read in reads:
            # The filter may test attributes that the read does not request.
            unfiltered = read if read.filter is None else read._replace(filter=None, attributes=None)
            (answer,) = await self.inner.read_ranges([unfiltered], min(read.limit, self.max_rows))
            answers.append(_filtered(read, answer) if isinstance(answer, RowPage) else answer)
        return answers


def _filtered(read: RangeRead, page: RowPage) -> RowPage:
    """Applies the filter of the read. All rows of the page count as read."""
    rows = [row for row in page.rows if read.filter is None or filter_matches(read.filter, row.item)]
    return replace(page, rows=rows, records_read=len(page.rows))


class ShardByShardStore(ForwardingStore):
    """Passes single reads on, so that no engine merges the shards of a search."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        if isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        return await self.inner.read_ranges([*reads], want)


class ComparedReadsStore(ForwardingStore):
    """Compares each merged result of an engine with its pages for the same reads, and counts them."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.merged = 0

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answer = await self.inner.read_ranges(reads, want)
        if isinstance(answer, MergedPages):
            self.merged += 1
            pages = await self.inner.read_ranges([*reads], want)
            assert [*map(_as_values, answer)] == [*map(_as_values, pages)]
            read = [page for page in pages if isinstance(page, RowPage)]
            assert answer.records_read == sum(page.records_read for page in read)
            assert answer.size == sum(page.size for page in read)
            assert answer.scanned_to == next((page.scanned_to for page in read if page.scanned_to is not None), None)
            # Rows that tie belong to one shard, whose order a stable sort keeps.
            rows = sorted(
                (row for page in read for row in page.rows),
                key=lambda row: (row.value, row.ordinal),
                reverse=reads[0].descending,
            )
            assert [row.position for row in answer.rows] == [row.position for row in rows]
        return answer


def _as_values(page: ReadResult) -> Any:
    """Return the rows of a page and its position. How many records were read counts only over all shards."""
    if isinstance(page, StoreError):
        return page
    return [(row.position, row.item) for row in page.rows], page.scanned_to


class InterleavingStore(ForwardingStore):
    """Runs `action` once after the next range reads, that is, between two rounds or after the last round of a page."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.action: Callable[[], Awaitable[None]] | None = None

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answers = await super().read_ranges(reads, want)
        action, self.action = self.action, None
        if action is not None:
            await action()
        return answers


class TinyMemoryStore(ForwardingStore):
    """Has a memory budget for the reply to one range read, so that all reads of a search are in waves of one."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._budget = MemoryBudget(1, 60.0, TimeoutError)
        self._budgeted = BudgetedStore(inner)

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        with self._budget.operation():
            return await self._budgeted.read_ranges(reads, want)


class FailingStore(ForwardingStore):
    """Fails the range reads that `fails` selects, and answers the others."""

    def __init__(self, inner: Store, fails: Callable[[RangeRead], bool]) -> None:
        super().__init__(inner)
        self.fails = fails

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        if isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        failures = {at: _failure(read) for at, read in enumerate(reads) if self.fails(read)}
        answers = iter(
            await self.inner.read_ranges([read for at, read in enumerate(reads) if at not in failures], want)
        )
        return [failures[at] if at in failures else next(answers) for at in range(len(reads))]


def _failure(read: RangeRead) -> StoreError:
    return StoreUnavailable(f"{read.hash_key} does not answer: try again.", shard=read.hash_key)


@dataclass
class Counts:
    """Counts of store calls."""

    rounds: int = 0
    reads: int = 0
    records_read: int = 0
    gets: int = 0
    writes: int = 0
    scans: int = 0
    hash_keys: list[str] = field(default_factory=list)

    def scalar_counts(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}


class CountingStore(ForwardingStore):
    """Counts the calls of the inner store. A test may replace `counts` to reset them."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.counts = Counts()

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.counts.rounds += 1
        self.counts.reads += len(reads)
        self.counts.hash_keys += [read.hash_key for read in reads]
        answers = await super().read_ranges(reads, want)
        self.counts.records_read += sum(answer.records_read for answer in answers if isinstance(answer, RowPage))
        return answers

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.counts.gets += len(keys)
        return await super().get_many(keys, consistent)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self.counts.writes += len(writes)
        return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.counts.writes += len(writes)
        await super().write_together(writes, token)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self.counts.scans += 1
        return await super().scan(segment, of, after)


class UnfilteredStore(ForwardingStore):
    """Ignores filters, as the storage port permits: the caller tests every row again."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        if isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        return await super().read_ranges([read._replace(filter=None) for read in reads], want)


class MinimalAttributesStore(ForwardingStore):
    """Returns only key attributes and requested attributes. Engines may return more."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answers = await super().read_ranges(reads, want)
        definition = await self.inner.describe()
        assert definition is not None
        keys = {definition.hash_attribute, definition.range_attribute}
        for index in definition.indexes:
            keys |= {index.hash_attribute, index.range_attribute} if index.name == reads[0].index else set()
        return [
            replace(answer, rows=[_cut(row, keys | read.attributes) for row in answer.rows])
            if isinstance(answer, RowPage) and read.attributes is not None
            else answer
            for read, answer in zip(reads, answers, strict=True)
        ]


def _cut(row: Row, names: Collection[str]) -> Row:
    item = {name: value for name, value in row.item.items() if name in names}
    return Row(row.value, row.ordinal, row.key, item)
