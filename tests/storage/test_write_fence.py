"""The write fence: both engines check it whenever they send or apply a write."""

from asyncio import gather
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from graphql_api.errors import SchemaChanged, StoreError, StoreUnavailable
from graphql_api.storage import Check, Delete, Expect, Item, Key, Put, Store, TableDefinition, WriteFence, fenced
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from tests.storage.scripted_dynamodb import (
    DROPPED,
    Reply,
    ScriptedDynamoDB,
    error_reply,
)

EPOCH = Key("epoch!", "1")
DONE = Reply({"ConsumedCapacity": {"TableName": "script", "CapacityUnits": 1.0}})
TRANSACTION_DONE = Reply({"ConsumedCapacity": [{"TableName": "script", "CapacityUnits": 4.0}]})
BATCH_DONE = Reply({"UnprocessedItems": {}})
THROTTLED = error_reply("ProvisionedThroughputExceededException")


def item(name: str, **attributes: Any) -> Item:
    """An item with this range key."""
    return {"hashKey": "h!", "rangeKey": name, **attributes}


def at_epoch(epoch: int) -> Check:
    """The condition that the table has this epoch."""
    return Check(EPOCH, Expect(attributes={"epoch": epoch}))


@dataclass
class CountingFence:
    """A fence that allows a number of requests, and then raises an error."""

    allowed: int = 1_000
    error: StoreError = field(default_factory=lambda: SchemaChanged("changed"))
    checks: int = 0

    def verify(self) -> None:
        """Count the check."""
        self.checks += 1
        if self.checks > self.allowed:
            raise self.error

    @property
    def fence(self) -> WriteFence:
        """The fence for the engine."""
        return WriteFence(at_epoch(1), self.verify)


# --- SQLite ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A table whose epoch is 1."""
    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(TableDefinition())
    await set_epoch(store, 1)
    yield store
    await store.close()


async def set_epoch(store: Store, epoch: int) -> None:
    """Change the epoch of the table."""
    assert await store.write([Put({"hashKey": EPOCH.hash, "rangeKey": EPOCH.range, "epoch": epoch})]) == [None]


async def stored_names(store: Store, *names: str) -> list[str]:
    """Return the names of the items that are stored."""
    found = await store.get_many([Key("h!", name) for name in names], consistent=True)
    return [name for name, each in zip(names, found, strict=True) if each is not None]


def never() -> None:
    """Fail: SQLite evaluates the condition instead."""
    raise AssertionError


async def test_sqlite_writes_of_the_same_epoch(store: SqliteStore) -> None:
    """Writes and transactions of the table's epoch are applied."""
    with fenced(WriteFence(at_epoch(1), never)):
        assert await store.write([Put(item("a")), Delete(Key("h!", "b"))]) == [None, None]
        await store.write_together([Put(item("c"), Expect(absent=True))], "t")
    assert await stored_names(store, "a", "c") == ["a", "c"]


async def test_sqlite_writes_of_an_earlier_epoch(store: SqliteStore) -> None:
    """No write and no transaction of an earlier epoch is applied. Invalid writes keep their own errors."""
    await set_epoch(store, 2)
    with fenced(WriteFence(at_epoch(1), never)):
        results = await store.write([Put(item("a")), Put({"hashKey": "", "rangeKey": "x"}), Put(item("b"))])
        assert [error.code for error in results if error] == ["SCHEMA_CHANGED", "STORE_REFUSED", "SCHEMA_CHANGED"]
        with pytest.raises(SchemaChanged, match="nothing was written") as problem:
            await store.write_together([Put(item("c"))], "t")
    assert (problem.value.retryable, problem.value.status) == (False, 503)
    assert await stored_names(store, "a", "b", "c") == []


async def test_sqlite_fences_belong_to_their_callers(store: SqliteStore) -> None:
    """Of jobs that one commit applies, only those with a fence that does not hold fail."""

    async def put(name: str, epoch: int | None) -> StoreError | None:
        if epoch is None:
            return (await store.write([Put(item(name))]))[0]
        with fenced(WriteFence(at_epoch(epoch), never)):
            return (await store.write([Put(item(name))]))[0]

    first, second, third = await gather(put("a", 2), put("b", 1), put("c", None))
    assert isinstance(first, SchemaChanged)
    assert (second, third) == (None, None)
    assert await stored_names(store, "a", "b", "c") == ["b", "c"]


