"""Wrappers of a store: one forwards each call, and one measures it."""

import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from graphql_api.errors import StoreError
from graphql_api.runtime import current_statistics
from graphql_api.storage.port import Store
from graphql_api.storage.shard_reads import GroupedPages, MergedPages, first_failure, total_records_read
from graphql_api.storage.values import (
    Item,
    Key,
    RangeRead,
    ReadResult,
    RowPage,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
)

T = TypeVar("T")

CANCELLED = "CANCELLED"
"""failure of a call that its caller cancelled"""
UNFORESEEN = "UNFORESEEN"
"""failure of a call that raised an unexpected exception"""


@dataclass(slots=True)
class StoreCall:
    """A completed call of the storage port."""

    name: str
    """the method name, such as `read_ranges`"""
    parts: int = 1
    """number of reads, keys or writes"""
    began: int = field(default_factory=time.time_ns)
    """start time, in nanoseconds since 1970"""
    seconds: float = 0.0
    records_read: int = 0
    failure: str | None = None
    """code of the error, or of the first error in the results"""


class ForwardingStore:
    """A store that forwards every call to another one. Base of wrappers that change some of the calls."""

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

    async def drop_index(self, name: str) -> None:
        await self.inner.drop_index(name)

    async def close(self) -> None:
        await self.inner.close()


class MeteredStore(ForwardingStore):
    """Forward every call to the inner store and report its measurements to `on_call`.

    With `counts_calls`, the call also counts in the statistics of the current request.
    """

    def __init__(self, inner: Store, on_call: Callable[[StoreCall], None], *, counts_calls: bool = True) -> None:
        super().__init__(inner)
        self._on_call = on_call
        self._counts_calls = counts_calls

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await self._measure("read_ranges", self.inner.read_ranges(reads, want), len(reads))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        return await self._measure("get_many", self.inner.get_many(keys, consistent), len(keys))

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        return await self._measure("write", self.inner.write(writes), len(writes))

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self._measure("write_together", self.inner.write_together(writes, token), len(writes))

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        return await self._measure("scan", self.inner.scan(segment, of, after))

    async def describe(self) -> TableDefinition | None:
        return await self._measure("describe", self.inner.describe())

    async def ensure_table(self, definition: TableDefinition) -> None:
        await self._measure("ensure_table", self.inner.ensure_table(definition))

    async def drop_index(self, name: str) -> None:
        await self._measure("drop_index", self.inner.drop_index(name))

    async def _measure(self, name: str, pending: Awaitable[T], parts: int = 1) -> T:
        call, started = StoreCall(name, parts), time.perf_counter()
        try:
            result = await pending
            if isinstance(result, MergedPages | GroupedPages):
                call.records_read, failure = total_records_read(result), first_failure(result)
                call.failure = None if failure is None else failure.code
            else:
                results = result if isinstance(result, list | tuple) else [result]
                call.records_read = sum(map(_records_read, results))
                call.failure = next((part.code for part in results if isinstance(part, StoreError)), None)
        except BaseException as problem:
            unexpected = CANCELLED if isinstance(problem, CancelledError) else UNFORESEEN
            call.failure = problem.code if isinstance(problem, StoreError) else unexpected
            raise
        finally:
            call.seconds = time.perf_counter() - started
            if self._counts_calls:
                statistics = current_statistics()
                statistics.store_calls += 1
                statistics.records_read += call.records_read
            self._on_call(call)
        return result


def _records_read(result: object) -> int:
    match result:
        case RowPage():
            return result.records_read
        case ScanPage():
            return len(result.items)
    return int(isinstance(result, Mapping))
