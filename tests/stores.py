"""Stores for tests: they wrap an engine to behave like another kind of engine, or to count what is asked of it."""

from asyncio import Runner
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.storage.filter_evaluation import filter_matches
from graphql_api.storage.port import Store
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


class WrappedStore:
    """Passes everything on."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await self.inner.read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        return await self.inner.get_many(keys, consistent)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        return await self.inner.write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self.inner.write_together(writes, token)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        return await self.inner.scan(segment, of, after)

    async def describe(self) -> TableDefinition | None:
        return await self.inner.describe()

    async def ensure_table(self, definition: TableDefinition) -> None:
        await self.inner.ensure_table(definition)

    async def close(self) -> None:
        await self.inner.close()


async def all_items(store: Store) -> list[Item]:
    """Everything that is stored."""
    found: list[Item] = []
    page = await store.scan(0, 1, None)
    while page.after is not None:
        found += page.items
        page = await store.scan(0, 1, page.after)
    return [*found, *page.items]


@contextmanager
def on_a_loop(opening: Coroutine[Any, Any, Store], definition: TableDefinition) -> Iterator[tuple[Runner, Store]]:
    """A table on an event loop of its own, for laws whose examples are not asynchronous."""
    with Runner() as runner:
        store = runner.run(opening)
        runner.run(store.ensure_table(definition))
        try:
            yield runner, store
        finally:
            runner.run(store.close())


class ReadByRead(WrappedStore):
    """Answers every read by itself up to its own limit, as an engine does that knows nothing of the other shards.

    Such an engine finds the rows of one shard together: it looks at those that it returns. It may return fewer than it
    was asked for, at most `most` of them.
    """

    def __init__(self, inner: Store, most: int = 1000) -> None:
        super().__init__(inner)
        self.most = most

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answers: list[ReadResult] = []
        for read in reads:
            # A filter may test attributes that are not asked for.
            all_of_it = read if read.filter is None else replace(read, filter=None, attributes=None)
            (answer,) = await self.inner.read_ranges([all_of_it], min(read.limit, self.most))
            answers.append(_looked_at(read, answer) if isinstance(answer, RowPage) else answer)
        return answers


def _looked_at(read: RangeRead, page: RowPage) -> RowPage:
    """A page whose rows were all looked at, and of which a filter leaves some out."""
    rows = [row for row in page.rows if read.filter is None or filter_matches(read.filter, row.item)]
    return replace(page, rows=rows, records_read=len(page.rows))


class Between(WrappedStore):
    """Does something once, after the next reads: between two rounds of a page, or after its only one."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.action: Callable[[], Awaitable[None]] | None = None

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        answers = await super().read_ranges(reads, want)
        action, self.action = self.action, None
        if action is not None:
            await action()
        return answers


class FailingStore(WrappedStore):
    """Fails those reads that `fails` picks, each by itself; the others are answered."""

    def __init__(self, inner: Store, fails: Callable[[RangeRead], bool]) -> None:
        super().__init__(inner)
        self.fails = fails

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        failures = {at: _failure(read) for at, read in enumerate(reads) if self.fails(read)}
        answers = iter(
            await self.inner.read_ranges([read for at, read in enumerate(reads) if at not in failures], want)
        )
        return [failures[at] if at in failures else next(answers) for at in range(len(reads))]


def _failure(read: RangeRead) -> StoreError:
    return StoreUnavailable(f"{read.hash_key} does not answer: try again.", shard=read.hash_key)


@dataclass
class Counts:
    """What a store was asked for."""

    rounds: int = 0
    reads: int = 0
    records_read: int = 0
    gets: int = 0
    writes: int = 0
    scans: int = 0
    hash_keys: list[str] = field(default_factory=list)

    def without_lists(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}


class CountingStore(WrappedStore):
    """Counts; `counts` may be replaced at any time to begin anew."""

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


class Unfiltered(WrappedStore):
    """Tests nothing of a filter, as an engine may: the caller tests everything."""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await super().read_ranges([replace(read, filter=None) for read in reads], want)


class Stingy(WrappedStore):
    """Answers no attribute that was not asked for, but for the keys; an engine may answer more."""

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
    return Row(row.value, row.ordinal, row.key, item, lambda same: same)
