"""The SQLite tables of contestants: the same users in one table per design, without ShardQL."""

import sqlite3
from pathlib import Path
from zlib import crc32

from tests.benchmarks.sample_rows import FIELDS, user_rows

COLUMNS = FIELDS
_NAMES = ", ".join(COLUMNS)
SHARD_QUERY = f"SELECT {_NAMES} FROM sharded WHERE shard = ? AND created BETWEEN ? AND ? ORDER BY created LIMIT ?"  # noqa: S608 - constants
PAGE_QUERY = f"SELECT {_NAMES} FROM users WHERE created BETWEEN ? AND ? ORDER BY created LIMIT ?"  # noqa: S608
OFFSET_QUERY = f"{PAGE_QUERY} OFFSET ?"


def make_plain_database(file: Path, users: int, shards: int) -> None:
    """Make a database with one table of all users, and one that is divided into shards."""
    rows = [*user_rows(users)]
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"CREATE TABLE users ({_NAMES}, PRIMARY KEY (userId))")
        connection.execute(f"CREATE TABLE sharded (shard, {_NAMES}, PRIMARY KEY (userId))")
        marks = ", ".join(f":{name}" for name in COLUMNS)
        connection.executemany(f"INSERT INTO users VALUES ({marks})", rows)  # noqa: S608 - constants
        shard = [{**row, "shard": crc32(row["userId"].encode()) % shards} for row in rows]
        connection.executemany(f"INSERT INTO sharded VALUES (:shard, {marks})", shard)  # noqa: S608 - constants
        connection.execute("CREATE INDEX users_created ON users (created)")
        connection.execute("CREATE INDEX sharded_created ON sharded (shard, created)")
        connection.execute("ANALYZE")
    connection.close()
