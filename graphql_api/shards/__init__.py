"""Shard arithmetic: pure, without knowledge of entities or engines."""
