"""The embedded engine: one SQLite file, shared by any number of processes on one machine (docs/engines.md)."""

from graphql_api.storage.engines.sqlite.engine_quirks import EngineQuirks
from graphql_api.storage.engines.sqlite.sqlite_store import SqliteStore, open_sqlite

__all__ = ["EngineQuirks", "SqliteStore", "open_sqlite"]
