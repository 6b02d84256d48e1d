"""The embedded engine: one SQLite file, shared by any number of processes of one machine (docs/engines.md)."""

from graphql_api.storage.engines.sqlite.sqlite_store import SqliteStore, open_sqlite
from graphql_api.storage.engines.sqlite.test_switches import Switches

__all__ = ["SqliteStore", "Switches", "open_sqlite"]
