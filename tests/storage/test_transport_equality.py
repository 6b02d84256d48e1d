"""The law of both transports: whatever DynamoDB or an intermediary answers, the caller sees the same."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import ConditionFailed, StoreError
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.engines.dynamodb.dynamodb_settings import TRANSPORTS
from graphql_api.storage.engines.dynamodb.error_mapping import CONFLICTS, DENIALS, THROTTLES
from graphql_api.storage.values import Delete, Expect, Key, Put, RangeRead, RowPage
from tests.storage.scripted_dynamodb import QUICK, Reply, ScriptedDynamoDB, start_scripted_dynamodb
from tests.support.run_depth import examples

READ = RangeRead("byText", "t!01", 1, KeyRange(), 10)
"""every position is within its range, so that each reply ends the read"""
KEY = Key("h!", "r")
CODES = sorted(
    {
        *(THROTTLES | DENIALS | CONFLICTS),
        *("ConditionalCheckFailedException", "TransactionCanceledException", "TransactionInProgressException"),
        *("ResourceNotFoundException", "ValidationException", "InternalServerError", "NewException", "500", ""),
    }
)
REASONS = ("None", "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError", "ValidationError", "Other")

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9).map(str)
DIGITS = st.from_regex(r"-?[1-9][0-9]{0,37}(E[1-9]?[0-9])?", fullmatch=True)
BASE64 = st.sampled_from(["", "AA==", "AAEC", "/+8="])
SCALARS = st.one_of(
    st.fixed_dictionaries({"S": st.text(st.characters(exclude_categories=["Cs"]), max_size=8)}),
    st.fixed_dictionaries({"N": NUMBERS | DIGITS}),
    st.fixed_dictionaries({"B": BASE64}),
    st.fixed_dictionaries({"BOOL": st.booleans()}),
    st.just({"NULL": True}),
    st.fixed_dictionaries({"SS": st.lists(st.text("abc", min_size=1), min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"NS": st.lists(DIGITS, min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"BS": st.lists(BASE64, min_size=1, max_size=3, unique=True)}),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"L": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"M": st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, max_size=3)}),
    ),
    max_leaves=4,
)
ATTRIBUTES = st.dictionaries(st.text("klm", min_size=1, max_size=2), VALUES, max_size=4)
ITEMS = st.builds(
    lambda more, text, hash_key, name: (
        more | {"hashKey": {"S": "h!"}, "rangeKey": {"S": name}, "t": {"S": hash_key}, "text": {"S": text}}
    ),
    ATTRIBUTES,
    st.sampled_from(["a", "b", "c", "d"]),
    st.sampled_from(["t!01"] * 9 + ["t!02"]),
    st.sampled_from(["r", "s"]),
)


def page_of(items: list[Any], missing: int, last: bool) -> dict[str, Any]:
    """A page of a query, whose count may be wrong."""
    items = sorted(items, key=lambda item: item["text"]["S"])
    page = {"Items": items, "Count": len(items) + missing, "ScannedCount": len(items) + missing}
    return page | {"LastEvaluatedKey": {name: items[-1][name] for name in KEYS}} if items and last else page


KEYS = ("hashKey", "rangeKey", "t", "text")
PAGES = st.builds(page_of, st.lists(ITEMS, max_size=4), st.sampled_from([0] * 9 + [1]), st.booleans())
CAPACITY = {"TableName": "script", "CapacityUnits": 1.0}
SUCCESSES = {
    "PutItem": Reply({"ConsumedCapacity": CAPACITY}),
    "BatchWriteItem": Reply({"ConsumedCapacity": [CAPACITY], "UnprocessedItems": {}}),
    "TransactWriteItems": Reply({"ConsumedCapacity": [CAPACITY]}),
    "BatchGetItem": Reply({"Responses": {"script": []}, "UnprocessedKeys": {}}),
}
ERRORS = st.builds(
    lambda code, text, reasons, old, name: {
        "__type": code and f"com.amazonaws.dynamodb.v20120810#{code}",
        name: text,
        "CancellationReasons": [{"Code": reason, "Message": "because"} | old for reason in reasons],
        **old,
    },
    st.sampled_from(CODES),
    st.sampled_from(["", "Item size has exceeded the limit", "no", "does not have the specified index: x"]),
    st.lists(st.sampled_from(REASONS), min_size=1, max_size=2),
    st.just({}) | st.builds(lambda item: {"Item": item}, ITEMS),
    st.sampled_from(["message", "Message"]),
)
BODIES = st.one_of(
    PAGES,
    ERRORS,
    st.sampled_from([b"", b"{}", b"[]", b"null", b"<html>Bad Gateway</html>", b"no", b'{"Items": "\xff"}', b"\xff"]),
    PAGES.map(lambda page: json.dumps(page).encode()[:-3]),
)
REPLIES = st.builds(
    Reply,
    BODIES,
    st.sampled_from([200, 200, 200, 302, 400, 400, 400, 403, 413, 429, 500, 502, 503]),
    st.sampled_from([None, None, None, None, 1]),
    content_type=st.sampled_from(["application/x-amz-json-1.0", "application/json", "text/html"]),
    has_checksum=st.booleans(),
)


@dataclass
class BothTransports:
    """A scripted server, with one store for each transport."""

    runner: asyncio.Runner
    server: ScriptedDynamoDB
    stores: dict[str, DynamoStore]


@pytest.fixture
def both() -> Iterator[BothTransports]:
    """Stores of both transports on one event loop."""
    with asyncio.Runner() as runner:
        starting = start_scripted_dynamodb()
        server = runner.run(starting.__aenter__())
        settings = {"attempts": 1, "conflict_attempts": 1, "backoff_base": 0.0, "retry_floor": 1e9, "hedge_share": 0.0}
        stores = {name: runner.run(server.open(QUICK, transport=name, **settings)) for name in TRANSPORTS}
        yield BothTransports(runner, server, stores)
        for store in stores.values():
            runner.run(store.close())
        runner.run(starting.__aexit__(None, None, None))


def described(result: object) -> object:
    """What a caller sees of a result. Messages of invalid JSON are those of a parser, and may differ."""
    if isinstance(result, StoreError):
        message = re.sub(r"inconsistent response: .*", "inconsistent response", result.message, flags=re.DOTALL)
        more = result.failures if isinstance(result, ConditionFailed) else getattr(result, "certain", None)
        return type(result), result.code, message, result.shard, result.retryable, more
    assert isinstance(result, RowPage)
    rows = [(row.position, row.item) for row in result.rows]
    return rows, result.scanned_to, result.records_read, result.size


async def read(store: DynamoStore) -> object:
    """The result of one query."""
    (page,) = await store.read_ranges([READ], 10)
    return described(page)


async def get(store: DynamoStore) -> object:
    """The result of a read by key."""
    try:
        return await store.get_many([KEY], consistent=True)
    except StoreError as error:
        return described(error)


async def write(store: DynamoStore) -> object:
    """The results of a put, a batch and a transaction."""
    put = Put({"hashKey": "h!", "rangeKey": "r", "_w": "mine", "b": b"\x00\xff"}, Expect(absent=True))
    batch = [Put({"hashKey": "h!", "rangeKey": f"{number}"}) for number in range(2)]
    results: list[object] = [*await store.write([put]), *await store.write(batch)]
    try:
        await store.write_together([put, Delete(Key("h!", "x"))], "a token")
    except StoreError as error:
        results.append(error)
    return [None if result is None else described(result) for result in results]


@pytest.mark.parametrize("call", [read, get, write], ids=["Query", "BatchGetItem", "writes"])
def test_both_transports_return_the_same(both: BothTransports, call: Any) -> None:
    """For any reply, both transports return the same rows, sizes and errors, and send the same requests."""
    operations = {read: ["Query"], get: ["BatchGetItem"], write: ["PutItem", "BatchWriteItem", "TransactWriteItems"]}[
        call
    ]

    @examples(40, deep=200)
    @given(REPLIES, st.sets(st.sampled_from(operations)))
    def law(reply: Reply, failing: set[str]) -> None:
        results, requests = [], []
        for name, store in both.stores.items():
            for operation in operations:
                is_done = operation in SUCCESSES and operation not in failing
                both.server.set_replies(operation, SUCCESSES[operation] if is_done else reply)
            del both.server.received[:], both.server.headers[:]
            results.append(both.runner.run(call(store)))
            assert both.server.transports == {name}
            requests.append([request for request in both.server.received if request[0] in operations])
        direct, client = results
        assert direct == client
        assert without_tokens(requests[0]) == without_tokens(requests[1])

    law()


def without_tokens(requests: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Requests in a definite order, without the random tokens of transactions."""
    kept = [(name, {**body, "ClientRequestToken": None}) for name, body in requests]
    return sorted(kept, key=repr)
