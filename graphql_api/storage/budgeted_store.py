"""A wrapper of a store that keeps replies within the memory budget of the process."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from graphql_api.codecs import RangeValue
from graphql_api.runtime import current_memory
from graphql_api.storage.item_rules import record_size
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.shard_reads import (
    RangeGroups,
    ReadGroups,
    ShardReads,
    index_of,
    read_each_group,
    total_size,
)
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult, Row, RowPage

MAX_REPLY_BYTES = 2**20
"""size of the longest reply to one read: engines end a page after a megabyte"""
FIRST_ROW_BYTES = 1024
"""assumed size of a row until one of its index has been read"""
_DECAY = 0.98
"""an estimate rises at once, and sinks by this factor with each smaller reply"""
_SAMPLES = 3
"""records of a reply whose size is computed"""


class BudgetedStore(ForwardingStore):
    """Reserves memory for the replies to reads. Without a budget in the context, it forwards them unchanged.

    Reads that need more than the whole budget run alone and in waves. After each wave, only those rows are kept that
    the caller can use, as an engine does that merges all shards.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._row_bytes = defaultdict[str | None, float](lambda: FIRST_ROW_BYTES)
        """size of a requested row, by index; None: the table"""

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        memory = current_memory()
        if memory is None or not reads:
            return await self.inner.read_ranges(reads, want)
        index = index_of(reads)
        requested = _requested_rows(reads, want)
        by_rows = {rows: self._estimate(index, rows) for rows in {*requested}}
        estimates = [*map(by_rows.__getitem__, requested)]
        estimated, max_bytes = sum(estimates), memory.budget.max_bytes
        if estimated > max_bytes and isinstance(reads, ReadGroups):
            return await read_each_group(reads, self.read_ranges)
        await memory.reserve(estimated)
        kept = 0
        try:
            if estimated <= max_bytes:
                results = await self.inner.read_ranges(reads, want)
                kept = received = total_size(results)
            else:
                results, kept, received = await self._read_in_waves(reads, estimates, want, max_bytes)
            self._learn(index, received / sum(requested))
            return results
        finally:
            memory.adjust(kept - estimated)

    async def _read_in_waves(
        self, reads: Sequence[RangeRead], estimates: Sequence[int], want: int, max_bytes: int
    ) -> tuple[Sequence[ReadResult], int, int]:
        """Return the results of all waves, the size of what is kept, and the size of all replies."""
        results: list[ReadResult] = []
        received = 0
        for begin, end in _waves(estimates, max_bytes):
            wave = await self.inner.read_ranges(reads[begin:end], want)
            received += total_size(wave)
            results = _keep_first(reads, [*results, *wave], want)
        return results, total_size(results), received

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        memory = current_memory()
        if memory is None or not keys:
            return await self.inner.get_many(keys, consistent)
        estimated = self._estimate(None, len(keys), len(keys))
        await memory.reserve(estimated)
        kept = 0
        try:
            items = await self.inner.get_many(keys, consistent)
            found = [item for item in items if item is not None]
            if found:
                samples = [record_size(item) for item in found[:_SAMPLES]]
                kept = sum(samples) * len(found) // len(samples)
                self._learn(None, kept / len(keys))
            return items
        finally:
            memory.adjust(kept - estimated)

    def _estimate(self, index: str | None, rows: int, replies: int = 1) -> int:
        return int(min(rows * self._row_bytes[index], replies * MAX_REPLY_BYTES))

    def _learn(self, index: str | None, row_bytes: float) -> None:
        known = self._row_bytes.get(index, 0.0)
        self._row_bytes[index] = max(row_bytes, _DECAY * known)


def _requested_rows(reads: Sequence[RangeRead], want: int) -> Sequence[int]:
    """Return how many rows each read requests at most."""
    if isinstance(reads, RangeGroups):
        each_want = reads.each_want
        return [min(part.limit, each_want) for part in reads.parts for _ in range(len(part.keys))]
    if isinstance(reads, ReadGroups):
        return [rows for group in reads.groups for rows in _requested_rows(*group)]
    if isinstance(reads, ShardReads):
        return [min(reads.common.limit, want)] * len(reads)
    return [min(read.limit, want) for read in reads]


def _waves(estimates: Sequence[int], max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of reads whose replies fit into the budget together; at least one read each."""
    begin = total = 0
    for number, estimate in enumerate(estimates):
        if number > begin and total + estimate > max_bytes:
            yield begin, number
            begin, total = number, 0
        total += estimate
    yield begin, len(estimates)


def _keep_first(reads: Sequence[RangeRead], results: list[ReadResult], want: int) -> list[ReadResult]:
    """Keep the first `want` rows of all pages. The pages that lose rows end at the position of the last one kept.

    A page keeps its first row if it might make no progress otherwise: an earlier page may have ended there.
    """
    rows = [row for result in results if isinstance(result, RowPage) for row in result.rows]
    if len(rows) <= want:
        return results
    rows.sort(key=_sort_key, reverse=reads[0].descending)
    last = rows[want - 1].position
    kept = {id(row) for row in rows[:want]}

    def cut(read: RangeRead, page: RowPage) -> RowPage:
        remaining, end = [row for row in page.rows if id(row) in kept], last
        if not remaining and page.rows and not _is_past_begin(read, last.value):
            remaining, end = [*page.rows[:1]], page.rows[0].position
        if len(remaining) == len(page.rows):
            return page
        return replace(page, rows=remaining, scanned_to=end, size=page.size * len(remaining) // len(page.rows))

    pages = zip(reads, results, strict=False)
    return [cut(read, result) if isinstance(result, RowPage) else result for read, result in pages]


def _is_past_begin(read: RangeRead, value: RangeValue) -> bool:
    """Return whether a value is past the begin of a read. With an equal value, the read may have resumed there."""
    begin = read.range.high if read.descending else read.range.low
    if read.start is not None:
        begin = read.start.value
    return value != begin and read.range.contains(value)


def _sort_key(row: Row) -> tuple[Any, int]:
    return row.value, row.ordinal
