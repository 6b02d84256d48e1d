"""A store that tells of each call what it took; what it answers is the inner store's."""

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
    ReadAnswer,
    RowPage,
    ScanPage,
    TableDefinition,
    TogetherWrite,
    Write,
)

CANCELLED = "CANCELLED"
"""the outcome of a call whose caller went away"""
UNFORESEEN = "UNFORESEEN"
"""the outcome of a call that ended in a mistake of ours"""


@dataclass(slots=True)
class StoreCall:
    """One call of the port, after its end."""

    name: str
    """the method: `read_ranges`"""
    parts: int = 1
    """reads, keys or writes that it carries"""
    began: int = field(default_factory=time.time_ns)
    """nanoseconds since 1970"""
    seconds: float = 0.0
    records_read: int = 0
    failure: str | None = None
    """code of its error, or of the first one among its answers"""


class MeteredStore:
    """Passes every call on, measures it, and adds it to the tally of the request unless another one does that."""

    def __init__(self, inner: Store, told: Callable[[StoreCall], None], *, tallies: bool = True) -> None:
        self.inner = inner
        self._told = told
        self._tallies = tallies

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadAnswer]:
        with self._measured("read_ranges", len(reads)) as call:
            answers = await self.inner.read_ranges(reads, want)
            call.records_read = sum(answer.records_read for answer in answers if isinstance(answer, RowPage))
            call.failure = _first_failure(answers)
        return answers

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

    async def write_together(self, writes: Sequence[TogetherWrite], token: str) -> None:
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
            if self._tallies:
                count_store_call(call.records_read)
            self._told(call)


def _first_failure(answers: Sequence[object]) -> str | None:
    return next((answer.code for answer in answers if isinstance(answer, StoreError)), None)
