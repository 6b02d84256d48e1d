"""Libraries on SQLite and on DynamoDB Local, each of a tenant of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.writes import optimistic_concurrency, transactions
from tests.dynamodb_local import ENGINE, NoServer, Server
from tests.unit.shelf import CATALOG, Shelf

TABLE = "shelves"


@pytest.fixture(scope="session")
def shelves(local_dynamodb: Server | NoServer) -> None:
    """The table on DynamoDB Local, where that runs."""
    if isinstance(local_dynamodb, Server):
        asyncio.run(local_dynamodb.make(TABLE, CATALOG.table_definition()))


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Shelf]:
    """A library on SQLite."""
    store = await open_sqlite(tmp_path / "shelf.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Shelf(store, "t")
    await store.close()


@pytest.fixture
async def on_dynamodb(dynamodb: Server, shelves: None) -> AsyncIterator[Shelf]:
    """A library on DynamoDB Local."""
    store = await dynamodb.open(TABLE)
    yield Shelf(store, uuid4().hex)
    await store.close()


@pytest.fixture(params=["on_file", "on_dynamodb"])
def shelf(request: pytest.FixtureRequest) -> Shelf:
    """A library on each engine in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Shelf)
    return found


# --- empty tables ----------------------------------------------------------------------------------------------

Opened = Callable[[], Awaitable[Store]]
"""opens the same table once more, as another process does"""


@pytest.fixture
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """A table that is not there yet: a file, or with `on_both_engines` one of DynamoDB Local as well."""
    stores: list[Store] = []
    name = f"table-{uuid4().hex}"
    server = request.getfixturevalue("dynamodb") if getattr(request, "param", "sqlite") == ENGINE else None

    async def another() -> Store:
        store: Store = await (open_sqlite(tmp_path / f"{name}.db") if server is None else server.open(name))
        stores.append(store)
        return store

    yield another
    for store in stores:
        await store.close()


# --- many of them ----------------------------------------------------------------------------------------------


class Worlds:
    """Empty libraries, each of a tenant of its own; few in one store, as every look at one reads the whole store."""

    MAX = 20

    def __init__(self, opened: Callable[[str], Awaitable[Store]]) -> None:
        self.opened = opened

    async def some(self, count: int) -> AsyncIterator[Shelf]:
        """So many libraries, one after the other."""
        for first in range(0, count, self.MAX):
            store = await self.opened(f"from-{first}-{uuid4().hex}")
            await store.ensure_table(CATALOG.table_definition())
            for number in range(first, min(first + self.MAX, count)):
                yield Shelf(store, f"t{number}")
            await store.close()


@pytest.fixture
def worlds(tmp_path: Path) -> Worlds:
    """As many libraries on SQLite as are asked for."""
    return Worlds(lambda name: open_sqlite(tmp_path / f"{name}.db"))


@pytest.fixture
def remote_worlds(dynamodb: Server) -> Worlds:
    """As many libraries on DynamoDB Local as are asked for."""
    return Worlds(dynamodb.open)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for others but by leaving them the next turn, and nobody gives up before they had some."""
    monkeypatch.setattr(optimistic_concurrency, "MAX_ATTEMPTS", 100)
    for module in (optimistic_concurrency, transactions):
        monkeypatch.setattr(module, "FIRST_BACKOFF_SECONDS", 0.0)
