"""A page over shards, as a careful programmer writes it for a contestant: few rows of each shard, then a merge.

The second round reads on only in shards that may still hold rows of the page. `node/sharded_page.mjs` is its twin.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

K = TypeVar("K")
R = TypeVar("R")


async def read_sharded_page(
    shards: Sequence[K],
    limit: int,
    read: Callable[[K, R | None, int], Awaitable[list[R]]],
    position: Callable[[R], str],
) -> list[R]:
    """Return the first rows of all shards in the order of their positions."""
    size = -(-limit // len(shards)) + 2
    rows: dict[K, list[R]] = {shard: [] for shard in shards}
    unread = [*shards]
    while True:
        answers = await asyncio.gather(
            *(read(shard, rows[shard][-1] if rows[shard] else None, size) for shard in unread)
        )
        more = []
        for shard, answer in zip(unread, answers, strict=True):
            rows[shard] += answer
            if len(answer) == size:
                more.append(shard)
        merged = sorted((row for found in rows.values() for row in found), key=position)[:limit]
        if len(merged) < limit:
            unread = more
        else:
            last = position(merged[-1])
            unread = [shard for shard in more if position(rows[shard][-1]) < last]
        if not unread:
            return merged
