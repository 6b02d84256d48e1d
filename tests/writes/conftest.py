"""Fixtures: library databases and empty tables on SQLite and DynamoDB Local."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.writes import transactions
from tests.support.dynamodb_servers import ENGINE, Server, ServerUnavailable
from tests.writes.library_catalog import CATALOG, Library

TABLE = "libraries"


@pytest.fixture(scope="session")
def library_table(local_dynamodb: Server | ServerUnavailable) -> None:
    """Creates the table on DynamoDB Local, if that is running."""
    if isinstance(local_dynamodb, Server):
        asyncio.run(local_dynamodb.create_table(TABLE, CATALOG.table_definition()))


@pytest.fixture
async def sqlite_library(tmp_path: Path) -> AsyncIterator[Library]:
    """A library on SQLite."""
    store = await open_sqlite(tmp_path / "library.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Library(store, "t")
    await store.close()


@pytest.fixture
async def dynamodb_library(dynamodb: Server, library_table: None) -> AsyncIterator[Library]:
    """A library on DynamoDB Local, with its own tenant."""
    store = await dynamodb.open(TABLE)
    yield Library(store, uuid4().hex)
    await store.close()


@pytest.fixture(params=["sqlite_library", "dynamodb_library"])
def library(request: pytest.FixtureRequest) -> Library:
    """A library on each engine."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Library)
    return found


# --- empty tables ----------------------------------------------------------------------------------------------

OpenTable = Callable[[], Awaitable[Store]]
"""opens the same table again, as another process does"""


@pytest.fixture
async def open_table(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenTable]:
    """A table that does not exist yet: a SQLite file, or with `on_both_engines` also a table of DynamoDB Local."""
    stores: list[Store] = []
    name = f"table-{uuid4().hex}"
    server = request.getfixturevalue("dynamodb") if getattr(request, "param", "sqlite") == ENGINE else None

    async def open_again() -> Store:
        store: Store = await (open_sqlite(tmp_path / f"{name}.db") if server is None else server.open(name))
        stores.append(store)
        return store

    yield open_again
    for store in stores:
        await store.close()


# --- series of libraries ---------------------------------------------------------------------------------------


class LibraryFactory:
    """Creates empty libraries with one tenant each. A store has few tenants, since each check scans all of it."""

    MAX_PER_STORE = 20

    def __init__(self, open_table: Callable[[str], Awaitable[Store]]) -> None:
        self.open_table = open_table

    async def create(self, count: int) -> AsyncIterator[Library]:
        """Yields the given number of libraries, one after the other."""
        for first in range(0, count, self.MAX_PER_STORE):
            store = await self.open_table(f"from-{first}-{uuid4().hex}")
            await store.ensure_table(CATALOG.table_definition())
            for number in range(first, min(first + self.MAX_PER_STORE, count)):
                yield Library(store, f"t{number}")
            await store.close()


@pytest.fixture
def libraries(tmp_path: Path) -> LibraryFactory:
    """Creates libraries on SQLite."""
    return LibraryFactory(lambda name: open_sqlite(tmp_path / f"{name}.db"))


@pytest.fixture
def dynamodb_libraries(dynamodb: Server) -> LibraryFactory:
    """Creates libraries on DynamoDB Local."""
    return LibraryFactory(dynamodb.open)


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without pauses and without a time limit, and so often that concurrent writers are not starved."""
    conflicts = replace(transactions.CONFLICT_RETRIES, max_attempts=100, first_backoff_seconds=0.0, max_seconds=inf)
    monkeypatch.setattr(transactions, "CONFLICT_RETRIES", conflicts)
    outcomes = replace(transactions.OUTCOME_RETRIES, first_backoff_seconds=0.0, max_seconds=inf)
    monkeypatch.setattr(transactions, "OUTCOME_RETRIES", outcomes)
