"""Writes and reads by key through faults: no lost reply is a false failure or a double effect, and nothing is lost."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from graphql_api.errors import ConditionFailed, StoreError
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.values import Delete, Expect, Item, Key, Put
from tests.faults.conftest import Behind
from tests.faults.proxy import no_fault
from tests.faults.requests import Request
from tests.faults.rules import always, first_try
from tests.faults.troubles import HARMFUL, HARMLESS, HASTY, settings_for

TROUBLES = HARMFUL | HARMLESS
MAX_SECONDS = 5 * HASTY.deadline
every_trouble = pytest.mark.parametrize("name", [*TROUBLES])


def _everything(_: Request) -> bool:
    return True


def _items(amount: int) -> list[Item]:
    """New records at keys that no other test has."""
    home = f"written!{uuid4()}"
    return [
        {"hashKey": home, "rangeKey": f"key#{number:03}", "word": "gamma", "_w": f"w{number} {uuid4().hex[:16]}"}
        for number in range(amount)
    ]


def _key(item: Item) -> Key:
    return Key(item["hashKey"], item["rangeKey"])


async def _stored(store: DynamoStore, items: Sequence[Item]) -> Sequence[Item | None]:
    return await store.get_many([_key(item) for item in items], consistent=True)


@every_trouble
async def test_a_batch_of_writes_survives_a_fault(behind: Behind, name: str) -> None:
    """Each batch meets the fault once; every record is written, and none is reported as failed."""
    store = await behind.store(settings_for(name, lasting=False))
    items = _items(60)
    behind.proxy.rule = first_try(TROUBLES[name], _everything)
    assert await store.write([Put(item) for item in items]) == [None] * 60
    assert behind.proxy.spoiled
    behind.proxy.rule = no_fault
    assert await _stored(store, items) == items
    behind.proxy.rule = first_try(TROUBLES[name], _everything)
    assert await store.write([Delete(_key(item)) for item in items]) == [None] * 60
    behind.proxy.rule = no_fault
    assert await _stored(store, items) == [None] * 60


@every_trouble
async def test_reads_by_key_survive_a_fault(behind: Behind, name: str) -> None:
    """Each batch meets the fault once; every record comes at its place, and only what is not there is None."""
    store = await behind.store(settings_for(name, lasting=False))
    items = _items(120)
    await store.write([Put(item) for item in items[:110]])
    behind.proxy.rule = first_try(TROUBLES[name], _everything)
    assert await _stored(store, items[::-1]) == [*[None] * 10, *items[:110][::-1]]
    assert behind.proxy.spoiled


@every_trouble
async def test_a_create_is_never_a_false_failure(behind: Behind, name: str) -> None:
    """A create whose answer was lost or whose request was doubled succeeds; another one at its key still does not."""
    store = await behind.store(settings_for(name, lasting=False))
    (item,) = _items(1)
    behind.proxy.rule = first_try(TROUBLES[name], _everything)
    assert await store.write([Put(item, Expect(absent=True))]) == [None]
    assert behind.proxy.spoiled
    other = {**item, "_w": "of somebody else"}
    behind.proxy.rule = first_try(TROUBLES[name], _everything)
    if name == "corrupted":
        behind.proxy.rule = no_fault  # DynamoDB Local gives its errors no checksum.
    (problem,) = await store.write([Put(other, Expect(absent=True))])
    assert isinstance(problem, ConditionFailed)
    assert problem.old == item
    behind.proxy.rule = no_fault
    assert await _stored(store, [item]) == [item]


@every_trouble
async def test_a_transaction_happens_once(behind: Behind, name: str) -> None:
    """A transaction whose answer was lost succeeds all the same; its conditions are not held against itself."""
    store = await behind.store(settings_for(name, lasting=False))
    first, second = _items(2)
    writes = [Put(first, Expect(absent=True)), Put(second, Expect(absent=True))]
    behind.proxy.rule = first_try(TROUBLES[name], _everything)
    await store.write_together(writes, token=first["_w"])
    assert behind.proxy.spoiled
    behind.proxy.rule = no_fault
    assert await _stored(store, [first, second]) == [first, second]
    with pytest.raises(ConditionFailed) as failed:
        await store.write_together(writes[1:], token=f"again {second['_w']}")
    assert (failed.value.position, failed.value.old) == (0, second)


@pytest.mark.parametrize("name", [name for name in HARMFUL if name != "corrupted"])
async def test_lasting_faults_are_errors_of_each_write_in_time(behind: Behind, name: str) -> None:
    """No write passes for done that nobody confirmed, and no call hangs or raises anything but a typed error."""
    settings = settings_for(name)
    store = await behind.store(settings)
    items = _items(30)
    await store.write([Put(item) for item in items[:1]])
    behind.proxy.rule = always(HARMFUL[name], _everything)
    now = asyncio.get_running_loop().time
    began = now()
    problems, *others = await asyncio.gather(
        store.write([Put(item) for item in items]),
        store.write_together([Put(items[0])], "a transaction"),
        _stored(store, items),
        store.scan(0, 1, None),
        store.describe(),
        return_exceptions=True,
    )
    assert isinstance(problems, list)
    for problem in (*problems, *others):
        assert isinstance(problem, StoreError)
        assert problem.retryable
    assert now() - began < MAX_SECONDS
