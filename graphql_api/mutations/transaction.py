"""Sends a transaction until its fate is known: an answer that is lost may have been a success."""

import asyncio
from collections.abc import Sequence
from secrets import SystemRandom, token_urlsafe

from graphql_api.errors import ConditionFailed, Conflict, StoreError, StoreUnavailable
from graphql_api.store.port import Store
from graphql_api.store.values import TogetherWrite

MOST_ASKED = 4
"""times that one transaction is sent while nobody knows what became of it"""
MOST_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""seconds between two of them, at most"""

_RANDOM = SystemRandom()


async def commit(store: Store, writes: Sequence[TogetherWrite]) -> None:
    """Applies all writes or none, under one token for all the times that it has to be asked.

    `ConditionFailed` and `Conflict` mean that nothing was written. After `StoreUnavailable` nobody knows.
    """
    token = token_urlsafe(18)
    now = asyncio.get_running_loop().time
    ends = now() + MOST_SECONDS
    asked, unknown = 0, False
    while True:
        try:
            return await store.write_together(writes, token)
        except ConditionFailed:
            raise
        except Conflict as problem:
            if not unknown:
                raise
            last: StoreError = problem  # This time nothing was written; what was sent before may still arrive.
        except StoreError as problem:
            if not problem.retryable:
                raise
            last, unknown = problem, True
        asked += 1
        if asked == MOST_ASKED or now() >= ends:
            raise StoreUnavailable(
                f"Nobody knows whether the write was carried out: {last.message} Look at what stands there, or send it "
                "again under an idempotency key.",
                shard=last.shard,
            ) from last
        await asyncio.sleep(_RANDOM.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**asked)))
