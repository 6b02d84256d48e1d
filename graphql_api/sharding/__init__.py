"""Shard arithmetic: dated generations of a shard space, and the hash keys that a search covers."""

from graphql_api.sharding.coverage import covering_shards
from graphql_api.sharding.shard_space import ONE_SHARD, SHARD_FUNCTIONS, Generation, ShardSpace

__all__ = [
    "ONE_SHARD",
    "SHARD_FUNCTIONS",
    "Generation",
    "ShardSpace",
    "covering_shards",
]
