"""Fixtures: stores of orders on SQLite and DynamoDB Local."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graphql_api.storage.engines.sqlite import open_sqlite
from tests.support.dynamodb_servers import Server, ServerUnavailable
from tests.writes.histories.order_history import CATALOG, Shop

TABLE = "histories"


@pytest.fixture(scope="session")
def history_table(local_dynamodb: Server | ServerUnavailable) -> None:
    """Creates the table on DynamoDB Local, if that is running."""
    if isinstance(local_dynamodb, Server):
        asyncio.run(local_dynamodb.create_table(TABLE, CATALOG.table_definition()))


@pytest.fixture
async def sqlite_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop on SQLite."""
    store = await open_sqlite(tmp_path / "orders.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Shop(store)
    await store.close()


@pytest.fixture
async def dynamodb_shop(dynamodb: Server, history_table: None) -> AsyncIterator[Shop]:
    """A shop on DynamoDB Local, with its own tenant."""
    store = await dynamodb.open(TABLE)
    yield Shop(store)
    await store.close()


@pytest.fixture(params=["sqlite_shop", "dynamodb_shop"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """A shop on each engine."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Shop)
    return found
