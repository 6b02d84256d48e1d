"""Writes whose replies are lost while other clients write: no false failures, no double effects, no false successes."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from uuid import uuid4

import pytest

from graphql_api.errors import ConditionFailed, StoreRefused, StoreUnavailable
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.values import Check, Delete, Expect, Item, Key, Put, TransactionWrite, Write
from tests.faults.conftest import TABLE, ProxiedStores
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import always, first_attempts, first_request, is_write, random_faults
from tests.faults.fault_settings import LONG_TIMEOUTS
from tests.faults.fault_types import AppliedThenReset, Fault, Reset, ResetAfterEvent, TransactionConflict
from tests.support.run_depth import depth

Event = Callable[[], Awaitable[object]]

WORKERS = 8
COUNTERS = 4


@pytest.fixture
async def store(proxied: ProxiedStores) -> DynamoStore:
    """A store that uses the fault proxy."""
    return await proxied.open_store(LONG_TIMEOUTS)


@pytest.fixture
async def other_store(proxied: ProxiedStores) -> DynamoStore:
    """The store of another client, without faults."""
    store = await proxied.server.open(TABLE, LONG_TIMEOUTS)
    proxied.stores.append(store)
    return store


@pytest.fixture
def key() -> Key:
    """A key that no other test uses."""
    return Key(f"lost!{uuid4()}", "key#1")


def record(key: Key, **attributes: object) -> Item:
    """A record without a write id, so that its writer cannot be identified."""
    return {"hashKey": key.hash, "rangeKey": key.range, **attributes}


async def stored_item(store: DynamoStore, key: Key) -> Item | None:
    """Return the stored record of a key."""
    (found,) = await store.get_many([key], consistent=True)
    return found


def put_by_other(other_store: DynamoStore, item: Item) -> Event:
    """An event in which another client writes a record."""
    return lambda: other_store.write([Put(item)])


def delete_by_other(other_store: DynamoStore, key: Key) -> Event:
    """An event in which another client deletes a record."""
    return lambda: other_store.write([Delete(key)])


# --- one write -------------------------------------------------------------------------------------------------


async def test_an_applied_delete_succeeds(
    proxied: ProxiedStores, store: DynamoStore, other_store: DynamoStore, key: Key
) -> None:
    """A delete with a lost reply succeeds if it was applied. A record that another client created since then stays."""
    for event in (delete_by_other(other_store, key), put_by_other(other_store, record(key, by="other"))):
        await other_store.write([Put(record(key, by="me"))])
        proxied.proxy.rule = first_request(ResetAfterEvent(event, applied=True), is_write)
        assert await store.write([Delete(key, Expect(attributes={"by": "me"}))]) == [None]
    assert len(proxied.proxy.faulted) == 2
    assert await stored_item(other_store, key) == record(key, by="other")


async def test_a_delete_by_another_client_is_no_success(
    proxied: ProxiedStores, store: DynamoStore, other_store: DynamoStore, key: Key
) -> None:
    """A delete that never reached the server fails if another client deleted the record since then."""
    await other_store.write([Put(record(key, by="me"))])
    proxied.proxy.rule = first_request(ResetAfterEvent(delete_by_other(other_store, key), applied=False), is_write)
    (error,) = await store.write([Delete(key, Expect(attributes={"by": "me"}))])
    assert proxied.proxy.faulted
    assert isinstance(error, ConditionFailed)
    assert error.old is None


async def test_a_put_without_a_write_id(
    proxied: ProxiedStores, store: DynamoStore, other_store: DynamoStore, key: Key
) -> None:
    """A put with a lost reply succeeds exactly if it was applied, whatever other clients write afterwards."""
    other_record = record(key, by="other")
    write: Write = Put(record(key, by="me"), Expect(absent=True))
    proxied.proxy.rule = first_request(ResetAfterEvent(put_by_other(other_store, other_record), applied=True), is_write)
    assert await store.write([write]) == [None]
    assert await stored_item(other_store, key) == other_record
    await other_store.write([Delete(key)])
    proxied.proxy.rule = first_request(
        ResetAfterEvent(put_by_other(other_store, other_record), applied=False), is_write
    )
    (error,) = await store.write([write])
    assert isinstance(error, ConditionFailed)
    assert error.old == other_record


# --- transactions ----------------------------------------------------------------------------------------------


def transaction(key: Key) -> list[TransactionWrite]:
    """A put, a delete and a check on three keys of one hash key. Holds if only the second record exists."""
    return [
        Put(record(key, by="me"), Expect(absent=True)),
        Delete(Key(key.hash, "key#2"), Expect(without=("by",))),
        Check(Key(key.hash, "key#3"), Expect(absent=True)),
    ]


async def test_an_applied_transaction_succeeds(
    proxied: ProxiedStores, store: DynamoStore, other_store: DynamoStore, key: Key
) -> None:
    """A transaction with a lost reply succeeds if it was applied, and keeps all later writes of other clients."""
    other_record = record(key, by="other")
    second, third = record(Key(key.hash, "key#2")), record(Key(key.hash, "key#3"))

    async def event() -> None:
        await other_store.write([Put(other_record), Put(record(Key(key.hash, "key#2"), by="other")), Put(third)])

    await other_store.write([Put(second)])
    proxied.proxy.rule = first_request(ResetAfterEvent(event, applied=True), is_write)
    await store.write_together(transaction(key), key.hash[-36:])
    assert proxied.proxy.faulted
    assert await stored_item(other_store, key) == other_record
    assert await stored_item(other_store, Key(key.hash, "key#2")) == record(Key(key.hash, "key#2"), by="other")


async def test_an_unapplied_transaction_fails(
    proxied: ProxiedStores, store: DynamoStore, other_store: DynamoStore, key: Key
) -> None:
    """A transaction that never reached the server fails by later writes of other clients, and reports all of them."""
    other_record, third = record(key, by="other"), record(Key(key.hash, "key#3"))
    await other_store.write([Put(record(Key(key.hash, "key#2")))])

    async def event() -> None:
        await other_store.write([Put(other_record), Put(third)])

    proxied.proxy.rule = first_request(ResetAfterEvent(event, applied=False), is_write)
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together(transaction(key), key.hash[-36:])
    assert caught.value.failures == {0: other_record, 2: third}


@pytest.mark.parametrize("fault", [AppliedThenReset(), Reset()], ids=["carried out", "not carried out"])
async def test_repeating_a_transaction_with_its_token(
    proxied: ProxiedStores, store: DynamoStore, key: Key, fault: Fault
) -> None:
    """After an unknown outcome, the same token succeeds from another store, and another token fails."""
    second = record(Key(key.hash, "key#2"))
    await store.write([Put(second)])
    token = key.hash[-36:]
    proxied.proxy.rule = always(fault, is_write)
    with pytest.raises(StoreUnavailable):
        await store.write_together(transaction(key), token)
    proxied.proxy.rule = no_fault
    reopened = await proxied.open_store(LONG_TIMEOUTS)
    await reopened.write_together(transaction(key), token)
    await reopened.write_together(transaction(key), token)
    assert await stored_item(reopened, key) == record(key, by="me")
    with pytest.raises(StoreRefused):
        await reopened.write_together(transaction(key)[:2], token)
    with pytest.raises(ConditionFailed):
        await reopened.write_together(transaction(key), f"another {token}"[:36])


async def test_conflicts_are_retried(proxied: ProxiedStores, store: DynamoStore, key: Key) -> None:
    """Writes that conflict with other transactions five times each happen once and without errors."""
    proxied.proxy.rule = first_attempts(TransactionConflict(), is_write, faulty_attempts=5)
    keys = [Key(key.hash, f"key#{number}") for number in range(20)]
    await asyncio.gather(
        *(store.write_together([Put(record(one), Expect(absent=True))], str(uuid4())) for one in keys[:10])
    )
    assert await store.write([Put(record(one, _w="w"), Expect(absent=True)) for one in keys[10:]]) == [None] * 10
    assert len(proxied.proxy.faulted) == 100
    assert list(await store.get_many(keys, True)) == [
        *(record(one) for one in keys[:10]),
        *(record(one, _w="w") for one in keys[10:]),
    ]


async def test_counters_with_lost_replies(proxied: ProxiedStores, store: DynamoStore, key: Key, random: Random) -> None:
    """With half of the replies lost and some conflicts, each acknowledged step of a counter happens exactly once."""
    counters = [Key(key.hash, f"counter#{number}") for number in range(COUNTERS)]
    await store.write([Put(record(one, n=0)) for one in counters])
    proxied.proxy.rule = random_faults(0.6, random, *[AppliedThenReset()] * 5, TransactionConflict(), matches=is_write)
    steps = depth(10, 625)

    async def work(worker: int) -> None:
        own_random = Random(f"{random.random()} {worker}")
        for step in range(steps):
            own_record = record(Key(key.hash, f"step#{worker}#{step:03}"))
            await count_step(own_random, own_record)
            with pytest.raises(ConditionFailed) as caught:
                await write_until_acknowledged([Put(own_record, Expect(absent=True))], str(uuid4()))
            assert caught.value.old == own_record

    async def count_step(own_random: Random, own_record: Item) -> None:
        """Execute one step. Start over if another worker was first."""
        while True:
            counter = own_random.choice(counters)
            found = await stored_item(store, counter)
            assert found is not None
            next_counter = Put(record(counter, n=found["n"] + 1), Expect(attributes={"n": found["n"]}))
            try:
                await write_until_acknowledged([next_counter, Put(own_record, Expect(absent=True))], str(uuid4()))
            except ConditionFailed as error:
                assert [*error.failures] == [0], "its own record failed"  # noqa: PT017 - distinguishes two conditions
                await asyncio.sleep(own_random.uniform(0, 0.02))
            else:
                return

    async def write_until_acknowledged(writes: list[TransactionWrite], token: str) -> None:
        """Repeat a transaction with the same token until it has a reply."""
        while True:
            try:
                await store.write_together(writes, token)
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return

    await asyncio.gather(*(work(worker) for worker in range(WORKERS)))
    proxied.proxy.rule = no_fault
    found = await store.get_many(counters, True)
    assert sum(item["n"] for item in found if item is not None) == WORKERS * steps
