"""Which shards a search has to visit: exactly those that may hold an answer, none of them twice."""

from typing import Any

from graphql_api.sharding.shard_space import ShardSpace


def covering_shards(
    space: ShardSpace,
    *,
    unique_id: str | None = None,
    created_from: Any | None = None,
    created_to: Any | None = None,
) -> tuple[int, ...]:
    """The ordinals to visit, ascending.

    A known unique id leaves one shard a generation, bounds on the creation value leave the generations in force then.
    """
    visited: set[int] = set()
    for generation in space.generations_between(created_from, created_to):
        if unique_id is None:
            visited.update(space.ordinals(generation))
        else:
            visited.add(space.ordinal(unique_id, generation))
    return tuple(sorted(visited))
