"""Writes on the condition that nothing has changed since it was read, and what is done when something has."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from secrets import SystemRandom, token_urlsafe
from typing import TypeVar

from graphql_api.errors import ConditionFailed, Conflict
from graphql_api.storage import MAX_EXPECTED, Expect, Item
from graphql_api.writes.item_keys import WRITE_ID

T = TypeVar("T")

MAX_TRIES = 12
MAX_SECONDS = 10.0
"""after which there is no further try: where others hold a whole file locked, each try takes long"""
FIRST_PAUSE, MAX_PAUSE = 0.01, 0.5
"""seconds between two tries, at most"""

_RANDOM = SystemRandom()


def new_write_id() -> str:
    """Names one write for ever: 96 random bits."""
    return token_urlsafe(12)


def unchanged(stored: Item | None) -> Expect:
    """What must still stand where this was read."""
    if stored is None:
        return Expect(absent=True)
    if WRITE_ID in stored:
        return Expect(attributes={WRITE_ID: stored[WRITE_ID]})
    # Somebody else wrote it, and gave the write no name. There is room for what else is expected of it.
    told = dict(islice(stored.items(), MAX_EXPECTED - 10))
    return Expect(attributes=told, without=(WRITE_ID,))


def touched(item: Item) -> Item:
    """A record as it is, under the name of another write: whoever has read it finds it changed."""
    return {**item, WRITE_ID: new_write_id()}


class StillBusy(Conflict):
    """Somebody is at it who will be done in a moment; told as it is, if that takes longer."""


async def in_some_tries(attempt: Callable[[], Awaitable[T]], of: str) -> T:
    """What an attempt gives; it reads anew each time, until nobody else writes between its reads and its writes."""
    tried = 0
    now = asyncio.get_running_loop().time
    ends = now() + MAX_SECONDS
    while True:
        try:
            return await attempt()
        except (ConditionFailed, Conflict) as problem:
            tried += 1
            if tried == MAX_TRIES or now() >= ends:
                if isinstance(problem, StillBusy):
                    raise
                raise Conflict(
                    f"{of} was changed by others while it was to be written ({tried} of {MAX_TRIES} tries), and is as "
                    "they left it. Try again a little later."
                ) from problem
        await asyncio.sleep(_RANDOM.uniform(0, min(MAX_PAUSE, FIRST_PAUSE * 2**tried)))
