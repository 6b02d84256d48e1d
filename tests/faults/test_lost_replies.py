"""Writes whose answers are lost, while others write too: no false failure, no double effect, no merit of another's."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from uuid import uuid4

import pytest

from graphql_api.errors import ConditionFailed, StoreRefused, StoreUnavailable
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.values import Check, Delete, Expect, Item, Key, Put, TransactionWrite, Write
from tests.depth import depth
from tests.faults.conftest import TABLE, Behind
from tests.faults.faults import AppliedThenReset, Fault, Meanwhile, MeetsOthers, Reset
from tests.faults.proxy import no_fault
from tests.faults.rules import always, first_try, is_write, now_and_then, only_first
from tests.faults.troubles import CALM

Event = Callable[[], Awaitable[object]]

WORKERS = 8
COUNTERS = 4


@pytest.fixture
async def store(behind: Behind) -> DynamoStore:
    """A store behind the proxy."""
    return await behind.store(CALM)


@pytest.fixture
async def other(behind: Behind) -> DynamoStore:
    """Somebody else's store, which no fault reaches."""
    store = await behind.server.open(TABLE, CALM)
    behind.stores.append(store)
    return store


@pytest.fixture
def key() -> Key:
    """A key that no other test has."""
    return Key(f"lost!{uuid4()}", "key#1")


def record(key: Key, **attributes: object) -> Item:
    """A record without a write id, so that nothing in it tells whose it is."""
    return {"hashKey": key.hash, "rangeKey": key.range, **attributes}


async def standing(store: DynamoStore, key: Key) -> Item | None:
    """What stands at a key."""
    (found,) = await store.get_many([key], consistent=True)
    return found


def puts(other: DynamoStore, item: Item) -> Event:
    """Somebody else writes a record."""
    return lambda: other.write([Put(item)])


def deletes(other: DynamoStore, key: Key) -> Event:
    """Somebody else removes a record."""
    return lambda: other.write([Delete(key)])


# --- one write -------------------------------------------------------------------------------------------------


async def test_a_deletion_that_was_carried_out(
    behind: Behind, store: DynamoStore, other: DynamoStore, key: Key
) -> None:
    """A deletion whose answer was lost has succeeded, also where somebody has put a record there since, which stays."""
    for event in (deletes(other, key), puts(other, record(key, by="somebody else"))):
        await other.write([Put(record(key, by="me"))])
        behind.proxy.rule = only_first(Meanwhile(event, applied=True), is_write)
        assert await store.write([Delete(key, Expect(attributes={"by": "me"}))]) == [None]
    assert len(behind.proxy.spoiled) == 2
    assert await standing(other, key) == record(key, by="somebody else")


async def test_a_deletion_by_somebody_else(behind: Behind, store: DynamoStore, other: DynamoStore, key: Key) -> None:
    """A deletion that never arrived is no success because somebody else has deleted the record since."""
    await other.write([Put(record(key, by="me"))])
    behind.proxy.rule = only_first(Meanwhile(deletes(other, key), applied=False), is_write)
    (problem,) = await store.write([Delete(key, Expect(attributes={"by": "me"}))])
    assert behind.proxy.spoiled
    assert isinstance(problem, ConditionFailed)
    assert problem.old is None


async def test_a_put_without_a_write_id(behind: Behind, store: DynamoStore, other: DynamoStore, key: Key) -> None:
    """A put that was carried out has succeeded, whatever became of its record; one that was not has failed."""
    theirs = record(key, by="somebody else")
    write: Write = Put(record(key, by="me"), Expect(absent=True))
    behind.proxy.rule = only_first(Meanwhile(puts(other, theirs), applied=True), is_write)
    assert await store.write([write]) == [None]
    assert await standing(other, key) == theirs
    await other.write([Delete(key)])
    behind.proxy.rule = only_first(Meanwhile(puts(other, theirs), applied=False), is_write)
    (problem,) = await store.write([write])
    assert isinstance(problem, ConditionFailed)
    assert problem.old == theirs


# --- transactions ----------------------------------------------------------------------------------------------


def transaction(key: Key) -> list[TransactionWrite]:
    """One of every kind, on three keys of one hash key; holds where only the second one stands."""
    return [
        Put(record(key, by="me"), Expect(absent=True)),
        Delete(Key(key.hash, "key#2"), Expect(without=("by",))),
        Check(Key(key.hash, "key#3"), Expect(absent=True)),
    ]


async def test_a_transaction_that_was_carried_out(
    behind: Behind, store: DynamoStore, other: DynamoStore, key: Key
) -> None:
    """Nothing that others do before it is sent again makes it fail, and it takes back nothing of theirs."""
    theirs = record(key, by="somebody else")
    second, third = record(Key(key.hash, "key#2")), record(Key(key.hash, "key#3"))

    async def event() -> None:
        await other.write([Put(theirs), Put(record(Key(key.hash, "key#2"), by="somebody else")), Put(third)])

    await other.write([Put(second)])
    behind.proxy.rule = only_first(Meanwhile(event, applied=True), is_write)
    await store.write_together(transaction(key), key.hash[-36:])
    assert behind.proxy.spoiled
    assert await standing(other, key) == theirs
    assert await standing(other, Key(key.hash, "key#2")) == record(Key(key.hash, "key#2"), by="somebody else")


