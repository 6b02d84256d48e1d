"""Optimistic concurrency control: conditions on the snapshot that a write is based on, and retries on conflict."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from secrets import SystemRandom, token_urlsafe
from typing import TypeVar

from graphql_api.errors import ConditionFailed, Conflict, Message
from graphql_api.storage import MAX_CONDITION_ATTRIBUTES, Expect, Item
from graphql_api.writes.item_keys import WRITE_ID

T = TypeVar("T")

MAX_ATTEMPTS = 12
MAX_SECONDS = 10.0
"""No further attempt starts after this time: attempts are slow while another process locks the database file."""
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.01, 0.5
"""upper bounds of the pause between two attempts"""
_RESERVED_CONDITION_ATTRIBUTES = 10
"""of a condition on a foreign item, left free for further conditions on the same item"""

_RANDOM = SystemRandom()


def new_write_id() -> str:
    """Return a globally unique name for one write: 96 random bits."""
    return token_urlsafe(12)


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


class RecordLocked(Conflict):
    """Another writer holds the record briefly. Re-raised unchanged once retries are exhausted."""


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]], subject: str | Message) -> T:
    """Repeat an attempt until no other writer interferes between its reads and its writes. Return its result.

    Retries with exponential backoff and full jitter. Errors name the `subject`.
    """
    attempts = 0
    now = asyncio.get_running_loop().time
    deadline = now() + MAX_SECONDS
    while True:
        try:
            return await attempt()
        except (ConditionFailed, Conflict) as problem:
            attempts += 1
            if attempts == MAX_ATTEMPTS or now() >= deadline:
                if isinstance(problem, RecordLocked):
                    raise
                raise Conflict(
                    "Concurrent writes changed {subject}: nothing was written in {attempts} of {limit} attempts. Try "
                    "again later.",
                    subject=subject,
                    attempts=attempts,
                    limit=MAX_ATTEMPTS,
                ) from problem
        await asyncio.sleep(_RANDOM.uniform(0, min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**attempts)))
