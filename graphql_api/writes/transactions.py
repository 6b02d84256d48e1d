"""Sends a transaction until its fate is known: an answer that is lost may have been a success."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from secrets import SystemRandom, token_urlsafe

from graphql_api.errors import ConditionFailed, Conflict, OutcomeUnknown, StoreError, StoreUnavailable, Throttled
from graphql_api.storage import Check, Expect, Key, Put, Store, TogetherWrite, same
from graphql_api.writes.item_keys import WRITE_ID, key_of

MAX_ASKED = 4
"""times that one transaction is sent while nobody knows what became of it"""
MAX_SECONDS = 10.0
FIRST_PAUSE, MAX_PAUSE = 0.02, 0.5
"""seconds between two of them, at most"""

_RANDOM = SystemRandom()


async def commit(store: Store, writes: Sequence[TogetherWrite], *, may_repeat: bool = True) -> None:
    """Applies all writes or none, under one token for all the times that it has to be asked.

    Where nobody knows in the end it is `StoreUnavailable`, or `OutcomeUnknown` where what is asked for must not be
    carried out twice; after every other error nothing was written.
    """
    writes = of_each_record(writes)
    token = token_urlsafe(18)
    await _until_known(lambda: store.write_together(writes, token), may_repeat=may_repeat)


async def commit_alone(store: Store, write: Put) -> None:
    """Makes one write that has a write id, by which it is known again; it costs half of what a transaction does.

    If an answer is lost and somebody else writes before it is sent again, it is `ConditionFailed`, although it was
    carried out for a moment.
    """

    async def send() -> None:
        (problem,) = await store.write([write])
        old = problem.old if isinstance(problem, ConditionFailed) else None
        if problem is not None and (old is None or old.get(WRITE_ID) != write.item[WRITE_ID]):
            raise problem

    await _until_known(send, may_repeat=True)


async def _until_known(send: Callable[[], Awaitable[None]], *, may_repeat: bool) -> None:
    now = asyncio.get_running_loop().time
    ends = now() + MAX_SECONDS
    asked, unknown = 0, False
    while True:
        try:
            return await send()
        except ConditionFailed:
            raise
        except Conflict as problem:
            if not unknown:
                raise
            last: StoreError = problem  # This time nothing was written; what was sent before may still arrive.
        except StoreError as problem:
            if not (problem.retryable or unknown):
                raise
            last = problem
            unknown |= not is_certain(problem)
        asked += 1
        if last.retryable and asked < MAX_ASKED and now() < ends:
            await asyncio.sleep(_RANDOM.uniform(0, min(MAX_PAUSE, FIRST_PAUSE * 2**asked)))
            if now() < ends:  # Else the process stood still: by now the engine may have forgotten the token.
                continue
        raise _unknown(last, may_repeat=may_repeat) if unknown else last


def is_certain(problem: StoreError) -> bool:
    """Whether nothing was written."""
    return isinstance(problem, Throttled) or (isinstance(problem, StoreUnavailable) and problem.certain)


def _unknown(last: StoreError, *, may_repeat: bool) -> StoreError:
    """What is told where no answer was heard."""
    words = f"Nobody knows whether the write was carried out: {last.message}"
    if may_repeat:
        problem = StoreUnavailable(f"{words} Send it again as it is: that comes to the same.", shard=last.shard)
    else:
        words = f"{words} Look at what stands there; under an idempotency key it could be sent again as it is."
        problem = OutcomeUnknown(words, shard=last.shard)
    problem.__cause__ = last
    return problem


# --- what is expected of one record ----------------------------------------------------------------------------


def of_each_record(writes: Iterable[TogetherWrite]) -> list[TogetherWrite]:
    """The same transaction with one look at each record, as engines want it: all that is expected of it at once.

    Where that cannot be, what was read is of several moments, and to be read anew.
    """
    found: dict[Key, TogetherWrite] = {}
    doubles: list[TogetherWrite] = []
    for write in writes:
        key = key_of(write.item) if isinstance(write, Put) else write.key
        met = found.get(key)
        if met is None:
            found[key] = write
        elif isinstance(write, Check):
            found[key] = replace(met, expect=_both(met.expect, write.expect))
        elif isinstance(met, Check):
            found[key] = replace(write, expect=_both(write.expect, met.expect))
        else:
            if write.expect is not None:
                _both(met.expect, write.expect)
            doubles.append(write)  # Nobody could say which one comes last: the store refuses it.
    return [*found.values(), *doubles]


def _both(one: Expect | None, other: Expect) -> Expect:
    """What is expected where two expectations have to hold; a conflict where they cannot."""
    if one is None:
        return other
    shared = one.attributes.keys() & other.attributes.keys()
    without = {*one.without, *other.without}
    attributes = {**one.attributes, **other.attributes}
    agree = all(same(one.attributes[name], other.attributes[name]) for name in shared)
    if one.absent != other.absent or not agree or without & attributes.keys():
        raise Conflict("A record was changed by others while what it depends on was read.")
    return Expect(one.absent, attributes, tuple(sorted(without)))
