"""A store wrapper that coalesces the concurrent reads and transactions of many writers into few calls.

Writers stay independent of each other. If conditions of a combined transaction fail, the affected members are sent one
by one, and the rest is sent again without them. If the outcome of a combined transaction is unknown, each member
receives that error. It retries with its own token, which then refers to the combined transaction. So each writer
observes what the wrapped store would do: all of its writes are applied once, or none.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any, NamedTuple, Self, TypeVar

from graphql_api.errors import ConditionFailed, Conflict, StoreDenied, StoreError, for_one_of_several
from graphql_api.runtime import CoalescedCall, RequestCoalescer, SharedResult
from graphql_api.storage import MAX_TRANSACTION_WRITES, Check, ForwardingStore, Item, Key, Store, TransactionWrite
from graphql_api.writes.item_keys import write_key
from graphql_api.writes.transactions import is_known_unapplied

T = TypeVar("T")


class _Transaction(NamedTuple):
    """A transaction that waits for its result: True if applied, False if its caller must send it individually."""

    writes: Mapping[Key, TransactionWrite]
    token: str


_ReadCall = CoalescedCall[Sequence[Key], Sequence[Item | None] | None]
"""Its result is None if its caller must send the read individually."""
_TransactionCall = CoalescedCall[_Transaction, bool]


@dataclass(slots=True)
class _TransactionGroup:
    """Transactions that are sent as one."""

    writes: dict[Key, TransactionWrite] = field(default_factory=dict)
    members: list[_TransactionCall] = field(default_factory=list)
    token: str = field(default_factory=lambda: token_urlsafe(18))
    outcome: SharedResult[bool] | None = None
    """after an unknown outcome: the retry that one member sends for all of them"""

    def accepts(self, transaction: _Transaction) -> bool:
        """Return whether a transaction fits into this group. Common keys are allowed only for equal checks."""
        common = self.writes.keys() & transaction.writes.keys()
        fits = len(self.writes) + len(transaction.writes) - len(common) <= MAX_TRANSACTION_WRITES
        shared = [(self.writes[key], transaction.writes[key]) for key in common]
        return fits and all(isinstance(write, Check) and write == other for write, other in shared)


class WriteCoalescer(ForwardingStore):
    """A store that coalesces concurrent reads by key and transactions. All of its tasks end with its `async with`."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._reads = RequestCoalescer(self._send_reads)
        self._transactions = RequestCoalescer(self._send_transactions)
        self._in_doubt: dict[str, _TransactionGroup] = {}
        """groups whose outcome is unknown, by the token of each member"""
        self._sent_individually = set[str]()
        """tokens that may have been applied: under the token of a group they could be applied again"""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(self._reads.close(), self._transactions.close())

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read records by key. Concurrent consistent reads share one call."""
        items = await self._reads.submit(keys).wait() if consistent else None
        return await self.inner.get_many(keys, consistent) if items is None else items

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply all writes atomically. Concurrent transactions share one call."""
        group = self._in_doubt.pop(token, None)
        writes_by_key = {write_key(write): write for write in writes}
        is_applied = False
        if group is not None:
            is_applied = await self._resolve_outcome(group, token)
        # Repeated keys are sent individually, so that the wrapped store refuses them.
        elif token not in self._sent_individually and len(writes_by_key) == len(writes):
            is_applied = await self._transactions.submit(_Transaction(writes_by_key, token)).wait()
        if not is_applied:
            self._sent_individually.add(token)
            await self.inner.write_together(writes, token)

    async def _send_reads(self, calls: Sequence[_ReadCall]) -> None:
        keys = [*dict.fromkeys(key for call in calls for key in call.part)]
        try:
            items = dict(zip(keys, await self.inner.get_many(keys, consistent=True), strict=True))
        except Exception as problem:  # noqa: BLE001 - a reader that sends its read individually receives the same error
            for call in calls:
                _complete(call, _shared_failure(problem), None)
        else:
            for call in calls:
                call.succeed([items[key] for key in call.part])

    async def _send_transactions(self, calls: Iterable[_TransactionCall]) -> None:
        groups: list[_TransactionGroup] = []
        for call in calls:
            if not groups or not groups[-1].accepts(call.part):
                groups.append(_TransactionGroup())
            groups[-1].writes |= call.part.writes
            groups[-1].members.append(call)
        await asyncio.gather(*map(self._send_group, groups))

    async def _send_group(self, group: _TransactionGroup) -> None:
        individual = group.members if len(group.members) == 1 else []
        unaffected: list[_TransactionCall] = []
        problem = None
        try:
            if not individual:
                await self.inner.write_together([*group.writes.values()], group.token)
        except ConditionFailed as failed:
            keys = [*group.writes]
            failed_keys = {keys[position] for position in failed.failures}
            individual = [call for call in group.members if not failed_keys.isdisjoint(call.part.writes)]
            unaffected = [call for call in group.members if failed_keys.isdisjoint(call.part.writes)]
            group.members = individual
        except Exception as failed:  # noqa: BLE001 - a member that is sent individually receives the same error
            problem, individual = _shared_failure(failed), group.members
            if problem is not None and not is_known_unapplied(problem):
                self._in_doubt |= dict.fromkeys((call.part.token for call in group.members), group)
        for call in group.members:
            _complete(call, problem, not individual)
        await self._send_transactions(unaffected)

    async def _resolve_outcome(self, group: _TransactionGroup, token: str) -> bool:
        """Return whether a group in doubt was applied. Raise an error as long as that is unknown."""
        outcome = group.outcome
        resent = None if outcome is None or not outcome.future.done() else outcome.future
        if outcome is None or (resent is not None and (resent.cancelled() or resent.exception() is not None)):
            outcome = group.outcome = SharedResult(asyncio.ensure_future(self._resend(group)))
        try:
            return await outcome.wait()
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


def _shared_failure(problem: Exception) -> StoreError | None:
    """Return a transient error, which concerns all members. Any other error may concern one of them alone."""
    if isinstance(problem, StoreError) and problem.retryable and not isinstance(problem, Conflict):
        return problem
    return None


def _complete(call: CoalescedCall[Any, T], problem: StoreError | None, result: T) -> None:
    if problem is None:
        call.succeed(result)
    else:
        call.fail(for_one_of_several(problem))
