"""Commit transactions on conditions, by optimistic concurrency control: without locks, with retries on conflict.

A transaction is also repeated until its outcome is known: a lost response may have been a success.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from secrets import token_urlsafe
from time import time
from typing import TypeVar

from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    Message,
    OutcomeUnknown,
    QueryTooCostly,
    ShardQLError,
    StoreError,
    StoreUnavailable,
    Throttled,
)
from graphql_api.runtime import RetryStrategy
from graphql_api.storage import (
    MAX_CONDITION_ATTRIBUTES,
    Check,
    Expect,
    Item,
    Key,
    Put,
    Store,
    TransactionWrite,
    values_equal,
)
from graphql_api.writes.item_keys import WRITE_ID, write_key

T = TypeVar("T")

CONFLICT_RETRIES = RetryStrategy(
    max_attempts=12,
    max_seconds=10.0,  # attempts are slow while another process locks the database file
    first_backoff_seconds=0.02,
    max_backoff_seconds=0.5,
)
_RESERVED_CONDITION_ATTRIBUTES = 10
"""of a condition on a foreign item, left free for further conditions on the same item"""

OUTCOME_RETRIES = RetryStrategy(max_attempts=4, max_seconds=10.0, first_backoff_seconds=0.04, max_backoff_seconds=0.5)
"""of one transaction whose outcome is unknown; much later, the engine may have lost its token"""

READ_FIRST_REMEDY = "Read the current state before you send it again. A write with an idempotency key is safe to retry."


async def commit_transaction(store: Store, writes: Sequence[TransactionWrite], *, is_idempotent: bool = True) -> None:
    """Apply all writes or none. Every retry has the same token, by which the store recognizes the transaction.

    If the outcome remains unknown, raise `StoreUnavailable`, or `OutcomeUnknown` for writes that are not idempotent.
    After every other error nothing was written.
    """
    writes = merge_by_key(writes)
    token = token_urlsafe(18)
    await _send_until_known(lambda: store.write_together(writes, token), is_idempotent=is_idempotent)


async def commit_single(store: Store, write: Put) -> None:
    """Apply one write, which its write id identifies. This costs half as much as a transaction.

    If a response is lost and another writer replaces the item before the retry, raise `ConditionFailed`, although the
    write was applied for a moment.
    """

    async def send() -> None:
        (problem,) = await store.write([write])
        old = problem.old if isinstance(problem, ConditionFailed) else None
        if problem is not None and (old is None or old.get(WRITE_ID) != write.item[WRITE_ID]):
            raise problem

    await _send_until_known(send, is_idempotent=True)


async def _send_until_known(send: Callable[[], Awaitable[None]], *, is_idempotent: bool) -> None:
    retries = OUTCOME_RETRIES.start()
    in_doubt = False
    while True:
        try:
            return await send()
        except ConditionFailed:
            raise
        except QueryTooCostly as problem:
            # Another attempt does not fit under the capacity ceiling of the request.
            if not in_doubt:
                raise
            raise _unknown_outcome(problem, is_idempotent=is_idempotent) from problem
        except StoreError as problem:
            # A send that conflicts wrote nothing, but an earlier one may still arrive.
            if not in_doubt and (isinstance(problem, Conflict) or not problem.retryable):
                raise
            in_doubt |= not is_known_unapplied(problem)
            if problem.retryable and await retries.pause():
                continue
            if not in_doubt:
                raise
            raise _unknown_outcome(problem, is_idempotent=is_idempotent) from problem


def _unknown_outcome(problem: ShardQLError, *, is_idempotent: bool) -> StoreUnavailable | OutcomeUnknown:
    error = StoreUnavailable if is_idempotent else OutcomeUnknown
    remedy = "It is safe to retry." if is_idempotent else READ_FIRST_REMEDY
    message = f"It is unknown whether the write was applied: {{problem}} {remedy}"
    return error(message, problem=problem, shard=problem.shard)


def is_known_unapplied(problem: StoreError) -> bool:
    """Return whether the error guarantees that nothing was written."""
    return isinstance(problem, Throttled) or (isinstance(problem, StoreUnavailable) and problem.certain)


class RecordLocked(Conflict):
    """Another writer holds the record briefly. Re-raised unchanged once retries are exhausted."""


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]], subject: str | Message) -> T:
    """Repeat an attempt until no other writer interferes with it. Return its result. Errors name the `subject`."""
    retries = CONFLICT_RETRIES.start()
    while True:
        try:
            return await attempt()
        except (ConditionFailed, Conflict) as problem:
            if await retries.pause():
                continue
            if isinstance(problem, RecordLocked):
                raise
            raise Conflict(
                "Concurrent writes changed {subject}: nothing was written in {attempts} of {limit} attempts. Try "
                "again later.",
                subject=subject,
                attempts=retries.failed_attempts,
                limit=CONFLICT_RETRIES.max_attempts,
            ) from problem


# --- conditions ------------------------------------------------------------------------------------------------


def new_write_id() -> str:
    """Return a globally unique name for one write: 96 random bits."""
    return _write_ids.take()


class _WriteIds:
    """Write ids that were made together. None outlives its process, or a second: copies of a process must differ."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._made_at = 0.0

    def take(self) -> str:
        now = time()
        if not 0 <= now - self._made_at <= _MAX_AGE_SECONDS:
            self.forget()
        try:
            return self._ids.pop()
        except IndexError:
            ids = _random_ids()
            own = ids.pop()
            self._ids, self._made_at = ids, now
            return own

    def forget(self) -> None:
        self._ids = []


