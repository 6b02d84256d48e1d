"""Tables with orders on SQLite and on DynamoDB Local."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from graphql_api.adapters.sqlite import open_sqlite
from tests.dynamodb_local import NoServer, Server, dynamodb_local, running
from tests.engines_report import RAN
from tests.histories.orders import CATALOG, Shop

TABLE = "histories"
LOCAL = "dynamodb-local"


@pytest.fixture(scope="session")
def started() -> Iterator[Server | NoServer]:
    """DynamoDB Local with the table, or why there is none."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(dynamodb_local())
        except NoServer as problem:
            yield problem
        else:
            asyncio.run(_make_table(server))
            yield server


async def _make_table(server: Server) -> None:
    store = await server.open(TABLE)
    try:
        await store.ensure_table(CATALOG.table_definition())
    finally:
        await store.close()


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop on SQLite alone."""
    store = await open_sqlite(tmp_path / "orders.db")
    await store.ensure_table(CATALOG.table_definition())
    yield Shop(store)
    await store.close()


@pytest.fixture
async def on_dynamodb(started: Server | NoServer, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """A shop on DynamoDB Local alone."""
    server = running(started, LOCAL, request)
    request.node.user_properties.append((RAN, LOCAL))
    store = await server.open(TABLE)
    yield Shop(store)
    await store.close()


@pytest.fixture(params=["on_file", "on_dynamodb"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """A shop on each engine in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Shop)
    return found
