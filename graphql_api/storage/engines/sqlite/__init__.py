"""The embedded engine: one SQLite file, shared by any number of processes on one machine (docs/engines.md)."""

from graphql_api.storage.engines.sqlite.sqlite_store import SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.test_switches import EngineQuirks

__all__ = ["EngineQuirks", "SqliteStore", "open_sqlite"]
