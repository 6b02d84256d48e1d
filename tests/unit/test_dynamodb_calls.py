"""One request to DynamoDB: when it is sent again, what its errors become, when it ends."""

import asyncio
import time
from collections.abc import AsyncIterator

import aioboto3
import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreDenied, StoreError, StoreRefused, StoreUnavailable, Throttled, WrongTable
from graphql_api.storage.engines.dynamodb import DynamoStore, open_dynamodb
from graphql_api.storage.engines.dynamodb.error_mapping import DENIALS, THROTTLES
from graphql_api.storage.values import Key, RangeRead, RowPage
from tests.unit.dynamo_script import DROPPED, QUICK, SILENT, Reply, Script, error, playing

READ = RangeRead("byText", "t!01", 1, KeyRange(), 10)
ROW = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}, "t": {"S": "t!01"}, "text": {"S": "v"}}
FOUND = Reply({"Items": [ROW], "Count": 1, "ScannedCount": 1})


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A server that answers as it is told."""
    async with playing() as played:
        yield played


async def answer(store: DynamoStore) -> RowPage | StoreError:
    """What the store makes of a read."""
    (found,) = await store.read_ranges([READ], 10)
    await store.close()
    return found


PASSING: dict[str, Reply] = {
    **{code: error(code) for code in sorted(THROTTLES)},
    "500": error("InternalServerError", 500),
    "503": error("ServiceUnavailable", 503),
    "page of a proxy": Reply(b"<html>Bad Gateway</html>", 502),
    "reset": DROPPED,
    "empty body": Reply(b""),
    "empty object": Reply({}),
    "cut": Reply(b'{"Items": [{"hashKey": {"S": "h!"'),
    "list": Reply(b"[]"),
    "not UTF-8": Reply(b'{"Items": "\xff"}'),
    "wrong checksum": Reply(FOUND.body, checksum=1),
    "fewer items than told": Reply({"Items": [ROW], "Count": 2, "ScannedCount": 2}),
    "no items": Reply({"Count": 0, "ScannedCount": 0}),
    "another hash key": Reply({"Items": [{**ROW, "t": {"S": "t!02"}}], "Count": 1, "ScannedCount": 1}),
    "no table key": Reply({"Items": [{"t": ROW["t"], "text": ROW["text"]}], "Count": 1, "ScannedCount": 1}),
    "no range value": Reply({"Items": [{**ROW, "text": {"N": "1"}}], "Count": 1, "ScannedCount": 1}),
    "half a place": Reply({"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": {"t": ROW["t"]}}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_what_passes_is_tried_again(script: Script, fault: Reply) -> None:
    """After a fault that may pass the request is sent again, and nobody learns of it."""
    script.tell("Query", fault, fault, FOUND)
    found = await answer(await script.open())
    assert isinstance(found, RowPage)
    assert [row.value for row in found.rows] == ["v"]
    assert script.counts["Query"] == 3


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_what_stays_becomes_a_typed_error(script: Script, fault: Reply) -> None:
    """After three attempts the caller gets a retryable error that names operation and shard and keeps its cause."""
    script.tell("Query", fault)
    problem = await answer(await script.open())
    assert isinstance(problem, Throttled | StoreUnavailable)
    assert isinstance(problem, Throttled) == any(fault is PASSING[code] for code in THROTTLES)
    assert problem.retryable
    assert problem.shard == "t!01"
    assert "Query of script/byText/t!01" in problem.message
    assert problem.__cause__ is not None
    assert script.counts["Query"] == 3


LASTING: dict[str, tuple[Reply, type[StoreError]]] = {
    **{code: (error(code), StoreDenied) for code in sorted(DENIALS)},
    "no table": (error("ResourceNotFoundException"), WrongTable),
    "malformed": (error("ValidationException"), StoreRefused),
    "unknown": (error("SomethingNewException"), StoreRefused),
}


@pytest.mark.parametrize(("fault", "kind"), LASTING.values(), ids=LASTING.keys())
async def test_what_lasts_is_not_tried_again(script: Script, fault: Reply, kind: type[StoreError]) -> None:
    """A request that would fail again is sent once, and its error says what the server said or what to do."""
    script.tell("Query", fault)
    problem = await answer(await script.open())
    assert type(problem) is kind
    assert "told:" in problem.message or "shardql table create" in problem.message
    assert script.counts["Query"] == 1


async def test_a_failing_read_leaves_the_others(script: Script) -> None:
    """Of several reads each has its own answer: rows, or the error of its shard in its place."""
    broken = error("InternalServerError", 500)
    script.tell("Query", lambda asked: FOUND if asked["ExpressionAttributeValues"][":h"]["S"] == "t!01" else broken)
    store = await script.open()
    other = RangeRead("byText", "t!02", 2, KeyRange(), 10)
    failed, found = await store.read_ranges([other, READ], 10)
    await store.close()
    assert isinstance(found, RowPage)
    assert isinstance(failed, StoreUnavailable)
    assert failed.shard == "t!02"


async def test_deadline(script: Script) -> None:
    """A silent server costs a caller its deadline, not the half a minute after which it would answer."""
    script.tell("Query", SILENT)
    store = await script.open(deadline=0.3)
    await store._table.description(store._api.new_deadline() + 5)
    began = time.monotonic()
    problem = await answer(store)
    assert isinstance(problem, StoreUnavailable)
    assert 0.25 < time.monotonic() - began < 15.0


async def test_an_attempt_has_its_own_time(script: Script) -> None:
    """An attempt that stays silent is given up for another one while there is time."""
    script.tell("Query", SILENT, FOUND)
    found = await answer(await script.open(read_seconds=1.0))
    assert isinstance(found, RowPage)
    assert script.counts["Query"] == 2


async def test_waiting_counts(script: Script) -> None:
    """Who waits for a place longer than the deadline gets an error that says so."""
    script.tell("Query", Reply(FOUND.body, after=1.2))
    store = await script.open(deadline=2.0, in_flight_of_shard=1)
    answers = await asyncio.gather(*(store.read_ranges([READ], 10) for _ in range(4)))
    await store.close()
    problems = [found for (found,) in answers if isinstance(found, StoreUnavailable)]
    assert any("no free slot" in problem.message for problem in problems)
    assert any(isinstance(found, RowPage) for (found,) in answers)
    assert script.most_in_flight == 1


async def test_a_cancelled_call_ends_its_requests(script: Script) -> None:
    """A caller that leaves takes everything with it that was on its way; the store goes on."""
    script.tell("Query", SILENT)
    store = await script.open()
    reads = [RangeRead("byText", f"t!{shard:02}", shard, KeyRange(), 10) for shard in range(32)]
    call = asyncio.ensure_future(store.read_ranges(reads, 10))
    await asyncio.wait_for(script.busy_with(32), 20)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.wait_for(script.idle(), 20)
    script.tell("Query", FOUND)
    assert isinstance(await answer(store), RowPage)


async def test_retries_are_a_share_of_requests(script: Script) -> None:
    """Where everything fails, a process does not make it worse: beyond the floor, ten requests allow one retry."""
    script.tell("Query", error("InternalServerError", 500))
    store = await script.open(retry_floor=2.0)
    for _ in range(40):
        await store.read_ranges([READ], 10)
    await store.close()
    assert 40 + 2 <= script.counts["Query"] <= 40 + 2 + 4 + 4  # the floor, a tenth, and what fills up meanwhile


async def test_get_many_asks_for_the_rest(script: Script) -> None:
    """Keys that a batch leaves over are asked for again until all are there; each key once."""
    key = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "s"}}
    item = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}
    script.tell(
        "BatchGetItem",
        Reply({"Responses": {"script": [item]}, "UnprocessedKeys": {"script": {"Keys": [key]}}}),
        Reply({"Responses": {}, "UnprocessedKeys": {"script": {"Keys": [key]}}}),
        Reply({"Responses": {"script": [key]}, "UnprocessedKeys": {}}),
    )
    store = await script.open()
    found = await store.get_many([Key("h!", "r"), Key("h!", "s"), Key("h!", "r")], consistent=True)
    await store.close()
    assert [record and record["rangeKey"] for record in found] == ["r", "s", "r"]
    asked = [request["RequestItems"]["script"] for request in script.requests("BatchGetItem")]
    assert [len(request["Keys"]) for request in asked] == [2, 1, 1]
    assert all(request["ConsistentRead"] for request in asked)


async def test_get_many_gives_up_in_time(script: Script) -> None:
    """A batch that never gets done is an error when the time is up, in a pause or during the last request."""
    key = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}
    script.tell("BatchGetItem", Reply({"Responses": {}, "UnprocessedKeys": {"script": {"Keys": [key]}}}))
    store = await script.open(deadline=2.0, backoff_base=0.05, backoff_cap=0.05)
    with pytest.raises((Throttled, StoreUnavailable)):
        await store.get_many([Key("h!", "r")], consistent=False)
    await store.close()


async def test_an_empty_batch_is_no_answer(script: Script) -> None:
    """A batch that neither holds records nor leaves keys over was cut: records are not declared missing for it."""
    script.tell("BatchGetItem", Reply({}))
    store = await script.open()
    with pytest.raises(StoreUnavailable):
        await store.get_many([Key("h!", "r")], consistent=False)
    await store.close()


async def test_no_credentials(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials the error says so, and what to do."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    store = await open_dynamodb("script", region="us-east-1", endpoint=script.endpoint, session=aioboto3.Session())
    with pytest.raises(StoreDenied, match="credentials"):
        await store.describe()
    await store.close()


async def test_wrong_openings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name, an endpoint or a region that cannot be is refused when the store is opened."""
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(StoreRefused, match="valid table name"):
        await open_dynamodb("no table", region="us-east-1")
    with pytest.raises(StoreRefused, match="endpoint"):
        await open_dynamodb("script", region="us-east-1", endpoint="no endpoint")
    with pytest.raises(StoreRefused, match="region"):
        await open_dynamodb("script")


async def test_many_first_calls_look_once(script: Script) -> None:
    """However many calls come first, the table is described once."""
    script.tell("Query", FOUND)
    store = await script.open(QUICK)
    await asyncio.gather(*(store.read_ranges([READ], 10) for _ in range(20)))
    await store.close()
    assert script.counts["DescribeTable"] == 1