async def test_sqlite_repeats_of_applied_transactions(store: SqliteStore) -> None:
    """A transaction that was applied is reported as such when it is repeated after a change of the epoch."""
    with fenced(WriteFence(at_epoch(1), never)):
        await store.write_together([Put(item("a"))], "t")
        await set_epoch_elsewhere(store, 2)
        await store.write_together([Put(item("a"))], "t")
    assert await stored_names(store, "a") == ["a"]


async def set_epoch_elsewhere(store: SqliteStore, epoch: int) -> None:
    """Change the epoch as another process does."""
    other = await open_sqlite(store._path)
    await set_epoch(other, epoch)
    await other.close()


async def test_sqlite_compares_conditions(store: SqliteStore) -> None:
    """`holds` is false from the first read on that sees a change by this or another process, or if told to look."""
    check = at_epoch(1)
    assert store.holds(check)
    assert not store.holds(at_epoch(2))
    await store.get_many([Key("h!", "a")], consistent=True)
    await set_epoch_elsewhere(store, 2)
    assert store.holds(check), "the read before has seen the earlier epoch"
    store.forget_snapshot()
    assert not store.holds(check)
    await store.get_many([Key("h!", "a")], consistent=True)
    assert not store.holds(check)
    assert store.holds(at_epoch(2))
    await set_epoch(store, 1)
    await store.scan(0, 1, None)
    assert store.holds(check)


# --- DynamoDB --------------------------------------------------------------------------------------------------


async def test_dynamodb_checks_each_attempt(server: ScriptedDynamoDB) -> None:
    """The fence is checked before each attempt of a put, a delete and a transaction, and before no read."""
    counting = CountingFence()
    server.set_replies("PutItem", THROTTLED, THROTTLED, DONE)
    server.set_replies("DeleteItem", DONE)
    server.set_replies("TransactWriteItems", THROTTLED, TRANSACTION_DONE)
    server.set_replies("BatchGetItem", Reply({"Responses": {"script": []}, "UnprocessedKeys": {}}))
    store = await server.open()
    with fenced(counting.fence):
        await store.get_many([Key("h!", "a")], consistent=True)
        assert counting.checks == 0
        assert await store.write([Put(item("a"))]) == [None]
        assert counting.checks == 3
        assert await store.write([Delete(Key("h!", "a"))]) == [None]
        assert counting.checks == 4
        await store.write_together([Put(item("a"))], "t")
        assert counting.checks == 6
    await store.close()


async def test_dynamodb_checks_each_part_of_a_batch(server: ScriptedDynamoDB) -> None:
    """Each request of a large batch is checked. Those after the change fail, and their writes alone."""
    counting = CountingFence(allowed=2)
    server.set_replies("BatchWriteItem", BATCH_DONE)
    store = await server.open()
    with fenced(counting.fence):
        results = await store.write([Put(item(f"{number}")) for number in range(100)])
    await store.close()
    assert counting.checks == 4
    assert server.counts["BatchWriteItem"] == 2
    assert sum(isinstance(result, SchemaChanged) for result in results) == 50
    assert results.count(None) == 50


async def test_dynamodb_stops_later_attempts(server: ScriptedDynamoDB) -> None:
    """An attempt after the change is not sent. If nothing was applied before, the error says so."""
    server.set_replies("TransactWriteItems", THROTTLED, TRANSACTION_DONE)
    store = await server.open()
    with fenced(CountingFence(allowed=1).fence), pytest.raises(SchemaChanged):
        await store.write_together([Put(item("a"))], "t")
    assert server.counts["TransactWriteItems"] == 1
    too_old = StoreUnavailable("the lease has ended")
    with fenced(CountingFence(allowed=0, error=too_old).fence), pytest.raises(StoreUnavailable) as problem:
        await store.write_together([Put(item("a"))], "t")
    assert problem.value.certain
    assert server.counts["TransactWriteItems"] == 1
    await store.close()


async def test_dynamodb_lost_replies_before_a_change(server: ScriptedDynamoDB) -> None:
    """If an attempt before the change got no reply, the outcome is unknown, and the error says that."""
    server.set_replies("TransactWriteItems", DROPPED, TRANSACTION_DONE)
    store = await server.open()
    with fenced(CountingFence(allowed=1).fence), pytest.raises(StoreUnavailable, match="record has changed") as problem:
        await store.write_together([Put(item("a"))], "t")
    assert not problem.value.certain
    await store.close()
