"""What writes cost in derived keys, transactions and statements of SQLite. Nothing here measures time."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.model import Catalog
from graphql_api.ops import load_lines
from graphql_api.ops.line_parser import LineParser
from graphql_api.storage.engines.sqlite.sqlite_store import SqliteStore
from graphql_api.writes.index_keys import IndexKeys
from tests.benchmarks.measured_catalog import Account, User, accounts, users
from tests.benchmarks.sample_rows import user_rows

RECORDS, BATCH = 300, 100
INDEXES = 6


def sqlite_of(db: Database) -> SqliteStore:
    """Return the store of a database on SQLite."""
    store: Any = db.store
    while not isinstance(store, SqliteStore):
        store = store.inner
    return store


@contextmanager
def traced(connection: Any) -> Iterator[Counter[str]]:
    """Count the statements of a connection by their first word and table."""
    counts = Counter[str]()

    def count(statement: str) -> None:
        words = statement.replace("(", " ").split()
        table = next((word for word in words if word in ("entries", "records", "tokens", "meta")), "")
        counts[f"{words[0]} {table}".strip()] += 1

    connection.set_trace_callback(count)
    try:
        yield counts
    finally:
        connection.set_trace_callback(None)


@pytest.fixture
def derived_keys(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often the keys of a record are derived, by its own id."""
    counts, derive = Counter[str](), IndexKeys.add_to

    def add_to(self: IndexKeys, item: Any, values: Any, identity: Any) -> None:
        counts[identity.own_id] += 1
        derive(self, item, values, identity)

    monkeypatch.setattr(IndexKeys, "add_to", add_to)
    return counts


async def opened(catalog: Catalog, tmp_path: Path) -> AsyncIterator[Database]:
    """Open a new database on SQLite."""
    async with open_catalog(catalog, f"sqlite:///{tmp_path}/counted.db") as db:
        yield db


@pytest.fixture
async def users_db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database of users, with six indexes."""
    async for db in opened(users, tmp_path):
        yield db


@pytest.fixture
async def accounts_db(tmp_path: Path) -> AsyncIterator[Database]:
    """A database of accounts, with a unique property."""
    async for db in opened(accounts, tmp_path):
        yield db


def lines_file(folder: Path) -> Path:
    """Write a file of users."""
    rows = ({name: value for name, value in row.items() if value is not None} for row in user_rows(RECORDS))
    file = folder / "users.jsonl"
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


def some_accounts(count: int = BATCH) -> Sequence[Account]:
    """Return accounts with different unique values."""
    return [Account(account_id=f"a{number}", email=f"{number}@post.example", name="Name") for number in range(count)]


async def test_a_load_derives_keys_once_and_inserts_in_few_statements(
    users_db: Database, tmp_path: Path, derived_keys: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load of new records derives the keys of each once, needs no pydantic, and reads no record before it writes."""
    monkeypatch.setattr(LineParser, "_parse_by_model", lambda *_: pytest.fail("pydantic is needed"))
    writer = sqlite_of(users_db).writer
    with traced(writer._sql) as statements:
        done = await load_lines(users_db.restore_many, users.entity(User), lines_file(tmp_path), batch=BATCH)
    assert done.written == RECORDS
    assert set(derived_keys.values()) == {1}
    assert len(derived_keys) == RECORDS
    batches = RECORDS // BATCH
    # Each batch of records is one commit: its keys, its records, and its index entries, 30 in a statement.
    assert statements["COMMIT"] == batches
    assert statements["INSERT entries"] == RECORDS + batches * (BATCH * INDEXES // 30)
    assert statements["INSERT records"] == RECORDS
    # The version of the layout, and the fence.
    assert (statements["SELECT meta"] + statements["SELECT records"], statements["SELECT entries"]) == (
        batches,
        batches,
    )


async def test_a_create_reads_no_record(accounts_db: Database, derived_keys: Counter[str]) -> None:
    """A create with a unique property reads nothing before its transaction, which reads only its fence."""
    store = sqlite_of(accounts_db)
    await accounts_db.create(*some_accounts(1))
    derived_keys.clear()
    with traced(store._sql) as reads, traced(store.writer._sql) as writes:
        await accounts_db.create(Account(account_id="new", email="new@post.example", name="Name"))
    assert derived_keys == {"new": 1}
    assert sum(reads.values()) == 0
    assert (writes["COMMIT"], writes["SELECT entries"]) == (1, 1)
    assert (writes["INSERT entries"], writes["INSERT records"]) == (2, 2)


async def test_a_batch_of_creates_is_few_commits(accounts_db: Database, derived_keys: Counter[str]) -> None:
    """A hundred creates with a unique property are two transactions, and their fence is read once in each commit."""
    store = sqlite_of(accounts_db)
    with traced(store._sql) as reads, traced(store.writer._sql) as writes:
        results = await accounts_db.create_many(some_accounts())
    assert all(isinstance(result, Account) for result in results)
    assert set(derived_keys.values()) == {1}
    assert sum(reads.values()) == 0
    assert writes["INSERT tokens"] == 2
    assert writes["COMMIT"] <= 2
    assert writes["SELECT entries"] == writes["COMMIT"]
    assert (writes["INSERT entries"], writes["INSERT records"]) == (2 * BATCH, 2 * BATCH)
