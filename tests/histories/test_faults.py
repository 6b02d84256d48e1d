"""Faults on the way to DynamoDB, and killed writers: never an entry without its current record, never two of those."""

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
from tests.depth import depth
from tests.dynamodb_local import ROOT, Server
from tests.faults.faults import Fault, MeetsOthers
from tests.faults.proxy import FaultProxy, no_fault
from tests.faults.requests import Request
from tests.faults.rules import always, first_try, now_and_then
from tests.faults.troubles import CALM, HARMFUL, HARMLESS, LOUD, STEADY, settings_for
from tests.histories.conftest import TABLE
from tests.histories.orders import CATALOG, CURRENT, Order, Shop, check_pairs, order

TROUBLES: dict[str, Fault] = {**HARMFUL, **HARMLESS, "meets others": MeetsOthers()}
PASSING = [name for name in TROUBLES if name != "corrupted"]
"""DynamoDB Local gives its errors no checksum, so a condition that fails there may be anything"""


def _is_pair(request: Request) -> bool:
    return request.operation == "TransactWriteItems"


@pytest.fixture
async def proxy(dynamodb: Server) -> AsyncIterator[FaultProxy]:
    """A way to DynamoDB Local that can be spoiled."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as made:
        yield made


async def _behind(proxy: FaultProxy, server: Server, shop: Shop, name: str, *, lasting: bool) -> Database:
    settings = settings_for(name, lasting=lasting) if name != "meets others" else CALM
    store = await server.open(TABLE, settings, endpoint=proxy.endpoint)
    return shop.through(store)


@pytest.mark.parametrize("name", PASSING)
async def test_a_fault_that_passes(proxy: FaultProxy, dynamodb: Server, on_dynamodb: Shop, name: str) -> None:
    """Each transaction meets the fault once, whether it was carried out or not: it happens, and it happens once."""
    shop = on_dynamodb
    db = await _behind(proxy, dynamodb, shop, name, lasting=False)
    try:
        proxy.rule = first_try(TROUBLES[name], _is_pair)
        await db.put(order("o", "v1"))
        for version in ("v3", "v2"):
            made = await db.update(Order, "o", version=version, total=int(version[1]))
            assert made.version == version
        assert await db.put_many([order("o", "v4"), order("p", "v1")]) == [None, None]
        await db.delete(Order, "o", version="v4")
        assert len(proxy.spoiled) >= 5
        assert await shop.histories() == {"o": ["v1", "v2", "v3"], "p": ["v1"]}
        assert (await shop.state("o"))["total"] == 3
    finally:
        proxy.rule = no_fault
        await db.store.close()


@pytest.mark.parametrize("name", [name for name in LOUD if name != "corrupted"])
async def test_a_fault_that_stays(proxy: FaultProxy, dynamodb: Server, on_dynamodb: Shop, name: str) -> None:
    """A write that nobody confirms is an error; what stands is whole all the same, and trying again later is enough."""
    shop = on_dynamodb
    db = await _behind(proxy, dynamodb, shop, name, lasting=True)
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: db.put(order("o", "v1")),
        lambda: db.update(Order, "o", version="v2", total=2),
        lambda: db.delete(Order, "o", version="v2"),
    ]
    after = [["v1"], ["v1", "v2"], ["v1"]]
    try:
        before: list[str] = []
        for write, wanted in zip(writes, after, strict=True):
            proxy.rule = always(TROUBLES[name], _is_pair)
            with pytest.raises(StoreError) as failed:
                await write()
            assert failed.value.retryable
            proxy.rule = no_fault
            versions = await shop.histories()
            assert versions.get("o", []) in (before, wanted)
            await write()
            assert (await shop.histories())["o"] == wanted
            before = wanted
    finally:
        proxy.rule = no_fault
        await db.store.close()


async def test_faults_now_and_then(proxy: FaultProxy, dynamodb: Server, on_dynamodb: Shop, random: Random) -> None:
    """Several writers over a bad line: whatever was acknowledged is there, whatever was not is whole or not at all."""
    shop = on_dynamodb
    db = shop.through(await dynamodb.open(TABLE, STEADY, endpoint=proxy.endpoint))
    faults = [fault for name, fault in LOUD.items() if name != "corrupted"]
    done: set[str] = set()

    async def write(version: str) -> None:
        with suppress(StoreUnavailable, Throttled, Conflict):
            await db.update(Order, "o", version=version, note=version)
            done.add(version)

    try:
        await shop.db.put(order("o", "v"))
        proxy.rule = now_and_then(0.3, random, *faults, MeetsOthers(), which=lambda _: True)
        for turn in range(depth(3, 30)):
            await asyncio.gather(*(write(f"v{turn:02}{at}") for at in range(3)))
            assert done <= {*(await shop.histories())["o"]}
        assert done
    finally:
        proxy.rule = no_fault
        await db.store.close()


async def test_transactions_that_meet_others_for_long(proxy: FaultProxy, dynamodb: Server, on_dynamodb: Shop) -> None:
    """It is a conflict that may be retried, and nothing is written."""
    db = await _behind(proxy, dynamodb, on_dynamodb, "meets others", lasting=True)
    try:
        proxy.rule = always(MeetsOthers(), _is_pair)
        with pytest.raises(Conflict, match="Concurrent writes changed Order o"):
            await db.put(order("o", "v1"))
        assert await on_dynamodb.items() == []
    finally:
        proxy.rule = no_fault
        await db.store.close()


# --- killed writers --------------------------------------------------------------------------------------------

WRITER = """
import asyncio, sys
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.histories.orders import Order, Shop, order

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
    """After each kill every history has one current record, equal to its last entry, and what was acknowledged."""
    path = tmp_path / "orders.db"
    store = await open_sqlite(path)
    await store.ensure_table(CATALOG.table_definition())
    for number in range(depth(2, 30)):
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - ours, and read below
            [sys.executable, "-c", WRITER, str(path), f"child{number}"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(random.randrange(5, 40))]
        process.send_signal(signal.SIGKILL)
        told += process.communicate()[0].splitlines()
        items = (await store.scan(0, 1, None)).items
        versions = check_pairs([item for item in items if item["hashKey"].startswith("killed|")])
        for line in told:
            if len(line.split()) == 2 and int(line.split()[1]) % 3:
                order_id, last = line.split()
                assert f"v{int(last):04}" in versions[order_id]
    await store.close()


def test_the_pair_is_looked_at() -> None:
    """A missing, second or unlike current record is found by what these tests check with."""
    entry = {"hashKey": "order!", "orderId": "o", "version": "v1", "status": "new"}
    current = {**entry, "version": CURRENT, "_of": "v1"}
    assert check_pairs([entry, current]) == {"o": ["v1"]}
    broken = [[entry], [current], [entry, current, {**current, "hashKey": "order!01"}]]
    broken += [[entry, {**current, "status": "sent"}], [entry, {**entry, "version": "v2"}, current]]
    for items in broken:
        with pytest.raises((AssertionError, ValueError)):
            check_pairs(items)
