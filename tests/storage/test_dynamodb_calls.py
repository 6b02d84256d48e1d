"""Single requests to DynamoDB: retries, error mapping, deadlines."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import aioboto3
import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreDenied, StoreError, StoreRefused, StoreUnavailable, Throttled, WrongTable
from graphql_api.storage.engines.dynamodb import DynamoStore, open_dynamodb
from graphql_api.storage.engines.dynamodb.error_mapping import DENIALS, THROTTLES
from graphql_api.storage.values import Key, RangeRead, RowPage
from tests.storage.scripted_dynamodb import (
    DROPPED,
    NO_RESPONSE,
    QUICK,
    Reply,
    ScriptedDynamoDB,
    error_reply,
)

READ = RangeRead("byText", "t!01", 1, KeyRange(), 10)
ROW = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}, "t": {"S": "t!01"}, "text": {"S": "v"}}
ONE_ROW = Reply({"Items": [ROW], "Count": 1, "ScannedCount": 1})


async def read_result(store: DynamoStore) -> RowPage | StoreError:
    """Return the result of one read."""
    (found,) = await store.read_ranges([READ], 10)
    await store.close()
    return found


TRANSIENT_FAULTS: dict[str, Reply] = {
    **{code: error_reply(code) for code in sorted(THROTTLES)},
    "500": error_reply("InternalServerError", 500),
    "503": error_reply("ServiceUnavailable", 503),
    "error page of a proxy": Reply(b"<html>Bad Gateway</html>", 502),
    "reset": DROPPED,
    "empty body": Reply(b""),
    "empty object": Reply({}),
    "cut": Reply(b'{"Items": [{"hashKey": {"S": "h!"'),
    "list": Reply(b"[]"),
    "not UTF-8": Reply(b'{"Items": "\xff"}'),
    "wrong checksum": Reply(ONE_ROW.body, checksum=1),
    "fewer items than counted": Reply({"Items": [ROW], "Count": 2, "ScannedCount": 2}),
    "no items": Reply({"Count": 0, "ScannedCount": 0}),
    "another hash key": Reply({"Items": [{**ROW, "t": {"S": "t!02"}}], "Count": 1, "ScannedCount": 1}),
    "no table key": Reply({"Items": [{"t": ROW["t"], "text": ROW["text"]}], "Count": 1, "ScannedCount": 1}),
    "no range value": Reply({"Items": [{**ROW, "text": {"N": "1"}}], "Count": 1, "ScannedCount": 1}),
    "incomplete last key": Reply({"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": {"t": ROW["t"]}}),
}


@pytest.mark.parametrize("fault", TRANSIENT_FAULTS.values(), ids=TRANSIENT_FAULTS.keys())
async def test_transient_faults_are_retried(server: ScriptedDynamoDB, fault: Reply) -> None:
    """After a transient fault, the request is retried and the caller gets the rows."""
    server.set_replies("Query", fault, fault, ONE_ROW)
    found = await read_result(await server.open())
    assert isinstance(found, RowPage)
    assert [row.value for row in found.rows] == ["v"]
    assert server.counts["Query"] == 3


@pytest.mark.parametrize("fault", TRANSIENT_FAULTS.values(), ids=TRANSIENT_FAULTS.keys())
async def test_persistent_faults_become_retryable_errors(server: ScriptedDynamoDB, fault: Reply) -> None:
    """After three attempts, the caller gets a retryable error with operation, shard and cause."""
    server.set_replies("Query", fault)
    error = await read_result(await server.open())
    assert isinstance(error, Throttled | StoreUnavailable)
    assert isinstance(error, Throttled) == any(fault is TRANSIENT_FAULTS[code] for code in THROTTLES)
    assert error.retryable
    assert error.shard == "t!01"
    assert "Query of script/byText/t!01" in error.message
    assert error.__cause__ is not None
    assert server.counts["Query"] == 3


PERMANENT_ERRORS: dict[str, tuple[Reply, type[StoreError]]] = {
    **{code: (error_reply(code), StoreDenied) for code in sorted(DENIALS)},
    "no table": (error_reply("ResourceNotFoundException"), WrongTable),
    "malformed": (error_reply("ValidationException"), StoreRefused),
    "unknown": (error_reply("SomethingNewException"), StoreRefused),
}


@pytest.mark.parametrize(("fault", "error_type"), PERMANENT_ERRORS.values(), ids=PERMANENT_ERRORS.keys())
async def test_permanent_errors_are_not_retried(
    server: ScriptedDynamoDB, fault: Reply, error_type: type[StoreError]
) -> None:
    """A permanent error is not retried. Its message has the message of the server or the remedy."""
    server.set_replies("Query", fault)
    error = await read_result(await server.open())
    assert type(error) is error_type
    assert "scripted:" in error.message or "shardql table create" in error.message
    assert server.counts["Query"] == 1


async def test_reads_fail_independently(server: ScriptedDynamoDB) -> None:
    """Of several reads, each has its own result: rows, or the error of its shard."""
    broken = error_reply("InternalServerError", 500)
    server.set_replies(
        "Query", lambda body: ONE_ROW if body["ExpressionAttributeValues"][":h"]["S"] == "t!01" else broken
    )
    store = await server.open()
    other = RangeRead("byText", "t!02", 2, KeyRange(), 10)
    failed, found = await store.read_ranges([other, READ], 10)
    await store.close()
    assert isinstance(found, RowPage)
    assert isinstance(failed, StoreUnavailable)
    assert failed.shard == "t!02"


async def test_deadline(server: ScriptedDynamoDB) -> None:
    """A server that does not respond costs the caller its deadline, not the 30 seconds until the reply."""
    server.set_replies("Query", NO_RESPONSE)
    store = await server.open(deadline=0.3)
    await store._table.definition(store._api.new_deadline() + 5)
    started = time.monotonic()
    error = await read_result(store)
    assert isinstance(error, StoreUnavailable)
    assert 0.25 < time.monotonic() - started < 15.0


async def test_attempts_have_a_timeout(server: ScriptedDynamoDB) -> None:
    """An attempt without a response is replaced by another one before the deadline."""
    server.set_replies("Query", NO_RESPONSE, ONE_ROW)
    found = await read_result(await server.open(connect_seconds=1.0, read_seconds=1.0))
    assert isinstance(found, RowPage)
    assert server.counts["Query"] == 2


async def test_waiting_for_a_slot_counts_towards_the_deadline(server: ScriptedDynamoDB) -> None:
    """A request that waits for a slot longer than the deadline fails with an error that says so."""
    server.set_replies("Query", Reply(ONE_ROW.body, delay=1.2))
    store = await server.open(deadline=2.0, in_flight_of_shard=1)
    results = await asyncio.gather(*(store.read_ranges([READ], 10) for _ in range(4)))
    await store.close()
    errors = [found for (found,) in results if isinstance(found, StoreUnavailable)]
    assert any("no free slot" in error.message for error in errors)
    assert any(isinstance(found, RowPage) for (found,) in results)
    assert server.peak_in_flight == 1


async def test_cancelled_calls_end_their_requests(server: ScriptedDynamoDB) -> None:
    """A cancelled call ends its requests in flight, and the store stays usable."""
    server.set_replies("Query", NO_RESPONSE)
    store = await server.open()
    reads = [RangeRead("byText", f"t!{shard:02}", shard, KeyRange(), 10) for shard in range(32)]
    call = asyncio.ensure_future(store.read_ranges(reads, 10))
    await asyncio.wait_for(server.wait_for_requests(32), 20)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.wait_for(server.wait_until_idle(), 20)
    server.set_replies("Query", ONE_ROW)
    assert isinstance(await read_result(store), RowPage)


async def test_the_retry_budget_limits_retries(server: ScriptedDynamoDB) -> None:
    """If every request fails, the retry budget allows its floor initially and per second, and a tenth of all requests.

    Operations wait for the budget until their deadline.
    """
    server.set_replies("Query", error_reply("InternalServerError", 500))
    store = await server.open(retry_floor=2.0, deadline=2.0)
    started = time.monotonic()
    await asyncio.gather(*(store.read_ranges([READ], 10) for _ in range(40)))
    seconds = time.monotonic() - started
    await store.close()
    assert seconds > 1.5
    assert 40 + 2 + 4 <= server.counts["Query"] <= 40 + 2 * (1 + seconds) + 4 + 1


async def test_a_retry_waits_for_the_budget(server: ScriptedDynamoDB) -> None:
    """Requests that fail once succeed, although the budget allows only two retries a second at first."""
    failing = {f"t!{shard:02}" for shard in range(16)}

    def reply(body: Mapping[str, Any]) -> Reply:
        key = body["ExpressionAttributeValues"][":h"]["S"]
        if key not in failing:
            return Reply({"Items": [], "Count": 0, "ScannedCount": 0})
        failing.remove(key)
        return error_reply("ProvisionedThroughputExceededException")

    server.set_replies("Query", reply)
    store = await server.open(retry_floor=2.0, retry_share=0.0)
    reads = [RangeRead("byText", f"t!{shard:02}", shard, KeyRange(), 10) for shard in range(16)]
    results = [await store.read_ranges([read], 10) for read in reads]
    await store.close()
    assert all(isinstance(page, RowPage) for (page,) in results)
    assert server.counts["Query"] == 32


async def test_unprocessed_keys_are_requested_again(server: ScriptedDynamoDB) -> None:
    """Unprocessed keys of a batch are requested until all are complete, each key once."""
    key = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "s"}}
    item = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}
    server.set_replies(
        "BatchGetItem",
        Reply({"Responses": {"script": [item]}, "UnprocessedKeys": {"script": {"Keys": [key]}}}),
        Reply({"Responses": {}, "UnprocessedKeys": {"script": {"Keys": [key]}}}),
        Reply({"Responses": {"script": [key]}, "UnprocessedKeys": {}}),
    )
    store = await server.open()
    found = await store.get_many([Key("h!", "r"), Key("h!", "s"), Key("h!", "r")], consistent=True)
    await store.close()
    assert [record and record["rangeKey"] for record in found] == ["r", "s", "r"]
    requests = [request["RequestItems"]["script"] for request in server.requests("BatchGetItem")]
    assert [len(request["Keys"]) for request in requests] == [2, 1, 1]
    assert all(request["ConsistentRead"] for request in requests)


async def test_scans_are_strongly_consistent(server: ScriptedDynamoDB) -> None:
    """Each page of a scan is a strongly consistent read."""
    server.set_replies("Scan", Reply({"Items": [], "Count": 0}))
    store = await server.open()
    await store.scan(0, 1, None)
    await store.scan(1, 4, Key("h!", "r"))
    await store.close()
    assert [request["ConsistentRead"] for request in server.requests("Scan")] == [True, True]


async def test_unprocessed_keys_end_at_the_deadline(server: ScriptedDynamoDB) -> None:
    """A batch that is never complete fails at the deadline, in a pause or in the last request."""
    key = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}
    server.set_replies("BatchGetItem", Reply({"Responses": {}, "UnprocessedKeys": {"script": {"Keys": [key]}}}))
    store = await server.open(deadline=2.0, backoff_base=0.05, backoff_cap=0.05)
    with pytest.raises((Throttled, StoreUnavailable)):
        await store.get_many([Key("h!", "r")], consistent=False)
    await store.close()


async def test_empty_batch_replies_are_incomplete(server: ScriptedDynamoDB) -> None:
    """A batch reply without records and unprocessed keys is incomplete, and does not mean that records are missing."""
    server.set_replies("BatchGetItem", Reply({}))
    store = await server.open()
    with pytest.raises(StoreUnavailable):
        await store.get_many([Key("h!", "r")], consistent=False)
    await store.close()


async def test_no_credentials(server: ScriptedDynamoDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials, the error names them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    store = await open_dynamodb("script", region="us-east-1", endpoint=server.endpoint, session=aioboto3.Session())
    with pytest.raises(StoreDenied, match="credentials"):
        await store.describe()
    await store.close()


async def test_invalid_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid table name, endpoint or region is rejected when the store is opened."""
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(StoreRefused, match="valid table name"):
        await open_dynamodb("no table", region="us-east-1")
    with pytest.raises(StoreRefused, match="endpoint"):
        await open_dynamodb("script", region="us-east-1", endpoint="no endpoint")
    with pytest.raises(StoreRefused, match="region"):
        await open_dynamodb("script")


async def test_concurrent_first_calls_describe_the_table_once(server: ScriptedDynamoDB) -> None:
    """Any number of concurrent first calls describe the table once."""
    server.set_replies("Query", ONE_ROW)
    store = await server.open(QUICK)
    await asyncio.gather(*(store.read_ranges([READ], 10) for _ in range(20)))
    await store.close()
    assert server.counts["DescribeTable"] == 1
