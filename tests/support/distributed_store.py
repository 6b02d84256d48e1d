"""Wrappers that make an engine on one machine behave like a distributed one, within the storage port."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graphql_api.errors import StoreError, Throttled
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.filter_evaluation import filter_matches
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.read_resumption import resume_after
from graphql_api.storage.shard_reads import ReadGroups, read_each_group
from graphql_api.storage.values import (
    Delete,
    Item,
    Key,
    Put,
    RangeRead,
    ReadResult,
    Row,
    RowPage,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
)

ALL_ROWS = 1_000_000


class ThrottledStore(ForwardingStore):
    """Throttles the operations that `throttle` selects by name. It is asked once for each read of `read_ranges`."""

    def __init__(self, inner: Store, throttle: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self._throttle = throttle

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        if isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        results: list[ReadResult | None] = [
            _throttled_error("read_ranges") if self._throttle("read_ranges") else None for _ in reads
        ]
        accepted = [read for read, problem in zip(reads, results, strict=True) if problem is None]
        answers = iter(await super().read_ranges(accepted, want))
        return [next(answers) if result is None else result for result in results]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self._check("get_many")
        return await super().get_many(keys, consistent)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self._check("write")
        return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self._check("write_together")
        await super().write_together(writes, token)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        self._check("scan")
        return await super().scan(segment, of, after)

    async def ensure_table(self, definition: TableDefinition) -> None:
        self._check("ensure_table")
        await super().ensure_table(definition)

    def _check(self, operation: str) -> None:
        if self._throttle(operation):
            raise _throttled_error(operation)


def _throttled_error(operation: str) -> Throttled:
    return Throttled(f"{operation} is throttled. Try again later.")


class KeyOrderedStore(ForwardingStore):
    """Orders ties by key, so that Hypothesis can replay a case.

    `page_rows` limits the rows that a call examines, in turn by the number of rows that are left.
    """

    def __init__(self, inner: Store, page_rows: Sequence[int] = (ALL_ROWS,)) -> None:
        super().__init__(inner)
        self._page_rows = page_rows

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        if isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        # The inner store examines every row of the range, in its own order of ties.
        whole = [read._replace(start=None, limit=ALL_ROWS, filter=None, attributes=None) for read in reads]
        rows = [row for read in whole for row in await self._read_whole(read)]
        rows.sort(key=_position, reverse=bool(reads) and reads[0].descending)
        read_of = {read.ordinal: read for read in reads}
        rows = [row for row in rows if _is_past_start(row, read_of[row.ordinal])]
        examined = rows[: min(want, self._page_rows[len(rows) % len(self._page_rows)])]
        last = examined[-1].position if len(examined) < len(rows) else None
        results: list[ReadResult] = []
        for read in reads:
            own = [row for row in examined if row.ordinal == read.ordinal]
            matching = [row for row in own if read.filter is None or filter_matches(read.filter, row.item)]
            has_rest = last is not None and resume_after(read, last, may_tie=True) is not None
            results.append(RowPage(matching, last if has_rest else None, len(own)))
        return results

    async def _read_whole(self, read: RangeRead) -> list[Row]:
        rows: list[Row] = []
        rest: RangeRead | None = read
        while rest is not None:
            (page,) = await self.inner.read_ranges([rest], ALL_ROWS)
            assert isinstance(page, RowPage), page
            rows += page.rows
            rest = None if page.scanned_to is None else resume_after(rest, page.scanned_to, may_tie=True)
        return rows


def _position(row: Row) -> tuple[Any, int, Key]:
    return row.value, row.ordinal, row.key


def _is_past_start(row: Row, read: RangeRead) -> bool:
    if read.start is None:
        return True
    here: Any = (row.value, row.key)
    start: Any = (read.start.value, read.start.key)
    return bool(here < start if read.descending else here > start)


class LaggingStore(ForwardingStore):
    """Index reads show the records as they were before the last `lag` writes: they read a replica."""

    def __init__(self, inner: Store, replica: Store, lag: int) -> None:
        super().__init__(inner)
        self._replica = replica
        self._lag = lag
        self._known: dict[Key, Item] = {}
        """the latest record of each written key"""
        self._changes = deque[tuple[Key, Item | None]]()
        """changes that the replica lacks, the earliest first"""
        self._lock = asyncio.Lock()

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        uses_index = bool(reads) and reads[0].index is not None
        return await (self._replica if uses_index else self.inner).read_ranges(reads, want)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        problems = await super().write(writes)
        await self._record_changes(writes)
        return problems

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await super().write_together(writes, token)
        await self._record_changes(writes)

    async def ensure_table(self, definition: TableDefinition) -> None:
        await super().ensure_table(definition)
        await self._replica.ensure_table(definition)

    async def drop_index(self, name: str) -> None:
        await super().drop_index(name)
        await self._replica.drop_index(name)

    async def close(self) -> None:
        await super().close()
        await self._replica.close()

    async def catch_up_indexes(self) -> None:
        """Bring the replica up to date."""
        async with self._lock:
            await self._replay(0)

    async def _record_changes(self, writes: Sequence[TransactionWrite]) -> None:
        async with self._lock:
            keys = [_written_key(write) for write in writes]
            for key, item in zip(keys, await self.inner.get_many(keys, True), strict=True):
                if item != self._known.get(key):
                    self._changes.append((key, item))
                    self._known.pop(key, None)
                    if item is not None:
                        self._known[key] = item
            await self._replay(self._lag)

    async def _replay(self, keep: int) -> None:
        latest: dict[Key, Item | None] = {}
        while len(self._changes) > keep:
            key, item = self._changes.popleft()
            latest[key] = item
        problems = await self._replica.write(
            [Delete(key) if item is None else Put(item) for key, item in latest.items()]
        )
        assert not any(problems), problems


def _written_key(write: TransactionWrite) -> Key:
    return Key(write.item["hashKey"], write.item["rangeKey"]) if isinstance(write, Put) else write.key


async def open_lagging(path: Path, lag: int) -> LaggingStore:
    """Open a SQLite file whose index entries lag by this number of writes."""
    replica = await open_sqlite(path.with_suffix(".replica"))
    return LaggingStore(await open_sqlite(path), replica, lag)
