"""Concurrent calls that all end before the caller continues."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")


async def run_concurrently(work: Callable[[P], Awaitable[T]], parts: Sequence[P]) -> list[T]:
    """Run all parts concurrently and return their results. The first error, or cancellation, cancels the others."""
    if len(parts) == 1:
        return [await work(parts[0])]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run(work, part)) for part in parts]
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    return [task.result() for task in tasks]


async def run_with_limit(work: Callable[[P], Awaitable[T]], parts: Sequence[P], limit: int) -> list[T]:
    """Run at most `limit` parts concurrently and return all results."""
    semaphore = asyncio.Semaphore(limit)

    async def run_one(part: P) -> T:
        async with semaphore:
            return await work(part)

    return await run_concurrently(run_one, parts)


def split_into_chunks(parts: Iterable[T], size: int) -> list[list[T]]:
    """Split the parts into lists of at most `size`."""
    all_parts = list(parts)
    return [all_parts[start : start + size] for start in range(0, len(all_parts), size)]


async def _run(work: Callable[[P], Awaitable[T]], part: P) -> T:
    return await work(part)
