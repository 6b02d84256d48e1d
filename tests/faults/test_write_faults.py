"""Writes and reads by key during faults: no false failures, no double effects, no lost records."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from graphql_api.errors import ConditionFailed, StoreError
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.values import Delete, Expect, Item, Key, Put
from tests.faults.conftest import ProxiedStores
from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import always, first_attempts
from tests.faults.fault_settings import HARMFUL_FAULTS, HARMLESS_FAULTS, SHORT_TIMEOUTS, settings_for

FAULTS = HARMFUL_FAULTS | HARMLESS_FAULTS
MAX_SECONDS = 5 * SHORT_TIMEOUTS.deadline
every_fault = pytest.mark.parametrize("name", [*FAULTS])


def _any_request(_: Request) -> bool:
    return True


def _new_items(amount: int) -> list[Item]:
    """New records at keys that no other test uses."""
    hash_key = f"written!{uuid4()}"
    return [
        {"hashKey": hash_key, "rangeKey": f"key#{number:03}", "word": "gamma", "_w": f"w{number} {uuid4().hex[:16]}"}
        for number in range(amount)
    ]


def _key(item: Item) -> Key:
    return Key(item["hashKey"], item["rangeKey"])


async def _stored(store: DynamoStore, items: Sequence[Item]) -> Sequence[Item | None]:
    return await store.get_many([_key(item) for item in items], consistent=True)


@every_fault
async def test_batches_are_written_despite_a_fault(proxied: ProxiedStores, name: str) -> None:
    """Each batch gets the fault once. Every record is written, and no write fails."""
    store = await proxied.open_store(settings_for(name, lasting=False))
    items = _new_items(60)
    proxied.proxy.rule = first_attempts(FAULTS[name], _any_request)
    assert await store.write([Put(item) for item in items]) == [None] * 60
    assert proxied.proxy.faulted
    proxied.proxy.rule = no_fault
    assert await _stored(store, items) == items
    proxied.proxy.rule = first_attempts(FAULTS[name], _any_request)
    assert await store.write([Delete(_key(item)) for item in items]) == [None] * 60
    proxied.proxy.rule = no_fault
    assert await _stored(store, items) == [None] * 60


@every_fault
async def test_reads_by_key_succeed_despite_a_fault(proxied: ProxiedStores, name: str) -> None:
    """Each batch gets the fault once. Every record is returned at its position, and only missing ones are None."""
    store = await proxied.open_store(settings_for(name, lasting=False))
    items = _new_items(120)
    await store.write([Put(item) for item in items[:110]])
    proxied.proxy.rule = first_attempts(FAULTS[name], _any_request)
    assert await _stored(store, items[::-1]) == [*[None] * 10, *items[:110][::-1]]
    assert proxied.proxy.faulted


@every_fault
async def test_creates_have_no_false_failures(proxied: ProxiedStores, name: str) -> None:
    """A create succeeds despite a lost reply or a duplicated request. Another create of the record still fails."""
    store = await proxied.open_store(settings_for(name, lasting=False))
    (item,) = _new_items(1)
    proxied.proxy.rule = first_attempts(FAULTS[name], _any_request)
    assert await store.write([Put(item, Expect(absent=True))]) == [None]
    assert proxied.proxy.faulted
    other = {**item, "_w": "of another client"}
    proxied.proxy.rule = first_attempts(FAULTS[name], _any_request)
    if name == "corrupted":
        proxied.proxy.rule = no_fault  # The errors of DynamoDB Local have no checksum.
    (error,) = await store.write([Put(other, Expect(absent=True))])
    assert isinstance(error, ConditionFailed)
    assert error.old == item
    proxied.proxy.rule = no_fault
    assert await _stored(store, [item]) == [item]


@every_fault
async def test_a_transaction_happens_once(proxied: ProxiedStores, name: str) -> None:
    """A transaction with a lost reply succeeds. Its own writes do not fail its conditions."""
    store = await proxied.open_store(settings_for(name, lasting=False))
    first, second = _new_items(2)
    writes = [Put(first, Expect(absent=True)), Put(second, Expect(absent=True))]
    proxied.proxy.rule = first_attempts(FAULTS[name], _any_request)
    await store.write_together(writes, token=first["_w"])
    assert proxied.proxy.faulted
    proxied.proxy.rule = no_fault
    assert await _stored(store, [first, second]) == [first, second]
    with pytest.raises(ConditionFailed) as failed:
        await store.write_together(writes[1:], token=f"again {second['_w']}")
    assert (failed.value.position, failed.value.old) == (0, second)


@pytest.mark.parametrize("name", [name for name in HARMFUL_FAULTS if name != "corrupted"])
async def test_lasting_faults_fail_every_call_in_time(proxied: ProxiedStores, name: str) -> None:
    """With lasting faults, every call ends in time with a retryable error, and no write counts as done."""
    settings = settings_for(name)
    store = await proxied.open_store(settings)
    items = _new_items(30)
    await store.write([Put(item) for item in items[:1]])
    proxied.proxy.rule = always(HARMFUL_FAULTS[name], _any_request)
    now = asyncio.get_running_loop().time
    started = now()
    errors, *other_results = await asyncio.gather(
        store.write([Put(item) for item in items]),
        store.write_together([Put(items[0])], "a transaction"),
        _stored(store, items),
        store.scan(0, 1, None),
        store.describe(),
        return_exceptions=True,
    )
    assert isinstance(errors, list)
    for error in (*errors, *other_results):
        assert isinstance(error, StoreError)
        assert error.retryable
    assert now() - started < MAX_SECONDS
