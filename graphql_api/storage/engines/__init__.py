"""Storage engines, and the registry that opens the engine of a store URL."""

from graphql_api.storage.engines.registry import makes_tables, open_store

__all__ = [
    "makes_tables",
    "open_store",
]
