"""Fixtures: DynamoDB Local with the sample records, and stores that reach it through a fault proxy."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from graphql_api.database import Database
from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore
from tests.faults.fault_proxy import FaultProxy, no_fault
from tests.faults.proxied_catalog import CATALOG, database, records, sorted_wide_records
from tests.support.dynamodb_servers import Server, ServerUnavailable

TABLE = "faults"
QUICK_WITH_BOTH = frozenset(
    {
        "test_harmless_faults_cause_no_retries",
        "test_reads_by_key_succeed_despite_a_fault",
        "test_creates_have_no_false_failures",
    }
)
"""the tests that quick runs have with the client of aioboto3 too; deep runs have all"""


@dataclass
class ProxiedStores:
    """Opens stores that reach the table only through the proxy."""

    proxy: FaultProxy
    server: Server
    transport: str = "direct"
    stores: list[DynamoStore] = field(default_factory=list)

    async def open_store(self, settings: DynamoSettings) -> DynamoStore:
        """Open a store that has made no call yet."""
        chosen = replace(settings, transport=self.transport)
        store = await self.server.open(TABLE, chosen, endpoint=self.proxy.endpoint)
        self.stores.append(store)
        return store

    async def open_database(self, settings: DynamoSettings) -> Database:
        return database(await self.open_store(settings))


@pytest.fixture(scope="session")
def filled_table(local_dynamodb: Server | ServerUnavailable) -> None:
    """A table with the sample records, if DynamoDB Local is available."""
    if isinstance(local_dynamodb, Server):
        asyncio.run(_fill(local_dynamodb))


async def _fill(server: Server) -> None:
    store = await server.open(TABLE)
    try:
        await store.ensure_table(CATALOG.table_definition())
        for batch in (records(), sorted_wide_records()):
            assert await database(store).put_many(batch) == [None] * len(batch)
    finally:
        await store.close()


@pytest.fixture
async def proxied(dynamodb: Server, filled_table: None, request: pytest.FixtureRequest) -> AsyncIterator[ProxiedStores]:
    """Stores that use a fault proxy. The proxy injects no faults at first."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        proxied_stores = ProxiedStores(proxy, dynamodb, getattr(request, "param", "direct"))
        yield proxied_stores
        proxy.rule = no_fault
        for store in proxied_stores.stores:
            await store.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of this folder with both transports."""
    if "proxied" in metafunc.fixturenames:
        marks = [] if metafunc.function.__name__ in QUICK_WITH_BOTH else [pytest.mark.deep]
        by_client = pytest.param("aioboto3", marks=marks)
        metafunc.parametrize("proxied", ["direct", by_client], indirect=True)
