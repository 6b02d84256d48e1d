"""A store wrapper that coalesces the concurrent reads and transactions of many writers into few calls.

Writers stay independent of each other. If conditions of a combined transaction fail, the affected members are sent one
by one, and the rest is sent again without them. If the outcome of a combined transaction is unknown, each member
receives that error. It retries with its own token, which then refers to the combined transaction. So each writer
observes what the wrapped store would do: all of its writes are applied once, or none.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, Self

from graphql_api.errors import ConditionFailed, Conflict, StoreDenied, StoreError, for_one_of_several
from graphql_api.storage import (
    MAX_TRANSACTION_WRITES,
    Check,
    Item,
    Key,
    Put,
    RangeRead,
    ReadResult,
    ScanPage,
    Store,
    TableDefinition,
    TransactionWrite,
    Write,
)
from graphql_api.writes.item_keys import item_key
from graphql_api.writes.transactions import is_known_unapplied


@dataclass(frozen=True, slots=True, eq=False)
class _PendingRead:
    """A read that waits for its result: the items, or None if its caller must send it individually."""

    keys: Sequence[Key]
    result: asyncio.Future[Sequence[Item | None] | None]


@dataclass(frozen=True, slots=True, eq=False)
class _PendingTransaction:
    """A transaction that waits for its result: True if applied, False if its caller must send it individually."""

    writes: Mapping[Key, TransactionWrite]
    token: str
    result: asyncio.Future[bool]


@dataclass(slots=True)
class _TransactionGroup:
    """Transactions that are sent as one."""

    writes: dict[Key, TransactionWrite] = field(default_factory=dict)
    members: list[_PendingTransaction] = field(default_factory=list)
    token: str = field(default_factory=lambda: token_urlsafe(18))
    outcome: asyncio.Task[bool] | None = None
    """after an unknown outcome: the retry that one member sends for all of them"""

    def accepts(self, transaction: _PendingTransaction) -> bool:
        """Return whether a transaction fits into this group. Common keys are allowed only for equal checks."""
        common = self.writes.keys() & transaction.writes.keys()
        fits = len(self.writes) + len(transaction.writes) - len(common) <= MAX_TRANSACTION_WRITES
        return fits and all(_are_equal_checks(self.writes[key], transaction.writes[key]) for key in common)


class WriteCoalescer:
    """A store that passes every call to another one, and coalesces concurrent reads by key and transactions.

    All of its tasks end with its `async with`.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self._pending_reads: list[_PendingRead] = []
        self._pending_transactions: list[_PendingTransaction] = []
        self._in_doubt: dict[str, _TransactionGroup] = {}
        """groups whose outcome is unknown, by the token of each member"""
        self._sent_individually = set[str]()
        """tokens that may have been applied: under the token of a group they could be applied again"""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key. Concurrent consistent reads share one call."""
        items = None
        if consistent:
            read = _PendingRead(keys, asyncio.get_running_loop().create_future())
            self._schedule_flush()
            self._pending_reads.append(read)
            items = await read.result
        return await self.inner.get_many(keys, consistent) if items is None else items

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. Concurrent transactions share one call."""
        group = self._in_doubt.pop(token, None)
        writes_by_key = {_write_key(write): write for write in writes}
        is_applied = False
        if group is not None:
            is_applied = await self._resolve_outcome(group, token)
        # Repeated keys are sent individually, so that the wrapped store refuses them.
        elif token not in self._sent_individually and len(writes_by_key) == len(writes):
            transaction = _PendingTransaction(writes_by_key, token, asyncio.get_running_loop().create_future())
            self._schedule_flush()
            self._pending_transactions.append(transaction)
            is_applied = await transaction.result
        if not is_applied:
            self._sent_individually.add(token)
            await self.inner.write_together(writes, token)

    # --- coalescing --------------------------------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        if not (self._pending_reads or self._pending_transactions):
            asyncio.get_running_loop().call_soon(self._flush_when_idle, 0)

    def _flush_when_idle(self, previous_count: int) -> None:
        """Send what is pending, once a round of the event loop has added nothing."""
        count = len(self._pending_reads) + len(self._pending_transactions)
        if count > previous_count:
            asyncio.get_running_loop().call_soon(self._flush_when_idle, count)
            return
        reads, self._pending_reads = [read for read in self._pending_reads if not read.result.done()], []
        transactions = [transaction for transaction in self._pending_transactions if not transaction.result.done()]
        self._pending_transactions = []
        if reads:
            self._start(self._send_reads(reads))
        for group in _group_transactions(transactions):
            self._start(self._send_group(group))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._track(asyncio.get_running_loop().create_task(work))

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- sending -----------------------------------------------------------------------------------------------

    async def _send_reads(self, reads: Sequence[_PendingRead]) -> None:
        keys = [*dict.fromkeys(key for read in reads for key in read.keys)]
        try:
            items = dict(zip(keys, await self.inner.get_many(keys, consistent=True), strict=True))
        except Exception as problem:  # noqa: BLE001 - a reader that sends its read individually receives the same error
            for read in reads:
                _complete(read.result, _shared_failure(problem), None)
        else:
            for read in reads:
                _complete(read.result, None, [items[key] for key in read.keys])

    async def _send_group(self, group: _TransactionGroup) -> None:
        individual = group.members if len(group.members) == 1 else []
        problem = None
        try:
            if not individual:
                await self.inner.write_together([*group.writes.values()], group.token)
        except ConditionFailed as failed:
            keys = [*group.writes]
            failed_keys = {keys[position] for position in failed.failures}
            individual = [member for member in group.members if not failed_keys.isdisjoint(member.writes)]
            unaffected = [member for member in group.members if failed_keys.isdisjoint(member.writes)]
            for rest in _group_transactions(unaffected):
                self._start(self._send_group(rest))
            group.members = individual
        except Exception as failed:  # noqa: BLE001 - a member that is sent individually receives the same error
            problem, individual = _shared_failure(failed), group.members
            if problem is not None and not is_known_unapplied(problem):
                self._in_doubt |= dict.fromkeys((member.token for member in group.members), group)
        for member in group.members:
            _complete(member.result, problem, not individual)

    async def _resolve_outcome(self, group: _TransactionGroup, token: str) -> bool:
        """Return whether a group in doubt was applied. Raise an error as long as that is unknown."""
        if group.outcome is None or _has_failed(group.outcome):
            group.outcome = asyncio.get_running_loop().create_task(self._resend(group))
            self._track(group.outcome)
        try:
            return await asyncio.shield(group.outcome)
        except StoreError as problem:
            self._in_doubt[token] = group
            raise for_one_of_several(problem) from problem

    async def _resend(self, group: _TransactionGroup) -> bool:
        try:
            await self.inner.write_together([*group.writes.values()], group.token)
        except StoreError as problem:
            if problem.retryable or isinstance(problem, StoreDenied):
                raise
            return False
        return True

    # --- other calls -------------------------------------------------------------------------------------------

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Pass the reads on."""
        return await self.inner.read_ranges(reads, want)

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Pass the writes on."""
        return await self.inner.write(writes)

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Pass the scan on."""
        return await self.inner.scan(segment, of, after)

    async def describe(self) -> TableDefinition | None:
        """Return the definition of the existing table."""
        return await self.inner.describe()

    async def ensure_table(self, definition: TableDefinition) -> None:
        """Create the table, or add missing indexes."""
        await self.inner.ensure_table(definition)

    async def close(self) -> None:
        """Close the wrapped store."""
        await self.inner.close()


def _group_transactions(transactions: Iterable[_PendingTransaction]) -> list[_TransactionGroup]:
    """Return few groups that contain the transactions in order."""
    groups: list[_TransactionGroup] = []
    for transaction in transactions:
        if not groups or not groups[-1].accepts(transaction):
            groups.append(_TransactionGroup())
        groups[-1].writes |= transaction.writes
        groups[-1].members.append(transaction)
    return groups


def _are_equal_checks(one: TransactionWrite, other: TransactionWrite) -> bool:
    return isinstance(one, Check) and one == other


def _write_key(write: TransactionWrite) -> Key:
    return item_key(write.item) if isinstance(write, Put) else write.key


def _shared_failure(problem: Exception) -> StoreError | None:
    """Return a transient error, which concerns all members. Any other error may concern one of them alone."""
    if isinstance(problem, StoreError) and problem.retryable and not isinstance(problem, Conflict):
        return problem
    return None


def _has_failed(task: asyncio.Task[bool]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _complete(future: asyncio.Future[Any], problem: StoreError | None, result: Any) -> None:
    """Set the result or the error of a future, unless its caller was cancelled."""
    if future.done():
        return
    if problem is None:
        future.set_result(result)
    else:
        future.set_exception(for_one_of_several(problem))
