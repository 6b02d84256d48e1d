"""Commit transactions, and retry them until the outcome is known: a lost response may have been a success."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from secrets import SystemRandom, token_urlsafe

from graphql_api.errors import ConditionFailed, Conflict, OutcomeUnknown, StoreError, StoreUnavailable, Throttled
from graphql_api.storage import Check, Expect, Key, Put, Store, TransactionWrite, values_equal
from graphql_api.writes.item_keys import WRITE_ID, item_key

MAX_SENDS = 4
"""of one transaction whose outcome is unknown"""
MAX_SECONDS = 10.0
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.02, 0.5
"""upper bounds of the pause between two sends"""

_RANDOM = SystemRandom()


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
    now = asyncio.get_running_loop().time
    deadline = now() + MAX_SECONDS
    sends, in_doubt = 0, False
    while True:
        try:
            return await send()
        except ConditionFailed:
            raise
        except Conflict as problem:
            if not in_doubt:
                raise
            last: StoreError = problem  # This send wrote nothing; an earlier one may still arrive.
        except StoreError as problem:
            if not (problem.retryable or in_doubt):
                raise
            last = problem
            in_doubt |= not is_known_unapplied(problem)
        sends += 1
        if last.retryable and sends < MAX_SENDS and now() < deadline:
            await asyncio.sleep(_RANDOM.uniform(0, min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**sends)))
            if now() < deadline:  # A process that was suspended does not retry: the engine may have lost the token.
                continue
        raise _unknown_outcome(last, is_idempotent=is_idempotent) if in_doubt else last


def is_known_unapplied(problem: StoreError) -> bool:
    """Return whether the error guarantees that nothing was written."""
    return isinstance(problem, Throttled) or (isinstance(problem, StoreUnavailable) and problem.certain)


def _unknown_outcome(last: StoreError, *, is_idempotent: bool) -> StoreError:
    """Return the error for a write whose outcome is unknown after the last send."""
    if is_idempotent:
        problem = StoreUnavailable(
            "It is unknown whether the write was applied: {problem} It is safe to retry.",
            problem=last,
            shard=last.shard,
        )
    else:
        problem = OutcomeUnknown(
            "It is unknown whether the write was applied: {problem} Read the current state before you send it again. "
            "A write with an idempotency key is safe to retry.",
            problem=last,
            shard=last.shard,
        )
    problem.__cause__ = last
    return problem


# --- conditions ------------------------------------------------------------------------------------------------


def merge_by_key(writes: Iterable[TransactionWrite]) -> list[TransactionWrite]:
    """Merge the writes so that each key occurs once, as engines require, with all conditions on its item.

    Raise `Conflict` if conditions contradict each other: then the snapshots are of different moments.
    """
    merged: dict[Key, TransactionWrite] = {}
    repeated: list[TransactionWrite] = []
    for write in writes:
        key = item_key(write.item) if isinstance(write, Put) else write.key
        earlier = merged.get(key)
        if earlier is None:
            merged[key] = write
        elif isinstance(write, Check):
            merged[key] = replace(earlier, expect=_merge_conditions(earlier.expect, write.expect))
        elif isinstance(earlier, Check):
            merged[key] = replace(write, expect=_merge_conditions(write.expect, earlier.expect))
        else:
            if write.expect is not None:
                _merge_conditions(earlier.expect, write.expect)
            repeated.append(write)  # Two changes of one item have no order: the store refuses them.
    return [*merged.values(), *repeated]


def _merge_conditions(one: Expect | None, other: Expect) -> Expect:
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
