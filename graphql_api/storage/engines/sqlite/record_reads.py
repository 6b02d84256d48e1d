"""Reads of several records by key in one statement, which costs a third of a statement for each."""

import sqlite3
from collections.abc import Sequence
from functools import cache

from graphql_api.storage import Key
from graphql_api.storage.engines.sqlite.table_layout import encode_hash_key, encode_table_key
from graphql_api.storage.engines.sqlite.writer_jobs import FIND_RECORD

MAX_TOGETHER = 64
"""keys of one statement"""

_STEP = 8
"""Statements exist for multiples of this number of rows, so that the connection keeps them all prepared."""


def padded_size(count: int) -> int:
    """Return the number of rows of the smallest statement for this number of rows."""
    return -(-count // _STEP) * _STEP


def numbered_rows(size: int) -> str:
    """Return the rows of a VALUES clause: each has its number, and three parameters."""
    return ", ".join(f"({number}, ?, ?, ?)" for number in range(size))


def find_records(sql: sqlite3.Connection, keys: Sequence[Key]) -> sqlite3.Cursor:
    """Select the stored records among at most `MAX_TOGETHER` keys, as pairs of the number of the key and the body."""
    if len(keys) == 1:
        return sql.execute(_ONE, encode_table_key(keys[0]))
    size = padded_size(len(keys))
    values: list[bytes | None] = []
    for hash_key, range_key in keys:
        values += encode_hash_key(hash_key)
        values.append(range_key.encode())
    values += [None] * (3 * (size - len(keys)))  # finds nothing
    return sql.execute(_statement(size), values)


_ONE = FIND_RECORD.replace("SELECT record,", "SELECT 0,")


@cache
def _statement(size: int) -> str:
    return (
        f"WITH wanted (number, base, shard, value) AS (VALUES {numbered_rows(size)})"
        " SELECT number, body FROM wanted CROSS JOIN entries CROSS JOIN records ON id = record"
        " WHERE idx = 0 AND entries.base = wanted.base AND entries.value = wanted.value"
        " AND entries.shard = wanted.shard AND tie = x''"
    )
