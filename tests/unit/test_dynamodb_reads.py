"""A read as DynamoDB is asked for it: conditions, start keys, and answers that make progress."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange, RangeValue
from graphql_api.errors import StoreRefused, StoreUnavailable
from graphql_api.storage.values import Key, Position, RangeRead, RowPage, StartKey
from tests.unit.dynamo_script import DESCRIPTION, Reply, Script, playing

TEXT = RangeRead("byText", "t!01", 7, KeyRange(), 10)
NUMBER = RangeRead("byNumber", "n!01", 7, KeyRange(), 10)
LONG = "a" * 1024


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A server that answers as it is told."""
    async with playing() as played:
        yield played


def row(value: RangeValue) -> dict[str, Any]:
    """A record of either index, as an engine sends it."""
    own = {"t": {"S": "t!01"}, "text": {"S": value}}
    if not isinstance(value, str):
        own = {"n": {"S": "n!01"}, "number": {"N": str(value)}}
    return {"hashKey": {"S": "h!"}, "rangeKey": {"S": f"r{value}"}, **own}


def found(values: Sequence[RangeValue], *, more: bool) -> Reply:
    """An answer with these rows; more may be behind the last of them."""
    answer = {"Items": list(map(row, values)), "Count": len(values), "ScannedCount": len(values)}
    return Reply(answer | ({"LastEvaluatedKey": row(values[-1])} if more else {}))


async def asked(script: Script, read: RangeRead, want: int = 100) -> RowPage:
    """The page that the store makes of the script's answers to a read."""
    store = await script.open()
    (answer,) = await store.read_ranges([read], want)
    await store.close()
    assert isinstance(answer, RowPage), answer
    return answer


CONDITIONS: dict[str, tuple[RangeRead, str, dict[str, Mapping[str, str]]]] = {
    "all": (TEXT, "", {}),
    "from": (replace(TEXT, range=KeyRange("b")), " AND #r >= :low", {":low": {"S": "b"}}),
    "behind": (replace(TEXT, range=KeyRange("b", low_open=True)), " AND #r >= :low", {":low": {"S": "b\0"}}),
    "behind a long one": (
        replace(TEXT, range=KeyRange(LONG, low_open=True)),
        " AND #r > :low",
        {":low": {"S": LONG}},
    ),
    "to": (replace(TEXT, range=KeyRange(None, "b")), " AND #r <= :high", {":high": {"S": "b"}}),
    "before": (replace(TEXT, range=KeyRange(None, "b", high_open=True)), " AND #r < :high", {":high": {"S": "b"}}),
    "between": (
        replace(TEXT, range=KeyRange("a", "b")),
        " AND #r BETWEEN :low AND :high",
        {":low": {"S": "a"}, ":high": {"S": "b"}},
    ),
    "half open": (
        replace(TEXT, range=KeyRange("a", "b", low_open=True, high_open=True)),
        " AND #r BETWEEN :low AND :high",
        {":low": {"S": "a\0"}, ":high": {"S": "b"}},
    ),
    "number": (
        replace(NUMBER, range=KeyRange(1, Decimal("2.50"))),
        " AND #r BETWEEN :low AND :high",
        {":low": {"N": "1"}, ":high": {"N": "25E-1"}},
    ),
    "behind a number": (replace(NUMBER, range=KeyRange(1, low_open=True)), " AND #r > :low", {":low": {"N": "1"}}),
}


