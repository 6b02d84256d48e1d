"""Storage engines, and the registry that opens the engine of a store URL."""

from graphql_api.storage.engines.registry import creates_tables, open_store

__all__ = [
    "creates_tables",
    "open_store",
]
