"""Attempts of DynamoDB requests under a capacity ceiling: none is sent whose charge could pass it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import QueryTooCostly, StoreError, StoreUnavailable, Throttled
from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.runtime.capacity_ceiling import CapacityCeiling
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.capacity_units import ItemBound
from graphql_api.storage.ceiling_store import CeilingStore
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.values import Expect, Key, Put, RangeRead, ReadResult, RowPage, TableDefinition
from tests.storage.scripted_dynamodb import (
    DROPPED,
    QUICK,
    Reply,
    ScriptedDynamoDB,
    error_reply,
)

READS = [RangeRead("byText", f"t!{at:02}", at, KeyRange(), 1, row_bytes=8192) for at in range(3)]
MOST = 1.5
"""units of one such read"""
BOUND = ItemBound(8192)
THROTTLE = error_reply("ProvisionedThroughputExceededException")


def page(units: float) -> Any:
    """Returns the reply to a query, which charges these units."""

    def reply(request: Any) -> Reply:
        row = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}, "text": {"S": "v"}}
        row["t"] = request["ExpressionAttributeValues"][":h"]
        consumed = {"TableName": "script", "CapacityUnits": units}
        return Reply({"Items": [row], "Count": 1, "ScannedCount": 1, "ConsumedCapacity": consumed})

    return reply


def limited(store: DynamoStore, max_units: float) -> tuple[CeilingStore, CapacityCeiling]:
    """Returns the store under a ceiling, and the ceiling."""
    ceiling = CapacityCeiling(max_units)
    return CeilingStore(store, ceiling, TableDefinition(), lambda _: BOUND), ceiling


async def read(store: CeilingStore, reads: Sequence[RangeRead] = READS) -> Sequence[ReadResult]:
    """Returns the results of the reads."""
    return await store.read_ranges(reads, 100)


async def test_the_charge_replaces_the_reservation(server: ScriptedDynamoDB) -> None:
    """The most of all reads is reserved before any is sent; after them only the charge counts."""
    server.set_replies("Query", page(0.5))
    store, ceiling = limited(await server.open(), 3 * MOST)
    assert all(isinstance(result, RowPage) for result in await read(store))
    assert all(request["ReturnConsumedCapacity"] == "TOTAL" for request in server.requests("Query"))
    assert (ceiling.charged, ceiling.reserved) == (1.5, 0)
    await store.close()


async def test_what_does_not_fit_is_not_sent(server: ScriptedDynamoDB) -> None:
    """A call that could pass the ceiling is refused, and no request is sent."""
    server.set_replies("Query", page(0.5))
    store, ceiling = limited(await server.open(), 3 * MOST - 0.5)
    with pytest.raises(QueryTooCostly, match=r"up to 4\.5 capacity units"):
        await read(store)
    assert server.counts["Query"] == 0
    assert ceiling.left == ceiling.max_units
    await store.close()


async def test_throttled_attempts_are_not_charged(server: ScriptedDynamoDB) -> None:
    """A throttled request is retried within its reservation."""
    server.set_replies("Query", THROTTLE, THROTTLE, page(1.0))
    store, ceiling = limited(await server.open(), MOST)
    (result,) = await read(store, READS[:1])
    assert isinstance(result, RowPage)
    assert server.counts["Query"] == 3
    assert ceiling.charged == 1.0
    await store.close()


@pytest.mark.parametrize("fault", [DROPPED, error_reply("InternalServerError", 500), Reply({})])
@pytest.mark.parametrize(("max_units", "attempts"), [(MOST, 1), (2 * MOST, 2), (3 * MOST, 3), (100, 3)])
async def test_attempts_in_doubt_count_in_full(
    server: ScriptedDynamoDB, fault: Reply, max_units: float, attempts: int
) -> None:
    """An attempt without a response may have been charged: another one is sent only if both fit."""
    server.set_replies("Query", fault)
    store, ceiling = limited(await server.open(), max_units)
    (result,) = await read(store, READS[:1])
    assert isinstance(result, StoreUnavailable)
    assert server.counts["Query"] == attempts
    assert ceiling.charged == attempts * MOST <= max_units
    assert ceiling.reserved == 0
    await store.close()


async def test_a_retry_after_doubt_is_charged_besides(server: ScriptedDynamoDB) -> None:
    """A read that succeeds at its second attempt counts with its charge and the most of the first attempt."""
    server.set_replies("Query", DROPPED, page(0.5))
    store, ceiling = limited(await server.open(), 2 * MOST)
    (result,) = await read(store, READS[:1])
    assert isinstance(result, RowPage)
    assert ceiling.charged == MOST + 0.5
    await store.close()


async def test_attempts_in_doubt_are_explained(server: ScriptedDynamoDB) -> None:
    """Explain output shows the units of attempts that may have been charged besides."""
    server.set_replies("Query", DROPPED, page(0.5))
    store, cost = await server.open(), ReadCost()
    with meter_capacity() as meter:
        await store.read_ranges(READS[:1], 100)
    cost.record(0.0, meter)
    read = cost.explain({}, returned=1)["read"]
    assert (read["capacityUnits"], read["unitsInDoubt"], read["estimated"]) == (0.5, MOST, False)
    await store.close()


@pytest.mark.parametrize(("limited_units", "hedges"), [(None, True), (1000.0, False)])
async def test_no_read_is_hedged_under_a_ceiling(
    server: ScriptedDynamoDB, limited_units: float | None, hedges: bool
) -> None:
    """A late read is sent a second time, but not under a ceiling."""
    server.set_replies("Query", page(0.5))
    store = await server.open(QUICK, hedge_share=1.0, hedge_percentile=0.5)
    for _ in range(100):  # The latencies must be known before the first hedge.
        await store.read_ranges(READS[:1], 100)
    late = READS[1].hash_key
    delays = iter([0.5])

    def reply(request: Any) -> Reply:
        is_late = request["ExpressionAttributeValues"][":h"]["S"] == late
        found: Reply = page(0.5)(request)
        return replace(found, delay=next(delays, 0.0) if is_late else 0.0)

    server.set_replies("Query", reply)
    used = store if limited_units is None else limited(store, limited_units)[0]
    (result,) = await used.read_ranges([READS[1]], 100)
    assert isinstance(result, RowPage)
    # Hedges of the first reads may still arrive.
    sent = [request["ExpressionAttributeValues"][":h"]["S"] for request in server.requests("Query")].count(late)
    assert (sent > 1) == hedges
    await store.close()


async def test_unprocessed_keys_stay_within_their_reservation(server: ScriptedDynamoDB) -> None:
    """Keys that are left unprocessed are sent again within the reservation of the call."""
    keys = [Key("h!", "a"), Key("h!", "b")]
    wire = [{"hashKey": {"S": key.hash}, "rangeKey": {"S": key.range}} for key in keys]
    consumed = [{"TableName": "script", "CapacityUnits": 1.0}]
    rest = {"script": {"Keys": wire[1:]}}
    server.set_replies(
        "BatchGetItem",
        Reply({"Responses": {"script": wire[:1]}, "UnprocessedKeys": rest, "ConsumedCapacity": consumed}),
        Reply({"Responses": {"script": wire[1:]}, "UnprocessedKeys": {}, "ConsumedCapacity": consumed}),
    )
    store, ceiling = limited(await server.open(), 2.0)
    assert None not in await store.get_many(keys, consistent=False)
    assert server.counts["BatchGetItem"] == 2
    assert (ceiling.charged, ceiling.reserved) == (2.0, 0)
    await store.close()


async def test_a_transaction_in_doubt_is_sent_again_only_if_it_fits(server: ScriptedDynamoDB) -> None:
    """A lost reply to a transaction counts in full, so that its retry needs as many units again."""
    server.set_replies("TransactWriteItems", DROPPED)
    put = Put({"hashKey": "h!", "rangeKey": "a"}, Expect(absent=True))
    store, ceiling = limited(await server.open(), 40)
    with pytest.raises(StoreUnavailable):
        await store.write_together([put], "token")
    assert server.counts["TransactWriteItems"] == 2
    assert (ceiling.charged, ceiling.reserved) == (32, 0)
    with pytest.raises(QueryTooCostly):
        await store.write_together([put], "token")
    assert server.counts["TransactWriteItems"] == 2
    await store.close()


async def test_a_throttled_transaction_is_not_charged(server: ScriptedDynamoDB) -> None:
    """After a throttled transaction, the whole ceiling is left."""
    server.set_replies("TransactWriteItems", THROTTLE)
    store, ceiling = limited(await server.open(), 40)
    with pytest.raises(Throttled):
        await store.write_together([Put({"hashKey": "h!", "rangeKey": "a"}, Expect(absent=True))], "token")
    assert ceiling.left == 40
    await store.close()


async def test_a_call_that_fails_in_part_counts_in_full(server: ScriptedDynamoDB) -> None:
    """If one batch of a call fails, others may have been charged: all reserved units count."""
    server.set_replies("BatchGetItem", error_reply("AccessDeniedException"))
    store, ceiling = limited(await server.open(), 200)
    with pytest.raises(StoreError):
        await store.get_many([Key("h!", f"{at}") for at in range(150)], consistent=False)
    assert (ceiling.charged, ceiling.reserved) == (150, 0)
    await store.close()