@pytest.mark.parametrize(("read", "condition", "values"), CONDITIONS.values(), ids=CONDITIONS.keys())
async def test_conditions(script: Script, read: RangeRead, condition: str, values: Mapping[str, Any]) -> None:
    """A range is one condition on the range key beside the hash key, never a filter."""
    script.tell("Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0}))
    for descending in (False, True):
        await asked(script, replace(read, descending=descending))
    for request, forward in zip(script.requests("Query"), (True, False), strict=True):
        assert request["KeyConditionExpression"] == f"#h = :h{condition}"
        assert request["ExpressionAttributeValues"] == {":h": {"S": read.hash_key}, **values}
        assert request["ScanIndexForward"] == forward
        assert request["IndexName"] == read.index
        assert "FilterExpression" not in request


@pytest.mark.parametrize(("limit", "want", "sent"), [(10, 3, 3), (3, 10, 3)])
async def test_limit(script: Script, limit: int, want: int, sent: int) -> None:
    """No more rows are asked for than the read allows and the caller can use."""
    script.tell("Query", found(["a"], more=False))
    await asked(script, replace(TEXT, limit=limit), want)
    (request,) = script.requests("Query")
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
async def test_limit_with_a_row_that_is_dropped(script: Script, range: KeyRange, descending: bool, sent: int) -> None:
    """A row that only the condition includes is no wanted one: where it comes first, one more is asked for."""
    script.tell("Query", found(["a"], more=False))
    await asked(script, replace(TEXT, limit=10, range=range, descending=descending), want=3)
    (request,) = script.requests("Query")
    assert request["Limit"] == sent


async def test_a_page(script: Script) -> None:
    """A page says up to where it looked and how much that was."""
    script.tell("Query", found(["a", "b"], more=True))
    page = await asked(script, TEXT)
    assert [row.position for row in page.rows] == [("a", 7, Key("h!", "ra")), ("b", 7, Key("h!", "rb"))]
    assert page.scanned_to == Position("b", 7, Key("h!", "rb"))
    assert page.records_read == 2


async def test_start_keys(script: Script) -> None:
    """A start key holds the keys of the table and of the index, and nothing else."""
    script.tell("Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0}))
    await asked(script, replace(NUMBER, start=StartKey(5, Key("h!", "r5"))))
    await asked(script, replace(TEXT, index=None, hash_key="h!", start=StartKey("r", Key("h!", "r"))))
    by_index, by_table = (request["ExclusiveStartKey"] for request in script.requests("Query"))
    keys = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r5"}}
    assert by_index == {**keys, "n": {"S": "n!01"}, "number": {"N": "5"}}
    assert by_table == {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}


async def test_the_farther_open_bound_ends_a_read(script: Script) -> None:
    """A row on the farther bound, which is open, is left out, and the read is done there whatever may follow."""
    script.tell("Query", found(["a", "b"], more=True), found([3, 2, 1], more=True))
    page = await asked(script, replace(TEXT, range=KeyRange("a", "b", high_open=True)))
    assert ([row.value for row in page.rows], page.scanned_to) == (["a"], None)
    page = await asked(script, replace(NUMBER, range=KeyRange(1, 3, low_open=True), descending=True))
    assert ([row.value for row in page.rows], page.scanned_to, page.records_read) == ([3, 2], None, 3)


async def test_many_rows_on_the_nearer_open_bound(script: Script) -> None:
    """Where an answer holds nothing but rows of the nearer bound, which is open, the read goes on behind them all."""
    script.tell("Query", found([1, 1, 1], more=True), found([2, 3, 4], more=True))
    page = await asked(script, replace(NUMBER, range=KeyRange(1, 3, low_open=True), limit=3))
    assert ([row.value for row in page.rows], page.scanned_to, page.records_read) == ([2, 3], None, 6)
    first, second = script.requests("Query")
    assert first["KeyConditionExpression"].endswith("#r BETWEEN :low AND :high")
    assert second["KeyConditionExpression"].endswith("#r > :low")
    assert "ExclusiveStartKey" not in second


async def test_many_rows_on_the_nearer_open_bound_backward(script: Script) -> None:
    """The same backward, for text."""
    script.tell("Query", found(["c", "c"], more=True), found(["b", "a"], more=True))
    page = await asked(script, replace(TEXT, range=KeyRange("b", "c", high_open=True), limit=2, descending=True))
    assert ([row.value for row in page.rows], page.scanned_to) == (["b"], None)
    assert script.requests("Query")[1]["KeyConditionExpression"].endswith("#r < :high")


async def test_rows_are_decoded_when_asked_for(script: Script) -> None:
    """A row keeps what the engine sent until somebody asks for its record."""
    script.tell("Query", Reply({"Items": [row("a") | {"x": {"NEW": 1}}], "Count": 1, "ScannedCount": 1}))
    page = await asked(script, TEXT)
    with pytest.raises(ValueError, match="0 types"):
        page.rows[0].item  # noqa: B018 - it is the asking that counts


async def test_one_hash_key_twice(script: Script) -> None:
    """Two reads of one hash key in one call are refused, before anything is asked."""
    store = await script.open()
    with pytest.raises(StoreRefused):
        await store.read_ranges([TEXT, replace(TEXT, ordinal=8)], 10)
    await store.close()
    assert script.counts["Query"] == 0


async def test_an_index_that_is_being_filled(script: Script) -> None:
    """An index that is not full yet cannot be read; once it is, it can, without opening the store again."""
    filling = [{**index, "IndexStatus": "CREATING"} for index in DESCRIPTION["GlobalSecondaryIndexes"]]
    script.tell(
        "DescribeTable",
        *[Reply({"Table": {**DESCRIPTION, "GlobalSecondaryIndexes": filling}})] * 2,
        Reply({"Table": DESCRIPTION}),
    )
    script.tell("Query", found(["a"], more=False))
    store = await script.open()
    with pytest.raises(StoreUnavailable, match="byText"):
        await store.read_ranges([TEXT], 10)
    (answer,) = await store.read_ranges([TEXT], 10)
    await store.close()
    assert isinstance(answer, RowPage)
