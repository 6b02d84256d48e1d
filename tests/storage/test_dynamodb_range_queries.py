"""Range reads as DynamoDB queries: key conditions, start keys, and replies that make progress."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange, RangeValue
from graphql_api.errors import StoreRefused, StoreUnavailable
from graphql_api.storage.values import Key, Position, RangeRead, RowPage, StartKey
from tests.storage.scripted_dynamodb import DESCRIPTION, Reply, ScriptedDynamoDB

TEXT = RangeRead("byText", "t!01", 7, KeyRange(), 10)
NUMBER = RangeRead("byNumber", "n!01", 7, KeyRange(), 10)
LONG = "a" * 1024


def item_of(value: RangeValue) -> dict[str, Any]:
    """An item of either index, as the engine sends it."""
    own = {"t": {"S": "t!01"}, "text": {"S": value}}
    if not isinstance(value, str):
        own = {"n": {"S": "n!01"}, "number": {"N": str(value)}}
    return {"hashKey": {"S": "h!"}, "rangeKey": {"S": f"r{value}"}, **own}


def query_reply(values: Sequence[RangeValue], *, more: bool) -> Reply:
    """A reply with these rows. If `more` is set, further rows may follow."""
    result = {"Items": list(map(item_of, values)), "Count": len(values), "ScannedCount": len(values)}
    return Reply(result | ({"LastEvaluatedKey": item_of(values[-1])} if more else {}))


async def read_page(server: ScriptedDynamoDB, read: RangeRead, want: int = 100) -> RowPage:
    """Return the page of one read."""
    store = await server.open()
    (result,) = await store.read_ranges([read], want)
    await store.close()
    assert isinstance(result, RowPage), result
    return result


CONDITIONS: dict[str, tuple[RangeRead, str, dict[str, Mapping[str, str]]]] = {
    "all": (TEXT, "", {}),
    "from": (TEXT._replace(range=KeyRange("b")), " AND #r >= :low", {":low": {"S": "b"}}),
    "after": (TEXT._replace(range=KeyRange("b", low_open=True)), " AND #r >= :low", {":low": {"S": "b\0"}}),
    "after a long one": (
        TEXT._replace(range=KeyRange(LONG, low_open=True)),
        " AND #r > :low",
        {":low": {"S": LONG}},
    ),
    "to": (TEXT._replace(range=KeyRange(None, "b")), " AND #r <= :high", {":high": {"S": "b"}}),
    "before": (TEXT._replace(range=KeyRange(None, "b", high_open=True)), " AND #r < :high", {":high": {"S": "b"}}),
    "between": (
        TEXT._replace(range=KeyRange("a", "b")),
        " AND #r BETWEEN :low AND :high",
        {":low": {"S": "a"}, ":high": {"S": "b"}},
    ),
    "half open": (
        TEXT._replace(range=KeyRange("a", "b", low_open=True, high_open=True)),
        " AND #r BETWEEN :low AND :high",
        {":low": {"S": "a\0"}, ":high": {"S": "b"}},
    ),
    "number": (
        NUMBER._replace(range=KeyRange(1, Decimal("2.50"))),
        " AND #r BETWEEN :low AND :high",
        {":low": {"N": "1"}, ":high": {"N": "25E-1"}},
    ),
    "after a number": (NUMBER._replace(range=KeyRange(1, low_open=True)), " AND #r > :low", {":low": {"N": "1"}}),
}


@pytest.mark.parametrize(("read", "condition", "values"), CONDITIONS.values(), ids=CONDITIONS.keys())
async def test_key_conditions(
    server: ScriptedDynamoDB, read: RangeRead, condition: str, values: Mapping[str, Any]
) -> None:
    """A range is one condition on the range key in the key condition, never a filter."""
    server.set_replies("Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0}))
    for descending in (False, True):
        await read_page(server, read._replace(descending=descending))
    for request, forward in zip(server.requests("Query"), (True, False), strict=True):
        assert request["KeyConditionExpression"] == f"#h = :h{condition}"
        assert request["ExpressionAttributeValues"] == {":h": {"S": read.hash_key}, **values}
        assert request["ScanIndexForward"] == forward
        assert request["IndexName"] == read.index
        assert "FilterExpression" not in request


@pytest.mark.parametrize(("limit", "want", "sent"), [(10, 3, 3), (3, 10, 3)])
async def test_limit(server: ScriptedDynamoDB, limit: int, want: int, sent: int) -> None:
    """A query requests no more rows than the limit of the read and the rows that the caller wants."""
    server.set_replies("Query", query_reply(["a"], more=False))
    await read_page(server, TEXT._replace(limit=limit), want)
    (request,) = server.requests("Query")
    assert request["Limit"] == sent


@pytest.mark.parametrize(
    ("range", "descending", "sent"),
    [
        (KeyRange("a", "b", high_open=True), True, 4),
        (KeyRange("a", "b", high_open=True), False, 3),
        (KeyRange("a", "b"), True, 3),
        (KeyRange(None, "b", high_open=True), True, 3),
    ],
)
async def test_limit_with_an_exclusive_bound(
    server: ScriptedDynamoDB, range: KeyRange, descending: bool, sent: int
) -> None:
    """If the first row may be on an exclusive bound and is dropped, the query requests one more row."""
    server.set_replies("Query", query_reply(["a"], more=False))
    await read_page(server, TEXT._replace(limit=10, range=range, descending=descending), want=3)
    (request,) = server.requests("Query")
    assert request["Limit"] == sent


async def test_page(server: ScriptedDynamoDB) -> None:
    """A page has its scanned position and the number of examined records."""
    server.set_replies("Query", query_reply(["a", "b"], more=True))
    page = await read_page(server, TEXT)
    assert [row.position for row in page.rows] == [("a", 7, Key("h!", "ra")), ("b", 7, Key("h!", "rb"))]
    assert page.scanned_to == Position("b", 7, Key("h!", "rb"))
    assert page.records_read == 2


async def test_start_keys(server: ScriptedDynamoDB) -> None:
    """A start key has the keys of the table and the index, and no other attributes."""
    server.set_replies("Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0}))
    await read_page(server, NUMBER._replace(start=StartKey(5, Key("h!", "r5"))))
    await read_page(server, TEXT._replace(index=None, hash_key="h!", start=StartKey("r", Key("h!", "r"))))
    by_index, by_table = (request["ExclusiveStartKey"] for request in server.requests("Query"))
    keys = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r5"}}
    assert by_index == {**keys, "n": {"S": "n!01"}, "number": {"N": "5"}}
    assert by_table == {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}


async def test_an_exclusive_end_bound_ends_a_read(server: ScriptedDynamoDB) -> None:
    """A row on the exclusive end bound is dropped and ends the read."""
    server.set_replies("Query", query_reply(["a", "b"], more=True), query_reply([3, 2, 1], more=True))
    page = await read_page(server, TEXT._replace(range=KeyRange("a", "b", high_open=True)))
    assert ([row.value for row in page.rows], page.scanned_to) == (["a"], None)
    page = await read_page(server, NUMBER._replace(range=KeyRange(1, 3, low_open=True), descending=True))
    assert ([row.value for row in page.rows], page.scanned_to, page.records_read) == ([3, 2], None, 3)


async def test_many_rows_on_an_exclusive_start_bound(server: ScriptedDynamoDB) -> None:
    """If a reply has only rows on the exclusive start bound, the read continues after all of them."""
    server.set_replies("Query", query_reply([1, 1, 1], more=True), query_reply([2, 3, 4], more=True))
    page = await read_page(server, NUMBER._replace(range=KeyRange(1, 3, low_open=True), limit=3))
    assert ([row.value for row in page.rows], page.scanned_to, page.records_read) == ([2, 3], None, 6)
    first, second = server.requests("Query")
    assert first["KeyConditionExpression"].endswith("#r BETWEEN :low AND :high")
    assert second["KeyConditionExpression"].endswith("#r > :low")
    assert "ExclusiveStartKey" not in second


async def test_many_rows_on_an_exclusive_start_bound_descending(server: ScriptedDynamoDB) -> None:
    """A descending read of text continues after all rows on its exclusive start bound."""
    server.set_replies("Query", query_reply(["c", "c"], more=True), query_reply(["b", "a"], more=True))
    page = await read_page(server, TEXT._replace(range=KeyRange("b", "c", high_open=True), limit=2, descending=True))
    assert ([row.value for row in page.rows], page.scanned_to) == (["b"], None)
    assert server.requests("Query")[1]["KeyConditionExpression"].endswith("#r < :high")


async def test_rows_are_decoded_lazily(server: ScriptedDynamoDB) -> None:
    """The item of a row is decoded on first access."""
    server.set_replies("Query", Reply({"Items": [item_of("a") | {"x": {"NEW": 1}}], "Count": 1, "ScannedCount": 1}))
    page = await read_page(server, TEXT)
    with pytest.raises(ValueError, match=r"0 types|unknown type 'NEW'"):
        page.rows[0].item  # noqa: B018 - the access is tested


async def test_duplicate_hash_keys(server: ScriptedDynamoDB) -> None:
    """Two reads of one hash key in one call are rejected before a request."""
    store = await server.open()
    with pytest.raises(StoreRefused):
        await store.read_ranges([TEXT, TEXT._replace(ordinal=8)], 10)
    await store.close()
    assert server.counts["Query"] == 0


async def test_an_index_during_backfill(server: ScriptedDynamoDB) -> None:
    """An index cannot be read during its backfill. Afterwards it can, without reopening the store."""
    filling = [{**index, "IndexStatus": "CREATING"} for index in DESCRIPTION["GlobalSecondaryIndexes"]]
    server.set_replies(
        "DescribeTable",
        *[Reply({"Table": {**DESCRIPTION, "GlobalSecondaryIndexes": filling}})] * 2,
        Reply({"Table": DESCRIPTION}),
    )
    server.set_replies("Query", query_reply(["a"], more=False))
    store = await server.open()
    with pytest.raises(StoreUnavailable, match="byText"):
        await store.read_ranges([TEXT], 10)
    (result,) = await store.read_ranges([TEXT], 10)
    await store.close()
    assert isinstance(result, RowPage)
