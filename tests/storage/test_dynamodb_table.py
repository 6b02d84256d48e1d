"""The table in DynamoDB: describing it, creating it, and concurrent changes by other processes."""

from dataclasses import replace
from typing import Any

import pytest

from graphql_api.errors import StoreRefused, StoreUnavailable, WrongTable
from graphql_api.storage.values import IndexDefinition, TableDefinition
from tests.storage.scripted_dynamodb import (
    DESCRIPTION,
    DROPPED,
    QUICK,
    Reply,
    ScriptedDynamoDB,
    error_reply,
)

WANTED = TableDefinition(
    (IndexDefinition("byNumber", "n", "number", "N"), IndexDefinition("byText", "t", "text")),
)
READY = Reply({"Table": DESCRIPTION})
NO_TABLE = error_reply("ResourceNotFoundException")
EXPIRING = Reply({"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}})
NOT_EXPIRING = Reply({"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}})
SHORT_PAUSES = replace(QUICK, table_pause=0.001)


pytestmark = pytest.mark.parametrize("server", ["direct"], indirect=True)
"""the client of aioboto3 sends operations on tables, whatever the transport is"""


async def ensure_table(server: ScriptedDynamoDB, definition: TableDefinition = WANTED, **changes: Any) -> None:
    """Open the store and create what the table lacks."""
    store = await server.open(SHORT_PAUSES, **changes)
    try:
        await store.ensure_table(definition)
    finally:
        await store.close()


def table_reply(**changes: Any) -> Reply:
    """A description of the table with changes."""
    return Reply({"Table": {**DESCRIPTION, **changes}})


async def test_table_operations_are_retried_until_their_deadline(server: ScriptedDynamoDB) -> None:
    """A table operation has more attempts than a read: the engine may still be starting."""
    server.set_replies("DescribeTable", *[DROPPED] * 5, *[error_reply("InternalServerError", 500)] * 5, READY)
    server.set_replies("DescribeTimeToLive", *[DROPPED] * 5, EXPIRING)
    store = await server.open(attempts=3)
    assert await store.describe() == WANTED
    server.set_replies("DescribeTable", *[DROPPED] * 5, NO_TABLE, READY)
    server.set_replies("CreateTable", *[DROPPED] * 5, Reply({"TableDescription": DESCRIPTION}))
    await store.ensure_table(WANTED)
    await store.close()
    assert server.counts["CreateTable"] == 6


async def test_a_slow_table_operation(server: ScriptedDynamoDB) -> None:
    """A table operation may take longer than the time that reads have."""
    server.set_replies("DescribeTable", Reply(READY.body, delay=1.5))
    server.set_replies("DescribeTimeToLive", NOT_EXPIRING)
    store = await server.open(read_seconds=0.1, connect_seconds=0.1)
    assert await store.describe() == WANTED
    await store.close()
    assert server.counts["DescribeTable"] == 1


async def test_table_operations_have_a_deadline(server: ScriptedDynamoDB) -> None:
    """A table operation that never succeeds fails at its deadline, with a retryable error."""
    server.set_replies("DescribeTable", DROPPED)
    store = await server.open(table_deadline=0.5)
    with pytest.raises(StoreUnavailable):
        await store.describe()
    await store.close()
    assert server.counts["DescribeTable"] > 3


async def test_describe(server: ScriptedDynamoDB) -> None:
    """`describe` returns the indexes sorted by name, and the TTL attribute."""
    server.set_replies("DescribeTimeToLive", EXPIRING)
    store = await server.open()
    found = await store.describe()
    await store.close()
    assert found == WANTED
    assert found is not None
    assert found.ttl_attribute == "expires"


async def test_describe_a_global_table(server: ScriptedDynamoDB) -> None:
    """`describe` returns about how many items the table has, and the regions of its replicas."""
    replicas = [{"RegionName": name, "ReplicaStatus": "ACTIVE"} for name in ("us-east-1", "eu-west-1")]
    server.set_replies("DescribeTimeToLive", NOT_EXPIRING)
    server.set_replies("DescribeTable", READY, table_reply(ItemCount=1_000, Replicas=replicas))
    store = await server.open()
    first, second = await store.describe(), await store.describe()
    await store.close()
    assert first == second == WANTED
    assert first is not None
    assert second is not None
    assert (first.item_count, first.replica_regions) == (None, ())
    assert (second.item_count, second.replica_regions) == (1_000, ("eu-west-1", "us-east-1"))


async def test_creation(server: ScriptedDynamoDB) -> None:
    """A missing table is created on demand with all its indexes. The call waits until the table is active."""
    server.set_replies("DescribeTable", NO_TABLE, table_reply(TableStatus="CREATING"), READY)
    server.set_replies("CreateTable", Reply({"TableDescription": DESCRIPTION}))
    await ensure_table(server)
    (request,) = server.requests("CreateTable")
    assert request["BillingMode"] == "PAY_PER_REQUEST"
    assert [index["IndexName"] for index in request["GlobalSecondaryIndexes"]] == ["byNumber", "byText"]
    assert {"AttributeName": "number", "AttributeType": "N"} in request["AttributeDefinitions"]
    assert server.counts["DescribeTable"] == 3


async def test_creation_while_the_engine_starts(server: ScriptedDynamoDB) -> None:
    """A table is created although the engine does not answer at first, for longer than a request is repeated."""
    failure = error_reply("InternalServerError", 500)
    server.set_replies("DescribeTable", *[failure] * 10, NO_TABLE, *[failure] * 10, READY)
    server.set_replies("CreateTable", *[failure] * 3, Reply({"TableDescription": DESCRIPTION}))
    await ensure_table(server)
    assert server.counts["CreateTable"] == 4
    assert server.counts["DescribeTable"] == 22


async def test_an_engine_that_does_not_start(server: ScriptedDynamoDB) -> None:
    """An engine that stays silent is an error after a bounded time."""
    server.set_replies("DescribeTable", error_reply("InternalServerError", 500))
    with pytest.raises(StoreUnavailable):
        await ensure_table(server, table_deadline=0.05)


async def test_concurrent_creation(server: ScriptedDynamoDB) -> None:
    """If another process creates the table at the same time, the call waits for it."""
    server.set_replies("DescribeTable", NO_TABLE, NO_TABLE, READY)
    server.set_replies("CreateTable", error_reply("ResourceInUseException"))
    await ensure_table(server)
    assert server.counts["CreateTable"] == 2


async def test_indexes_are_added_sequentially(server: ScriptedDynamoDB) -> None:
    """Missing indexes are added one after the other, each after the backfill of the previous one."""
    number, text = DESCRIPTION["GlobalSecondaryIndexes"][::-1]
    server.set_replies(
        "DescribeTable",
        table_reply(GlobalSecondaryIndexes=[]),
        table_reply(GlobalSecondaryIndexes=[{**number, "IndexStatus": "CREATING"}]),
        table_reply(GlobalSecondaryIndexes=[number]),
        READY,
    )
    server.set_replies("UpdateTable", Reply({"TableDescription": DESCRIPTION}))
    await ensure_table(server)
    added = [
        [update["Create"]["IndexName"] for update in request["GlobalSecondaryIndexUpdates"]]
        for request in server.requests("UpdateTable")
    ]
    assert added == [["byNumber"], ["byText"]]
    assert text


async def test_persistent_limits_are_an_error(server: ScriptedDynamoDB) -> None:
    """A change that exceeds a limit of the engine, while no other change is in progress, is not retried forever."""
    server.set_replies("DescribeTable", NO_TABLE)
    server.set_replies("CreateTable", error_reply("LimitExceededException"))
    with pytest.raises(StoreRefused, match="LimitExceededException"):
        await ensure_table(server)


async def test_timeout(server: ScriptedDynamoDB) -> None:
    """A table that does not become active in time is a retryable error."""
    server.set_replies("DescribeTable", table_reply(TableStatus="CREATING"))
    with pytest.raises(StoreUnavailable, match="still being created"):
        await ensure_table(server, table_seconds=0.2)


async def test_ttl_attribute(server: ScriptedDynamoDB) -> None:
    """The TTL attribute is set once. Another attribute that is already set is rejected."""
    server.set_replies("DescribeTimeToLive", NOT_EXPIRING, EXPIRING)
    server.set_replies("UpdateTimeToLive", Reply({"TimeToLiveSpecification": {}}))
    await ensure_table(server, replace(WANTED, ttl_attribute="expires"))
    await ensure_table(server, replace(WANTED, ttl_attribute="expires"))
    (request,) = server.requests("UpdateTimeToLive")
    assert request["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "expires"}
    with pytest.raises(WrongTable, match="expires"):
        await ensure_table(server, replace(WANTED, ttl_attribute="ends"))


async def test_concurrent_change_of_the_ttl_attribute(server: ScriptedDynamoDB) -> None:
    """If another process sets the same TTL attribute, the call succeeds. Other rejections are errors."""
    server.set_replies("DescribeTimeToLive", NOT_EXPIRING, EXPIRING)
    server.set_replies("UpdateTimeToLive", error_reply("ValidationException"))
    await ensure_table(server, replace(WANTED, ttl_attribute="expires"))
    server.set_replies("DescribeTimeToLive", NOT_EXPIRING)
    with pytest.raises(StoreRefused):
        await ensure_table(server, replace(WANTED, ttl_attribute="expires"))


@pytest.mark.parametrize(
    "changes",
    [
        {"KeySchema": [{"AttributeName": "hashKey", "KeyType": "HASH"}]},
        {"AttributeDefinitions": [{"AttributeName": name, "AttributeType": "N"} for name in ("hashKey", "rangeKey")]},
    ],
    ids=["no range key", "numeric keys"],
)
async def test_incompatible_tables(server: ScriptedDynamoDB, changes: dict[str, Any]) -> None:
    """A table with incompatible key attributes is rejected."""
    server.set_replies("DescribeTable", table_reply(**changes, GlobalSecondaryIndexes=[]))
    with pytest.raises(WrongTable):
        await ensure_table(server)


async def test_incompatible_indexes(server: ScriptedDynamoDB) -> None:
    """Indexes that cannot be read are ignored and not described."""
    own = {"KeySchema": [{"AttributeName": "t", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}
    foreign_indexes = [
        {"IndexName": "noRange", "IndexStatus": "ACTIVE", **own},
        {**DESCRIPTION["GlobalSecondaryIndexes"][0], "IndexName": "numericHash"},
    ]
    foreign_indexes[1]["KeySchema"] = [
        {"AttributeName": "number", "KeyType": "HASH"},
        {"AttributeName": "text", "KeyType": "RANGE"},
    ]
    server.set_replies("DescribeTimeToLive", NOT_EXPIRING)
    server.set_replies("DescribeTable", table_reply(GlobalSecondaryIndexes=foreign_indexes))
    store = await server.open()
    assert await store.describe() == TableDefinition()
    await store.close()
