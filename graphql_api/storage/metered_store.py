"""A store wrapper that measures each call."""

import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from graphql_api.errors import StoreError
from graphql_api.runtime import count_store_call
from graphql_api.storage.port import Store
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


class MeteredStore:
    """Forward every call to the inner store and report its measurements to `on_call`.

    With `counts_calls`, the call also counts in the statistics of the current request.
    """

    def __init__(self, inner: Store, on_call: Callable[[StoreCall], None], *, counts_calls: bool = True) -> None:
        self.inner = inner
        self._on_call = on_call
        self._counts_calls = counts_calls

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        with self._measured("read_ranges", len(reads)) as call:
            results = await self.inner.read_ranges(reads, want)
            call.records_read = sum(result.records_read for result in results if isinstance(result, RowPage))
            call.failure = _first_failure(results)
        return results

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        with self._measured("get_many", len(keys)) as call:
            items = await self.inner.get_many(keys, consistent)
            call.records_read = sum(item is not None for item in items)
        return items

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        with self._measured("write", len(writes)) as call:
            outcomes = await self.inner.write(writes)
            call.failure = _first_failure(outcomes)
        return outcomes

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        with self._measured("write_together", len(writes)):
            await self.inner.write_together(writes, token)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        with self._measured("scan") as call:
            page = await self.inner.scan(segment, of, after)
            call.records_read = len(page.items)
        return page

    async def describe(self) -> TableDefinition | None:
        with self._measured("describe"):
            return await self.inner.describe()

    async def ensure_table(self, definition: TableDefinition) -> None:
        with self._measured("ensure_table"):
            await self.inner.ensure_table(definition)

    async def close(self) -> None:
        await self.inner.close()

    @contextmanager
    def _measured(self, name: str, parts: int = 1) -> Iterator[StoreCall]:
        call = StoreCall(name, parts)
        started = time.perf_counter()
        try:
            yield call
        except StoreError as problem:
            call.failure = problem.code
            raise
        except CancelledError:
            call.failure = CANCELLED
            raise
        except BaseException:
            call.failure = UNFORESEEN
            raise
        finally:
            call.seconds = time.perf_counter() - started
            if self._counts_calls:
                count_store_call(call.records_read)
            self._on_call(call)


def _first_failure(results: Sequence[object]) -> str | None:
    return next((result.code for result in results if isinstance(result, StoreError)), None)