async def test_a_transaction_that_was_not(behind: Behind, store: DynamoStore, other: DynamoStore, key: Key) -> None:
    """A transaction that never arrived fails by what others have done since, and tells all of it."""
    theirs, third = record(key, by="somebody else"), record(Key(key.hash, "key#3"))
    await other.write([Put(record(Key(key.hash, "key#2")))])

    async def event() -> None:
        await other.write([Put(theirs), Put(third)])

    behind.proxy.rule = only_first(Meanwhile(event, applied=False), is_write)
    with pytest.raises(ConditionFailed) as caught:
        await store.write_together(transaction(key), key.hash[-36:])
    assert caught.value.failures == {0: theirs, 2: third}


@pytest.mark.parametrize("fault", [AppliedThenReset(), Reset()], ids=["carried out", "not carried out"])
async def test_a_caller_that_asks_again(behind: Behind, store: DynamoStore, key: Key, fault: Fault) -> None:
    """Whoever got no answer at all finds out by the same token, later and from another process; never by another."""
    second = record(Key(key.hash, "key#2"))
    await store.write([Put(second)])
    token = key.hash[-36:]
    behind.proxy.rule = always(fault, is_write)
    with pytest.raises(StoreUnavailable):
        await store.write_together(transaction(key), token)
    behind.proxy.rule = no_fault
    again = await behind.store(CALM)
    await again.write_together(transaction(key), token)
    await again.write_together(transaction(key), token)
    assert await standing(again, key) == record(key, by="me")
    with pytest.raises(StoreRefused):
        await again.write_together(transaction(key)[:2], token)
    with pytest.raises(ConditionFailed):
        await again.write_together(transaction(key), f"another {token}"[:36])


async def test_conflicts_take_only_time(behind: Behind, store: DynamoStore, key: Key) -> None:
    """Writes that meet other transactions five times each happen once, and nobody hears of it."""
    behind.proxy.rule = first_try(MeetsOthers(), is_write, tries_spoiled=5)
    keys = [Key(key.hash, f"key#{number}") for number in range(20)]
    await asyncio.gather(
        *(store.write_together([Put(record(one), Expect(absent=True))], str(uuid4())) for one in keys[:10])
    )
    assert await store.write([Put(record(one, _w="w"), Expect(absent=True)) for one in keys[10:]]) == [None] * 10
    assert len(behind.proxy.spoiled) == 100
    assert list(await store.get_many(keys, True)) == [
        *(record(one) for one in keys[:10]),
        *(record(one, _w="w") for one in keys[10:]),
    ]


async def test_half_of_the_answers_lost(behind: Behind, store: DynamoStore, key: Key, random: Random) -> None:
    """Steps of counters by several at once, each with a record of its own: all that were told of happened once.

    Every second answer is lost after the write was applied, and some writes meet others.
    """
    counters = [Key(key.hash, f"counter#{number}") for number in range(COUNTERS)]
    await store.write([Put(record(one, n=0)) for one in counters])
    behind.proxy.rule = now_and_then(0.6, random, *[AppliedThenReset()] * 5, MeetsOthers(), which=is_write)
    steps = depth(10, 625)

    async def work(worker: int) -> None:
        own = Random(f"{random.random()} {worker}")
        for step in range(steps):
            mine = record(Key(key.hash, f"step#{worker}#{step:03}"))
            await count(own, mine)
            with pytest.raises(ConditionFailed) as caught:
                await insisting([Put(mine, Expect(absent=True))], str(uuid4()))
            assert caught.value.old == mine

    async def count(own: Random, mine: Item) -> None:
        """One step, which begins anew where another worker was first."""
        while True:
            counter = own.choice(counters)
            found = await standing(store, counter)
            assert found is not None
            following = Put(record(counter, n=found["n"] + 1), Expect(attributes={"n": found["n"]}))
            try:
                await insisting([following, Put(mine, Expect(absent=True))], str(uuid4()))
            except ConditionFailed as problem:
                assert [*problem.failures] == [0], "its own record was held against it"  # noqa: PT017 - told apart here
                await asyncio.sleep(own.uniform(0, 0.02))
            else:
                return

    async def insisting(writes: list[TransactionWrite], token: str) -> None:
        """Asks again under the same token while there is no answer."""
        while True:
            try:
                await store.write_together(writes, token)
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return

    await asyncio.gather(*(work(worker) for worker in range(WORKERS)))
    behind.proxy.rule = no_fault
    found = await store.get_many(counters, True)
    assert sum(item["n"] for item in found if item is not None) == WORKERS * steps
