"""Several calls at once, of which nothing is left when the caller goes on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")


async def all_of(work: Callable[[P], Awaitable[T]], parts: Sequence[P]) -> list[T]:
    """The results of all parts, which run at once; the first error, or the caller's leaving, ends the others."""
    if len(parts) == 1:
        return [await work(parts[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run(work, part)) for part in parts]
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    return [task.result() for task in tasks]


async def some_at_once(work: Callable[[P], Awaitable[T]], parts: Sequence[P], most: int) -> list[T]:
    """The results of all parts, of which at most so many run at once."""
    room = asyncio.Semaphore(most)

    async def in_turn(part: P) -> T:
        async with room:
            return await work(part)

    return await all_of(in_turn, parts)


def chunks(parts: Iterable[T], most: int) -> list[list[T]]:
    """The parts in lists of at most so many."""
    whole = list(parts)
    return [whole[place : place + most] for place in range(0, len(whole), most)]


async def _run(work: Callable[[P], Awaitable[T]], part: P) -> T:
    return await work(part)