_ID_BYTES = 12
_IDS_AT_ONCE = 64
_MAX_AGE_SECONDS = 1.0


def _random_ids() -> list[str]:
    letters = _ID_BYTES * 4 // 3
    text = token_urlsafe(_ID_BYTES * _IDS_AT_ONCE)
    return [text[at : at + letters] for at in range(0, len(text), letters)]


_write_ids = _WriteIds()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_write_ids.forget)


def expect_unchanged(stored: Item | None) -> Expect:
    """Return the condition that an item is still as it was read. None means that there was no item."""
    if stored is None:
        return Expect(absent=True)
    if WRITE_ID in stored:
        return Expect(attributes={WRITE_ID: stored[WRITE_ID]})
    # Another application wrote the item, without a write id.
    compared = dict(islice(stored.items(), MAX_CONDITION_ATTRIBUTES - _RESERVED_CONDITION_ATTRIBUTES))
    return Expect(attributes=compared, without=(WRITE_ID,))


def with_new_write_id(item: Item) -> Item:
    """Return the item under a new write id, so that conditions of concurrent writers on it fail."""
    return {**item, WRITE_ID: new_write_id()}


def merge_by_key(writes: Iterable[TransactionWrite]) -> list[TransactionWrite]:
    """Merge the writes so that each key occurs once, as engines require, with all conditions on its item.

    Raise `Conflict` if conditions contradict each other: then the snapshots are of different moments.
    """
    merged: dict[Key, TransactionWrite] = {}
    repeated: list[TransactionWrite] = []
    for write in writes:
        key = write_key(write)
        earlier = merged.get(key)
        if earlier is None:
            merged[key] = write
        elif isinstance(write, Check):
            merged[key] = replace(earlier, expect=merge_conditions(earlier.expect, write.expect))
        elif isinstance(earlier, Check):
            merged[key] = replace(write, expect=merge_conditions(write.expect, earlier.expect))
        else:
            if write.expect is not None:
                merge_conditions(earlier.expect, write.expect)
            repeated.append(write)  # Two changes of one item have no order: the store refuses them.
    return [*merged.values(), *repeated]


def merge_conditions(one: Expect | None, other: Expect) -> Expect:
    """Return the condition that holds if both hold. Raise `Conflict` if they contradict each other."""
    if one is None:
        return other
    shared = one.attributes.keys() & other.attributes.keys()
    without = {*one.without, *other.without}
    attributes = {**one.attributes, **other.attributes}
    agree = all(values_equal(one.attributes[name], other.attributes[name]) for name in shared)
    if one.absent != other.absent or not agree or without & attributes.keys():
        raise Conflict("A concurrent write changed a record while the records that it depends on were read.")
    return Expect(one.absent, attributes, tuple(sorted(without)))
