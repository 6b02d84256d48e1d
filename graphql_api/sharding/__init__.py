"""Shard arithmetic: the generations of a shard space, and the shards that a search must read."""

from graphql_api.sharding.coverage import covering_shards
from graphql_api.sharding.shard_space import ONE_SHARD, SHARD_FUNCTIONS, Generation, ShardSpace

__all__ = [
    "ONE_SHARD",
    "SHARD_FUNCTIONS",
    "Generation",
    "ShardSpace",
    "covering_shards",
]
