"""New connections of a process that is short of CPU: they fail no search, and a server opens them at its start."""

import asyncio
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from graphql_api.connection import open_catalog
from graphql_api.server.database_lifespan import warm_connections
from tests.faults.conftest import TABLE, ProxiedStores
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import always
from tests.faults.fault_types import Reset
from tests.faults.proxied_catalog import CATALOG, WIDE
from tests.server.server_processes import environment, limited_server_process
from tests.support.cpu_quota import cpu_quota
from tests.support.dynamodb_servers import CREDENTIALS, REGION, ROOT, Server
from tests.support.loopback import TIMEOUT
from tests.support.run_depth import depth

ADDRESS = "tests.faults.proxied_catalog:CATALOG"
QUOTA = 0.25
"""share of a CPU"""
COLD_SEARCHES = """
import asyncio, sys
from dataclasses import replace
from graphql_api.storage.engines.dynamodb import DynamoSettings
from tests.faults.proxied_catalog import Wide, database
from tests.support.dynamodb_servers import Server, session

async def main(endpoint, table, count):
    session()
    settings = replace(DynamoSettings(), deadline=60.0)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(count):
        store = await Server(endpoint).open(table, settings)
        page = await database(store).search(Wide.by_place, limit=20)
        assert len(page.items) == 20 and page.complete
        await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_cold_searches_with_little_cpu(proxied: ProxiedStores) -> None:
    """A new store searches 150 shards with a quarter of a CPU. Its 150 connections fail no request."""
    arguments = (proxied.proxy.endpoint, TABLE, str(depth(2, 40)))
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - a fixed command
        (sys.executable, "-c", COLD_SEARCHES, *arguments),
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
        proxied.proxy.reset_counts()
        with cpu_quota(process.pid, QUOTA):
            _, errors = await asyncio.to_thread(process.communicate, "\n", depth(60, 1200))
    finally:
        process.kill()
        process.wait(TIMEOUT)
    assert (process.returncode, errors) == (0, "")
    assert proxied.proxy.peak_connections > WIDE / 2


@pytest.fixture
async def new_table(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an empty table of the catalog."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    name = f"cold-{uuid4().hex}"
    async with open_catalog(CATALOG, store_url(name, dynamodb.endpoint), create_table=True):
        return name


def store_url(table: str, endpoint: str, options: str = "") -> str:
    """The URL of a table behind an endpoint."""
    return f"dynamodb://{table}?region={REGION}&endpoint={endpoint}{options}"


def test_serve_starts_with_little_cpu(dynamodb: Server, new_table: str, tmp_path: Path) -> None:
    """`shardql serve` of a catalog with 150 shards starts with a quarter of a CPU, and answers a wide search."""
    words = (ADDRESS, "--store", store_url(new_table, dynamodb.endpoint, "&deadline=60"))
    variables = {**CREDENTIALS, "SHARDQL_DEADLINE_SECONDS": "60"}
    with limited_server_process(tmp_path, QUOTA, *words, **variables) as server:
        answer = server.execute("{ wideByPlace(limit: 3) { items { key } } }")
    assert answer == {"data": {"wideByPlace": {"items": []}}}


async def test_connections_are_opened_at_the_start(proxied: ProxiedStores, new_table: str) -> None:
    """A server opens connections for its widest search, by small reads, before it accepts requests."""
    async with open_catalog(CATALOG, store_url(new_table, proxied.proxy.endpoint, "&deadline=60")) as db:
        proxied.proxy.reset_counts()
        await warm_connections(db)
        assert proxied.proxy.connections > WIDE / 4
        assert {request.operation for request in proxied.proxy.requests} == {"BatchGetItem"}
        assert len(proxied.proxy.requests) <= 1.1 * WIDE


async def test_a_failed_warm_up_is_ignored(proxied: ProxiedStores, new_table: str) -> None:
    """A store that does not answer the reads that open connections does not stop the server."""
    url = store_url(new_table, proxied.proxy.endpoint, "&attempts=1&deadline=60")
    async with open_catalog(CATALOG, url) as db:
        proxied.proxy.rule = always(Reset(), lambda _: True)
        await warm_connections(db)
        assert proxied.proxy.faulted
        proxied.proxy.rule = no_fault
