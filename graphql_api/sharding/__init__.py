"""Shard arithmetic: the generations of a shard space, and the shards that a search must read."""

from graphql_api.sharding.shard_space import ONE_SHARD as ONE_SHARD
from graphql_api.sharding.shard_space import SHARD_FUNCTIONS as SHARD_FUNCTIONS
from graphql_api.sharding.shard_space import Generation as Generation
from graphql_api.sharding.shard_space import ShardSpace as ShardSpace
