"""Faults between server and DynamoDB, and killed writers, never leave a history with a wrong current record."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from graphql_api.database import Database
from graphql_api.errors import Conflict, StoreError, StoreUnavailable, Throttled
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import FaultProxy, no_fault
from tests.faults.fault_rules import always, first_attempts, random_faults
from tests.faults.fault_settings import (
    HARMFUL_FAULTS,
    HARMLESS_FAULTS,
    IMMEDIATE_FAULTS,
    LONG_TIMEOUTS,
    MANY_ATTEMPTS,
    settings_for,
)
from tests.faults.fault_types import Fault, TransactionConflict
from tests.support.dynamodb_servers import ROOT, Server
from tests.support.run_depth import depth
from tests.writes.histories.conftest import TABLE
from tests.writes.histories.order_history import CATALOG, CURRENT, Order, Shop, check_current_records, order

FAULTS: dict[str, Fault] = {**HARMFUL_FAULTS, **HARMLESS_FAULTS, "transaction conflict": TransactionConflict()}
TRANSIENT = [name for name in FAULTS if name != "corrupted"]
"""DynamoDB Local sends errors without checksum, so a corrupted condition failure is not detected"""


def _is_transaction(request: Request) -> bool:
    return request.operation == "TransactWriteItems"


@pytest.fixture
async def proxy(dynamodb: Server) -> AsyncIterator[FaultProxy]:
    """A fault proxy in front of DynamoDB Local."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as fault_proxy:
        yield fault_proxy


async def _open_through(proxy: FaultProxy, server: Server, shop: Shop, name: str, *, lasting: bool) -> Database:
    settings = settings_for(name, lasting=lasting) if name != "transaction conflict" else LONG_TIMEOUTS
    store = await server.open(TABLE, settings, endpoint=proxy.endpoint)
    return shop.through(store)


@pytest.mark.parametrize("name", TRANSIENT)
async def test_transient_faults(proxy: FaultProxy, dynamodb: Server, dynamodb_shop: Shop, name: str) -> None:
    """A fault on the first attempt of each transaction is retried, and the write happens exactly once."""
    shop = dynamodb_shop
    db = await _open_through(proxy, dynamodb, shop, name, lasting=False)
    try:
        proxy.rule = first_attempts(FAULTS[name], _is_transaction)
        await db.put(order("o", "v1"))
        for version in ("v3", "v2"):
            entry = await db.update(Order, "o", version=version, total=int(version[1]))
            assert entry.version == version
        assert await db.put_many([order("o", "v4"), order("p", "v1")]) == [None, None]
        await db.delete(Order, "o", version="v4")
        assert len(proxy.faulted) >= 5
        assert await shop.histories() == {"o": ["v1", "v2", "v3"], "p": ["v1"]}
        assert (await shop.state("o"))["total"] == 3
    finally:
        proxy.rule = no_fault
        await db.store.close()


@pytest.mark.parametrize("name", [name for name in IMMEDIATE_FAULTS if name != "corrupted"])
async def test_persistent_faults(proxy: FaultProxy, dynamodb: Server, dynamodb_shop: Shop, name: str) -> None:
    """A persistent fault is a retryable error. The history stays consistent, and a later retry succeeds."""
    shop = dynamodb_shop
    db = await _open_through(proxy, dynamodb, shop, name, lasting=True)
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: db.put(order("o", "v1")),
        lambda: db.update(Order, "o", version="v2", total=2),
        lambda: db.delete(Order, "o", version="v2"),
    ]
    after = [["v1"], ["v1", "v2"], ["v1"]]
    try:
        before: list[str] = []
        for write, expected in zip(writes, after, strict=True):
            proxy.rule = always(FAULTS[name], _is_transaction)
            with pytest.raises(StoreError) as failed:
                await write()
            assert failed.value.retryable
            proxy.rule = no_fault
            versions = await shop.histories()
            assert versions.get("o", []) in (before, expected)
            await write()
            assert (await shop.histories())["o"] == expected
            before = expected
    finally:
        proxy.rule = no_fault
        await db.store.close()


