"""The SQLite engine: one file, shared by any number of processes on one machine (docs/explanation/engines.md)."""

from graphql_api.storage.engines.sqlite.sqlite_store import SqliteStore as SqliteStore
from graphql_api.storage.engines.sqlite.sqlite_store import open_location as open_location
from graphql_api.storage.engines.sqlite.sqlite_store import open_sqlite as open_sqlite
