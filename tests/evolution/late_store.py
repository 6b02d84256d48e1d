"""A store with leases over SQLite, in virtual time: requests are late or lost, indexes lag, and servers freeze.

Nothing depends on the real clock or on threads, so that a seed repeats a schedule exactly.
"""

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from shutil import disk_usage
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

from graphql_api.clock import Instant
from graphql_api.errors import StoreError, StoreUnavailable
from graphql_api.evolution import migration_pass
from graphql_api.evolution.table_record import EPOCH_KEY, TABLE_RECORD_KEY
from graphql_api.runtime import RetryStrategy
from graphql_api.storage import (
    Delete,
    ForwardingStore,
    Item,
    Key,
    Put,
    RangeRead,
    ReadResult,
    ScanPage,
    TableDefinition,
    TransactionWrite,
    Write,
    current_fence,
)
from graphql_api.storage.engines.sqlite import SqliteStore
from graphql_api.storage.engines.sqlite.database_file import prepare_file
from graphql_api.storage.engines.sqlite.group_commit import _set_results
from graphql_api.storage.engines.sqlite.writer_jobs import WriterJob
from graphql_api.writes import item_key, transactions, write_key

T = TypeVar("T")

LEASE, MARGIN, LIFE = 6.0, 2.0, 12.0
"""seconds"""
LATEST = LIFE + 0.9 * MARGIN
"""seconds after which a request may be applied: a process may lose time between its check and sending"""
PATIENCE = 1.5
"""seconds after which a server gives up a request that writes"""
PAGE = 2
"""records per page of a scan"""
MEMORY_NEEDED = 1 << 28
"""bytes"""
START = 1_000_000.0
"""the wall clock at the beginning"""


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A temporary folder in memory, if the machine has room there: commits need not wait for the disk."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own
    has_room = memory.is_dir() and disk_usage(memory).free > MEMORY_NEEDED
    with TemporaryDirectory(dir=memory if has_room else None) as folder:
        yield Path(folder)


# --- virtual time ----------------------------------------------------------------------------------------------


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer when nothing else can run."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_TimeSelector(self))

    def time(self) -> float:
        """The virtual time."""
        return self.now


class _TimeSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "no task can go on"
        self._loop.now += max(timeout, 0.0)
        return []  # no task waits for a file


def virtual_time() -> float:
    """The time of the running loop."""
    return asyncio.get_running_loop().time()


@contextmanager
def seeded_pauses(random: Random) -> Iterator[None]:
    """Lets retries pause for times that the seed determines."""
    constants = (
        (transactions, "CONFLICT_RETRIES"), (transactions, "OUTCOME_RETRIES"), (migration_pass, "BATCH_RETRIES"),
    )  # fmt: skip
    with ExitStack() as stack:
        for module, name in constants:
            seeded = replace(getattr(module, name), uniform=random.uniform)
            stack.enter_context(patch.object(module, name, seeded))

        def strategy(**given: Any) -> RetryStrategy:
            return RetryStrategy(**{**given, "uniform": random.uniform})

        stack.enter_context(patch.object(migration_pass, "RetryStrategy", strategy))
        yield


# --- the engine ------------------------------------------------------------------------------------------------


class _InlineTable(SqliteStore):
    """A SQLite file whose jobs run at once, without the writer thread."""

    def __init__(self, path: Path) -> None:
        prepare_file(path)
        super().__init__(path, virtual_time)
        self.writer._sql.execute("PRAGMA synchronous = OFF")

    async def _submit(self, job: WriterJob) -> Any:
        self.writer._commit([job])
        _set_results([job])
        return await job.future

    def end(self) -> None:
        self.writer.finish()
        self._sql.close()


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call that never waits."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the call waits")


@dataclass
class Faults:
    """How often and how much an engine misbehaves."""

    slow: float = 0.0
    """share of the requests that write and are applied at any moment of their life"""
    lost: float = 0.0
    """share of the requests that are never applied, and of the replies that get lost"""
    slow_reads: float = 0.0
    """share of the replies to reads of the table's record that take up to two leases"""
    lag: float = 0.0
    """seconds by which index reads may be late"""
    least_lag: float = 0.0
    """seconds by which index reads are always late"""