async def test_random_faults(proxy: FaultProxy, dynamodb: Server, dynamodb_shop: Shop, random: Random) -> None:
    """Over an unreliable connection, acknowledged writes exist, and others exist completely or not at all."""
    shop = dynamodb_shop
    db = shop.through(await dynamodb.open(TABLE, MANY_ATTEMPTS, endpoint=proxy.endpoint))
    faults = [fault for name, fault in IMMEDIATE_FAULTS.items() if name != "corrupted"]
    acknowledged: set[str] = set()

    async def write(version: str) -> None:
        with suppress(StoreUnavailable, Throttled, Conflict):
            await db.update(Order, "o", version=version, note=version)
            acknowledged.add(version)

    try:
        await shop.db.put(order("o", "v"))
        proxy.rule = random_faults(0.3, random, *faults, TransactionConflict(), matches=lambda _: True)
        for turn in range(depth(3, 30)):
            await asyncio.gather(*(write(f"v{turn:02}{at}") for at in range(3)))
            assert acknowledged <= {*(await shop.histories())["o"]}
        assert acknowledged
    finally:
        proxy.rule = no_fault
        await db.store.close()


async def test_persistent_transaction_conflicts(proxy: FaultProxy, dynamodb: Server, dynamodb_shop: Shop) -> None:
    """Persistent transaction conflicts are a retryable error, and nothing is written."""
    db = await _open_through(proxy, dynamodb, dynamodb_shop, "transaction conflict", lasting=True)
    try:
        proxy.rule = always(TransactionConflict(), _is_transaction)
        with pytest.raises(Conflict, match="Concurrent writes changed Order o"):
            await db.put(order("o", "v1"))
        assert await dynamodb_shop.items() == []
    finally:
        proxy.rule = no_fault
        await db.store.close()


# --- killed writers --------------------------------------------------------------------------------------------

WRITER = """
import asyncio, sys
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.writes.histories.order_history import Order, Shop, order

async def main(path, name):
    db = Shop(await open_sqlite(path), tenant="killed").db

    async def write(order_id):
        await db.put(order(order_id, "v0000"))
        for number in range(1, 10_000):
            await db.update(Order, order_id, version=f"v{number:04}", total=number)
            if number % 3 == 0:
                await db.delete(Order, order_id, version=f"v{number:04}")
            print(order_id, number, flush=True)

    await asyncio.gather(*(write(f"{name}-{at}") for at in range(3)))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_killed_writers(tmp_path: Path, random: Random) -> None:
    """After each kill, every history has a correct current record and all acknowledged entries."""
    path = tmp_path / "orders.db"
    store = await open_sqlite(path)
    await store.ensure_table(CATALOG.table_definition())
    for number in range(depth(2, 30)):
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own process, read below
            [sys.executable, "-c", WRITER, str(path), f"child{number}"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        output = [process.stdout.readline() for _ in range(random.randrange(5, 40))]
        process.send_signal(signal.SIGKILL)
        output += process.communicate()[0].splitlines()
        items = (await store.scan(0, 1, None)).items
        versions = check_current_records([item for item in items if item["hashKey"].startswith("killed|")])
        for line in output:
            if len(line.split()) == 2 and int(line.split()[1]) % 3:
                order_id, last = line.split()
                assert f"v{int(last):04}" in versions[order_id]
    await store.close()


def test_check_detects_wrong_current_records() -> None:
    """`check_current_records` detects a missing, duplicate or different current record."""
    entry = {"hashKey": "order!", "orderId": "o", "version": "v1", "status": "new"}
    current = {**entry, "version": CURRENT, "_of": "v1"}
    assert check_current_records([entry, current]) == {"o": ["v1"]}
    broken = [[entry], [current], [entry, current, {**current, "hashKey": "order!01"}]]
    broken += [[entry, {**current, "status": "sent"}], [entry, {**entry, "version": "v2"}, current]]
    for items in broken:
        with pytest.raises((AssertionError, ValueError)):
            check_current_records(items)
