"""Compute the shards that a search must read."""

from typing import Any

from graphql_api.sharding.shard_space import ShardSpace


def covering_shards(
    space: ShardSpace,
    *,
    unique_id: str | None = None,
    created_from: Any | None = None,
    created_to: Any | None = None,
) -> tuple[int, ...]:
    """Return the ordinals of all shards that may hold a matching record, ascending and without duplicates.

    A known unique id selects one shard per generation. Inclusive bounds on the creation value select generations.
    """
    ordinals: set[int] = set()
    for generation in space.generations_between(created_from, created_to):
        if unique_id is None:
            ordinals.update(space.ordinals(generation))
        else:
            ordinals.add(space.ordinal(unique_id, generation))
    return tuple(sorted(ordinals))
