"""The table in DynamoDB: what is told of it, what is made, and who else may be making it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from graphql_api.errors import StoreRefused, StoreUnavailable, WrongTable
from graphql_api.storage.values import IndexDefinition, TableDefinition
from tests.unit.dynamo_script import DESCRIPTION, QUICK, Reply, Script, error, playing

WANTED = TableDefinition(
    (IndexDefinition("byNumber", "n", "number", "N"), IndexDefinition("byText", "t", "text")),
)
READY = Reply({"Table": DESCRIPTION})
NONE = error("ResourceNotFoundException")
EXPIRING = Reply({"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}})
STAYING = Reply({"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}})
BRIEF = replace(QUICK, table_pause=0.001)


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A server that answers as it is told."""
    async with playing() as played:
        yield played


async def ensured(script: Script, definition: TableDefinition = WANTED, **changes: Any) -> None:
    """Makes what is missing."""
    store = await script.open(BRIEF, **changes)
    try:
        await store.ensure_table(definition)
    finally:
        await store.close()


def table(**changes: Any) -> Reply:
    """A description of the table with changes."""
    return Reply({"Table": {**DESCRIPTION, **changes}})


async def test_describe(script: Script) -> None:
    """The table is told with its indexes by name, and the attribute by which records expire."""
    script.tell("DescribeTimeToLive", EXPIRING)
    store = await script.open()
    found = await store.describe()
    await store.close()
    assert found == WANTED
    assert found is not None
    assert found.ttl_attribute == "expires"


async def test_creation(script: Script) -> None:
    """A missing table is made on demand with all its indexes, and waited for."""
    script.tell("DescribeTable", NONE, table(TableStatus="CREATING"), READY)
    script.tell("CreateTable", Reply({"TableDescription": DESCRIPTION}))
    await ensured(script)
    (request,) = script.requests("CreateTable")
    assert request["BillingMode"] == "PAY_PER_REQUEST"
    assert [index["IndexName"] for index in request["GlobalSecondaryIndexes"]] == ["byNumber", "byText"]
    assert {"AttributeName": "number", "AttributeType": "N"} in request["AttributeDefinitions"]
    assert script.counts["DescribeTable"] == 3


async def test_another_maker(script: Script) -> None:
    """A table that another process makes at the same time is waited for."""
    script.tell("DescribeTable", NONE, NONE, READY)
    script.tell("CreateTable", error("ResourceInUseException"))
    await ensured(script)
    assert script.counts["CreateTable"] == 2


async def test_indexes_one_by_one(script: Script) -> None:
    """Missing indexes are added one after the other, each when the one before is full."""
    number, text = DESCRIPTION["GlobalSecondaryIndexes"][::-1]
    script.tell(
        "DescribeTable",
        table(GlobalSecondaryIndexes=[]),
        table(GlobalSecondaryIndexes=[{**number, "IndexStatus": "CREATING"}]),
        table(GlobalSecondaryIndexes=[number]),
        READY,
    )
    script.tell("UpdateTable", Reply({"TableDescription": DESCRIPTION}))
    await ensured(script)
    added = [
        [update["Create"]["IndexName"] for update in request["GlobalSecondaryIndexUpdates"]]
        for request in script.requests("UpdateTable")
    ]
    assert added == [["byNumber"], ["byText"]]
    assert text


async def test_a_limit_that_stays(script: Script) -> None:
    """An engine that refuses a change for its limits, while nothing is being changed, is not asked for ever."""
    script.tell("DescribeTable", NONE)
    script.tell("CreateTable", error("LimitExceededException"))
    with pytest.raises(StoreRefused, match="LimitExceededException"):
        await ensured(script)


async def test_patience(script: Script) -> None:
    """A table that does not get ready is an error in the end, and may be asked for again."""
    script.tell("DescribeTable", table(TableStatus="CREATING"))
    with pytest.raises(StoreUnavailable, match="still being created"):
        await ensured(script, table_seconds=0.2)


async def test_expiry(script: Script) -> None:
    """The attribute by which records expire is set once; another one that is set already is refused."""
    script.tell("DescribeTimeToLive", STAYING, EXPIRING)
    script.tell("UpdateTimeToLive", Reply({"TimeToLiveSpecification": {}}))
    await ensured(script, replace(WANTED, ttl_attribute="expires"))
    await ensured(script, replace(WANTED, ttl_attribute="expires"))
    (request,) = script.requests("UpdateTimeToLive")
    assert request["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "expires"}
    with pytest.raises(WrongTable, match="expires"):
        await ensured(script, replace(WANTED, ttl_attribute="ends"))


async def test_another_setter_of_expiry(script: Script) -> None:
    """Another process that sets the same attribute at the same time is no error; a refusal for another reason is."""
    script.tell("DescribeTimeToLive", STAYING, EXPIRING)
    script.tell("UpdateTimeToLive", error("ValidationException"))
    await ensured(script, replace(WANTED, ttl_attribute="expires"))
    script.tell("DescribeTimeToLive", STAYING)
    with pytest.raises(StoreRefused):
        await ensured(script, replace(WANTED, ttl_attribute="expires"))


@pytest.mark.parametrize(
    "changes",
    [
        {"KeySchema": [{"AttributeName": "hashKey", "KeyType": "HASH"}]},
        {"AttributeDefinitions": [{"AttributeName": name, "AttributeType": "N"} for name in ("hashKey", "rangeKey")]},
    ],
    ids=["no range key", "numeric keys"],
)
async def test_tables_of_others(script: Script, changes: dict[str, Any]) -> None:
    """A table with other kinds of keys than ours is refused as the wrong one."""
    script.tell("DescribeTable", table(**changes, GlobalSecondaryIndexes=[]))
    with pytest.raises(WrongTable):
        await ensured(script)


async def test_indexes_of_others(script: Script) -> None:
    """Indexes that we could not read are left alone and not told."""
    own = {"KeySchema": [{"AttributeName": "t", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}
    theirs = [
        {"IndexName": "noRange", "IndexStatus": "ACTIVE", **own},
        {**DESCRIPTION["GlobalSecondaryIndexes"][0], "IndexName": "numericHash"},
    ]
    theirs[1]["KeySchema"] = [
        {"AttributeName": "number", "KeyType": "HASH"},
        {"AttributeName": "text", "KeyType": "RANGE"},
    ]
    script.tell("DescribeTimeToLive", STAYING)
    script.tell("DescribeTable", table(GlobalSecondaryIndexes=theirs))
    store = await script.open()
    assert await store.describe() == TableDefinition()
    await store.close()