Effect = ContextVar[Any]("effect", default=None)
"""the operation of a client that the present task executes"""
AppliedWrite = tuple[TransactionWrite, Item | None, Item | None]
"""a write, and its item before and after"""
AppliedCallback = Callable[[Any, Sequence[AppliedWrite]], None]
"""called with the effect of a request, and its writes that have changed something"""


class Engine:
    """One table. It applies requests late, but within their life, and its indexes lag."""

    def __init__(self, folder: Path, random: Random, faults: Faults) -> None:
        self.random = random
        self.faults = faults
        self.table, self._replica = _InlineTable(folder / "table.db"), _InlineTable(folder / "replica.db")
        self._changes = deque[tuple[float, Key, Item | None]]()
        self.on_applied: AppliedCallback = lambda *_: None
        self.problems: list[BaseException] = []
        self.next_delay: float | None = None
        """of the next request that writes, instead of a random one"""

    def end(self) -> None:
        """Closes the files."""
        self.table.end()
        self._replica.end()

    def latency(self) -> float:
        """The usual duration of a message."""
        return self.random.expovariate(50)

    def send(self, apply: Callable[[], Coroutine[Any, Any, T]], writes: Sequence[TransactionWrite]) -> Any:
        """Sends a request. Its future has the outcome, if the reply does not get lost."""
        loop, effect = asyncio.get_running_loop(), Effect.get()
        reply: asyncio.Future[T] = loop.create_future()
        is_slow = self.random.random() < self.faults.slow
        delay = self.random.uniform(0, LATEST) if is_slow else self.latency()
        delay, self.next_delay = (delay if self.next_delay is None else self.next_delay), None
        if self.random.random() >= self.faults.lost:
            loop.call_later(delay, self._apply, apply, writes, effect, reply, context=Context())
        return reply

    def _apply(
        self,
        apply: Callable[[], Coroutine[Any, Any, Any]],
        writes: Sequence[TransactionWrite],
        effect: Any,
        reply: "asyncio.Future[Any]",
    ) -> None:
        keys = [write_key(write) for write in writes]
        before = at_once(self.table.get_many(keys, consistent=True))
        try:
            result = at_once(apply())
        except StoreError as problem:
            outcome: Any = problem
        else:
            outcome = result
            after = at_once(self.table.get_many(keys, consistent=True))
            changes = [change for change in zip(writes, before, after, strict=True) if change[1] != change[2]]
            self._changes += [(virtual_time(), write_key(write), new) for write, _, new in changes]
            try:
                self.on_applied(effect, changes)
            except AssertionError as problem:
                self.problems.append(problem)
        if reply.done() or self.random.random() < self.faults.lost:
            return
        if isinstance(outcome, StoreError):
            reply.set_exception(outcome)
            reply.exception()  # the caller may have given up
        else:
            reply.set_result(outcome)

    def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Reads the table, or an index that lags."""
        if not reads or reads[0].index is None:
            return at_once(self.table.read_ranges(reads, want))
        until = virtual_time() - self.random.uniform(self.faults.least_lag, self.faults.lag)
        while self._changes and self._changes[0][0] <= until:
            self._replay(self._changes.popleft())
        return at_once(self._replica.read_ranges(reads, want))

    def _replay(self, change: tuple[float, Key, Item | None]) -> None:
        _, key, item = change
        (problem,) = at_once(self._replica.write([Delete(key) if item is None else Put(item)]))
        assert problem is None, problem

    def ensure_table(self, definition: TableDefinition) -> None:
        """Adds indexes to the table and to what index reads see."""
        at_once(self.table.ensure_table(definition))
        at_once(self._replica.ensure_table(definition))

    def drop_index(self, name: str) -> None:
        """Removes an index from both."""
        at_once(self.table.drop_index(name))
        at_once(self._replica.drop_index(name))


# --- processes -------------------------------------------------------------------------------------------------


class ServerStore(ForwardingStore):
    """The engine as one process reaches it. The process may freeze, or lose contact with the table's record."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.table)
        self.engine = engine
        self.frozen_until = 0.0
        self.cut_until = 0.0
        self.next_reply: float | None = None
        """seconds until the reply to the next read by key, instead of a random time"""
        self.record_reads: list[Sequence[Key]] = []
        """keys of the reads of what the table keeps about itself"""
        self.before_send: Callable[[Sequence[TransactionWrite]], None] = lambda _: None
        self._frozen: list[tuple[float, float]] = []

    def freeze(self, seconds: float) -> None:
        """Stops the process for a time, like SIGSTOP."""
        now = virtual_time()
        self.frozen_until = max(self.frozen_until, now + seconds)
        self._frozen.append((now, self.frozen_until))

    def cut(self, seconds: float) -> None:
        """Lets reads of the table's record fail for a time."""
        self.cut_until = max(self.cut_until, virtual_time() + seconds)

    def clocks(self) -> Instant:
        """The time by the only clock that matters: it goes on while the process is frozen."""
        return (START + virtual_time(),)

    def stopping_clocks(self) -> Instant:
        """The time by a clock that stops while the process is frozen: a wrong one for leases."""
        now, frozen, last = virtual_time(), 0.0, 0.0
        for start, end in self._frozen:
            frozen += max(0.0, min(end, now) - max(start, last))
            last = max(end, last)
        return (START + now - frozen,)

    async def thawed(self) -> None:
        """Waits while the process is frozen."""
        while (left := self.frozen_until - virtual_time()) > 0:  # noqa: ASYNC110 - in virtual time, there is no event
            await asyncio.sleep(left)

    async def pause(self, seconds: float) -> None:
        """Sleeps, and longer if the process is frozen."""
        await asyncio.sleep(seconds)
        await self.thawed()

    async def _read(self, read: Callable[[], T], reply_seconds: float = 0.0) -> T:
        await self.pause(self.engine.latency())
        result = read()
        await self.pause(self.engine.latency() + reply_seconds)
        return result

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await self._read(lambda: self.engine.read_ranges(reads, want))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        seconds = 0.0
        if keys and keys[0] in {EPOCH_KEY, TABLE_RECORD_KEY}:
            self.record_reads.append(keys)
            if virtual_time() < self.cut_until:
                await self.pause(self.engine.latency())
                raise StoreUnavailable("The record cannot be reached.")
            if self.engine.random.random() < self.engine.faults.slow_reads:
                seconds = self.engine.random.uniform(0, 2 * LEASE)
        seconds, self.next_reply = (seconds if self.next_reply is None else self.next_reply), None
        return await self._read(lambda: at_once(self.engine.table.get_many(keys, consistent)), seconds)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        page = await self._read(lambda: at_once(self.engine.table.scan(segment, of, after)))
        return page if len(page.items) <= PAGE else ScanPage(page.items[:PAGE], item_key(page.items[PAGE - 1]))

    async def describe(self) -> TableDefinition | None:
        return await self._read(lambda: at_once(self.engine.table.describe()))

    async def ensure_table(self, definition: TableDefinition) -> None:
        await self._read(lambda: self.engine.ensure_table(definition))

    async def drop_index(self, name: str) -> None:
        await self._read(lambda: self.engine.drop_index(name))

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        return await asyncio.gather(*map(self._write_one, writes))

    async def _write_one(self, write: Write) -> StoreError | None:
        try:
            (problem,) = await self._send(lambda: self.engine.table.write([write]), [write])
        except StoreError as failure:
            return failure
        assert problem is None or isinstance(problem, StoreError), problem
        return problem

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await self._send(lambda: self.engine.table.write_together(writes, token), writes)

    async def _send(self, apply: Callable[[], Coroutine[Any, Any, Any]], writes: Sequence[TransactionWrite]) -> Any:
        self.before_send(writes)
        await self.thawed()
        fence = current_fence()
        if fence is not None:
            fence.verify()
        reply = self.engine.send(apply, writes)
        await asyncio.wait([reply], timeout=PATIENCE)
        await self.thawed()
        if not reply.done():
            if Effect.get() is not None:
                Effect.get().is_in_doubt = True
            raise StoreUnavailable("The store has not answered.")
        return reply.result()
