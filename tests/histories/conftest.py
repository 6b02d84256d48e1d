"""Tables with orders on SQLite and on DynamoDB Local."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graphql_api.storage.engines.sqlite import open_sqlite
from tests.dynamodb_local import NoServer, Server
from tests.histories.orders import CATALOG, Shop

TABLE = "histories"


@pytest.fixture(scope="session")
def made(local_dynamodb: Server | NoServer) -> None:
    """A table, where DynamoDB Local runs."""
    if isinstance(local_dynamodb, Server):
        asyncio.run(local_dynamodb.make(TABLE, CATALOG.table_definition()))


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop on SQLite alone."""
    store = await open_sqlite(tmp_path / "orders.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Shop(store)
    await store.close()


@pytest.fixture
async def on_dynamodb(dynamodb: Server, made: None) -> AsyncIterator[Shop]:
    """A shop on DynamoDB Local alone."""
    store = await dynamodb.open(TABLE)
    yield Shop(store)
    await store.close()


@pytest.fixture(params=["on_file", "on_dynamodb"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """A shop on each engine in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Shop)
    return found
