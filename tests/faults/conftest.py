"""DynamoDB Local with the world's records, and a proxy before it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from graphql_api.database import Database
from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore
from tests.dynamodb_local import NoServer, Server
from tests.faults.proxy import FaultProxy, no_fault
from tests.faults.world import CATALOG, database, records, wide_answer

TABLE = "faults"


@dataclass
class Behind:
    """Stores that reach the table only through the proxy."""

    proxy: FaultProxy
    server: Server
    stores: list[DynamoStore] = field(default_factory=list)

    async def store(self, settings: DynamoSettings) -> DynamoStore:
        """A fresh one, which has made no call yet."""
        store = await self.server.open(TABLE, settings, endpoint=self.proxy.endpoint)
        self.stores.append(store)
        return store

    async def database(self, settings: DynamoSettings) -> Database:
        return database(await self.store(settings))


@pytest.fixture(scope="session")
def filled(local_dynamodb: Server | NoServer) -> None:
    """A table with the world's records, where DynamoDB Local runs."""
    if isinstance(local_dynamodb, Server):
        asyncio.run(_fill(local_dynamodb))


async def _fill(server: Server) -> None:
    store = await server.open(TABLE)
    try:
        await store.ensure_table(CATALOG.table_definition())
        for things in (records(), wide_answer()):
            assert await database(store).put_many(things) == [None] * len(things)
    finally:
        await store.close()


@pytest.fixture
async def behind(dynamodb: Server, filled: None) -> AsyncIterator[Behind]:
    """A healthy way to the table, to be spoiled at will."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        ways = Behind(proxy, dynamodb)
        yield ways
        proxy.rule = no_fault
        for store in ways.stores:
            await store.close()
