"""Filters and projections of DynamoDB queries: the expressions, the parts that are omitted, and consumed capacity."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreError
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.engines.dynamodb.filter_expressions import (
    MAX_CHARACTERS,
    MAX_IN,
    MAX_OPERATORS,
    MAX_VALUE_BYTES,
    QueryExpressions,
    build_expressions,
)
from graphql_api.storage.filter_evaluation import build_per_search
from graphql_api.storage.values import (
    AllOf,
    AnyOf,
    AttributeTest,
    IndexDefinition,
    Key,
    Position,
    RangeRead,
    RowPage,
    StoreFilter,
    TableDefinition,
)
from tests.storage.scripted_dynamodb import Reply, ScriptedDynamoDB, error_reply

ALL = IndexDefinition("all", "t", "text")
SOME = IndexDefinition("some", "t", "text", projection=("color", "size"))
TABLE = TableDefinition((ALL, SOME))
ITSELF = IndexDefinition("the table", "hashKey", "rangeKey")


def attribute_test(attribute: str, operation: str = "eq", *values: Any, or_missing: bool = False) -> AttributeTest:
    """A test of an attribute."""
    return AttributeTest(attribute, operation, values or ("v",), or_missing)


def filter_expressions(filter: StoreFilter, index: IndexDefinition = ALL) -> QueryExpressions:
    """The expressions of a filter."""
    return build_expressions(TABLE, index, filter, None)


A, B, C = attribute_test("a"), attribute_test("b"), attribute_test("c")

TEXTS: dict[str, tuple[StoreFilter, str]] = {
    "eq": (A, "#a2 = :a0"),
    "lt": (attribute_test("a", "lt"), "#a2 < :a0"),
    "le": (attribute_test("a", "le"), "#a2 <= :a0"),
    "gt": (attribute_test("a", "gt"), "#a2 > :a0"),
    "ge": (attribute_test("a", "ge"), "#a2 >= :a0"),
    "between": (attribute_test("a", "between", 1, 2), "#a2 BETWEEN :a0 AND :a1"),
    "in": (attribute_test("a", "in", 1, "x"), "#a2 IN (:a0, :a1)"),
    "prefix": (attribute_test("a", "prefix"), "begins_with(#a2, :a0)"),
    "contains": (attribute_test("a", "contains"), "contains(#a2, :a0)"),
    "or missing": (attribute_test("a", or_missing=True), "(#a2 = :a0 OR attribute_not_exists(#a2))"),
    "one attribute twice": (AllOf((attribute_test("a", "gt"), attribute_test("a", "lt"))), "#a2 > :a0 AND #a2 < :a1"),
    "any": (AnyOf((A, B)), "(#a2 = :a0 OR #a3 = :a1)"),
    "any of one": (AllOf((AnyOf((A,)), B)), "#a2 = :a0 AND #a3 = :a1"),
    "any within any": (AnyOf((A, AnyOf((B, C)))), "(#a2 = :a0 OR #a3 = :a1 OR #a4 = :a2)"),
    "all within any": (AnyOf((A, AllOf((B, C)))), "(#a2 = :a0 OR #a3 = :a1 AND #a4 = :a2)"),
    "any within all within any": (
        AnyOf((A, AllOf((B, AnyOf((A, C)))))),
        "(#a2 = :a0 OR #a3 = :a1 AND (#a2 = :a2 OR #a4 = :a3))",
    ),
    "all within all": (AllOf((A, AllOf((B, C)))), "#a2 = :a0 AND #a3 = :a1 AND #a4 = :a2"),
    "missing within any": (
        AnyOf((attribute_test("a", or_missing=True), B)),
        "(#a2 = :a0 OR attribute_not_exists(#a2) OR #a3 = :a1)",
    ),
}


@pytest.mark.parametrize(("filter", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_filter_expressions(filter: StoreFilter, text: str) -> None:
    """Each operation has its expression. Alternatives have exactly one pair of parentheses."""
    expressions = filter_expressions(filter)
    assert expressions.filter == text
    assert all(placeholder in text for placeholder in (*expressions.names, *expressions.values))


def test_values_of_filters() -> None:
    """Values are sent with their types, whole numbers and fractions alike."""
    values = ("x", 5, Decimal("2.50"), b"\xff", True, None)
    assert list(filter_expressions(attribute_test("a", "in", *values)).values.values()) == [
        {"S": "x"},
        {"N": "5"},
        {"N": "25E-1"},
        {"B": b"\xff"},
        {"BOOL": True},
        {"NULL": True},
    ]


OMITTED: dict[str, StoreFilter] = {
    "the index's hash attribute": attribute_test("t"),
    "the index's range attribute": attribute_test("text"),
    "the table's hash attribute": attribute_test("hashKey"),
    "the table's range attribute": attribute_test("rangeKey"),
    "an attribute that the index lacks": attribute_test("other"),
    "an order of booleans": attribute_test("color", "lt", True),
    "an order of null": attribute_test("color", "ge", None),
    "an order of lists": attribute_test("color", "gt", ["x"]),
    "bounds of two types": attribute_test("color", "between", 1, "x"),
    "reversed bounds": attribute_test("color", "between", 2, 1),
    "a prefix that is a number": attribute_test("color", "prefix", 1),
    "a part that is a number": attribute_test("color", "contains", 1),
    "no values": AttributeTest("color", "in", (), or_missing=False),
    "too many values": attribute_test("color", "in", *range(MAX_IN + 1)),
    "a number that cannot be sent": attribute_test("color", "eq", 10**200),
    "half a surrogate pair": attribute_test("color", "eq", "\ud800"),
    "an empty set": attribute_test("color", "eq", frozenset()),
    "a set of two types": attribute_test("color", "eq", frozenset({1, "x"})),
    "values that are too long": attribute_test("color", "eq", "x" * (MAX_VALUE_BYTES + 1)),
    "an unknown operation": attribute_test("color", "like"),
    "no alternatives": AnyOf(()),
}


@pytest.mark.parametrize("omitted", OMITTED.values(), ids=OMITTED.keys())
def test_unsupported_tests_are_omitted(omitted: StoreFilter) -> None:
    """Tests that DynamoDB would reject are omitted, with all their alternatives. The rest is sent."""
    sent = attribute_test("size")
    assert filter_expressions(omitted, SOME) == QueryExpressions()
    whole = filter_expressions(AllOf((omitted, sent, AnyOf((sent, omitted)))), SOME)
    assert (whole.filter, whole.names, whole.values) == ("#a2 = :a0", {"#a2": "size"}, {":a0": {"S": "v"}})


def test_keys_of_other_indexes_are_tested() -> None:
    """A read of the table may test the key attributes of indexes."""
    assert filter_expressions(attribute_test("text"), ITSELF).filter == "#a2 = :a0"


def test_large_filters() -> None:
    """A filter that exceeds a limit is sent as far as it fits, including later parts that still fit."""
    many = tuple(attribute_test("a", "in", *range(n, n + MAX_IN)) for n in range(20))
    expressions = filter_expressions(AllOf((*many, attribute_test("last"))))
    assert expressions.filter is not None
    assert MAX_CHARACTERS - 700 < len(expressions.filter) <= MAX_CHARACTERS
    assert expressions.filter.endswith(f" AND #a3 = :a{len(expressions.values) - 1}")
    assert set(expressions.names.values()) == {"a", "last"}
    assert all(re.search(rf"{placeholder}\b", expressions.filter) for placeholder in expressions.values)

    nullable = filter_expressions(AllOf(tuple(attribute_test("a", or_missing=True) for _ in range(300))))
    assert nullable.filter is not None
    operators = sum(map(nullable.filter.count, (" = ", " OR ", " AND ", "attribute_not_exists")))
    assert MAX_OPERATORS - 4 <= operators <= MAX_OPERATORS

    long = filter_expressions(AllOf(tuple(attribute_test("a", "eq", "x" * (MAX_VALUE_BYTES // 3)) for _ in range(5))))
    assert len(long.values) == 3


def test_reads_of_one_search_share_their_expressions() -> None:
    """Reads with the same filter and attributes share one expression object. Other reads have their own."""
    filter = AllOf((A, B))
    reads = [RangeRead("all", f"t!{shard}", shard, KeyRange(), 5, filter=filter) for shard in range(3)]
    first = reads[0]
    reads += [first._replace(filter=A), first._replace(filter=None), first._replace(attributes=frozenset("x"))]
    expressions = build_per_search(reads, lambda read: build_expressions(TABLE, ALL, read.filter, read.attributes))
    assert expressions[0] is expressions[1] is expressions[2]
    assert [each.filter for each in expressions[3:]] == ["#a2 = :a0", None, expressions[0].filter]
    assert [each.projection is None for each in expressions] == [True] * 5 + [False]


PROJECTIONS: dict[str, tuple[IndexDefinition, frozenset[str], set[str] | None]] = {
    "keys": (ALL, frozenset(), {"hashKey", "rangeKey", "t", "text"}),
    "some": (ALL, frozenset({"a", "text"}), {"hashKey", "rangeKey", "t", "text", "a"}),
    "of the table": (ITSELF, frozenset({"a"}), {"hashKey", "rangeKey", "a"}),
    "attributes that the index lacks": (SOME, frozenset({"a", "size"}), {"hashKey", "rangeKey", "t", "text", "size"}),
    "all attributes of the index": (SOME, frozenset({"a", "size", "color"}), None),
    "very many": (ALL, frozenset(map(str, range(200))), None),
}


@pytest.mark.parametrize(("index", "attributes", "expected"), PROJECTIONS.values(), ids=PROJECTIONS.keys())
def test_projections(index: IndexDefinition, attributes: frozenset[str], expected: set[str] | None) -> None:
    """A projection has all keys, each once, and the requested attributes that the index has."""
    expressions = build_expressions(TABLE, index, attribute_test("size", or_missing=True), attributes)
    if expected is None:
        assert expressions.projection is None
        return
    assert expressions.projection is not None
    names = {"#h": index.hash_attribute, **expressions.names}
    placeholders = expressions.projection.split(", ")
    assert len(set(names.values())) == len(names)
    assert sorted(names[placeholder] for placeholder in placeholders) == sorted(expected)


# --- with a scripted server -------------------------------------------------------------------------------------


NUMBER = RangeRead("byNumber", "n!01", 7, KeyRange(1, 5, low_open=True), 3, filter=attribute_test("color"))


def query_reply(*values: int, scanned: int, last: int | None) -> Reply:
    """A reply with rows of these numbers, the count of examined records, and the last one if more follow."""
    content = {"Items": list(map(_row, values)), "Count": len(values), "ScannedCount": scanned}
    return Reply(content if last is None else content | {"LastEvaluatedKey": _row(last)})


def _row(value: int) -> Mapping[str, Any]:
    keys = {"hashKey": {"S": "h!"}, "rangeKey": {"S": f"r{value}"}}
    return {**keys, "n": {"S": "n!01"}, "number": {"N": str(value)}}


async def read_page(server: ScriptedDynamoDB, read: RangeRead) -> RowPage:
    """Return the page of one read."""
    store = await server.open()
    (result,) = await store.read_ranges([read], 100)
    await store.close()
    assert isinstance(result, RowPage), result
    return result


async def test_a_page_without_matching_rows(server: ScriptedDynamoDB) -> None:
    """A reply without rows that ends within the range is progress: the page has its end and the examined records."""
    server.set_replies("Query", query_reply(scanned=3, last=4))
    page = await read_page(server, NUMBER)
    assert (page.rows, page.scanned_to, page.records_read) == ([], Position(4, 7, Key("h!", "r4")), 3)
    (request,) = server.requests("Query")
    assert request["FilterExpression"] == "#a2 = :a0"
    assert request["ExpressionAttributeNames"] == {"#h": "n", "#r": "number", "#a2": "color"}
    assert request["ExpressionAttributeValues"][":a0"] == {"S": "v"}
    assert request["Limit"] == 3


async def test_filtered_rows_on_an_exclusive_start_bound(server: ScriptedDynamoDB) -> None:
    """If all examined rows are on the exclusive start bound, the read continues after it."""
    server.set_replies("Query", query_reply(scanned=3, last=1), query_reply(2, scanned=3, last=4))
    page = await read_page(server, NUMBER)
    assert ([row.value for row in page.rows], page.scanned_to) == ([2], Position(4, 7, Key("h!", "r4")))
    assert page.records_read == 6
    assert server.requests("Query")[1]["KeyConditionExpression"] == "#h = :h AND #r > :low"


@pytest.mark.parametrize("values", [(), (2,)])
async def test_filtered_rows_at_the_end_of_a_range(server: ScriptedDynamoDB, values: tuple[int, ...]) -> None:
    """A read ends once the engine is past the range, even if no row shows it."""
    server.set_replies("Query", query_reply(scanned=3, last=1), query_reply(*values, scanned=3, last=6))
    page = await read_page(server, NUMBER)
    assert ([row.value for row in page.rows], page.scanned_to, page.records_read) == ([*values], None, 6)
    assert server.counts["Query"] == 2


async def test_filtered_rows_on_an_exclusive_end_bound(server: ScriptedDynamoDB) -> None:
    """A descending read ends if the engine has reached the exclusive end bound."""
    server.set_replies("Query", query_reply(3, scanned=3, last=1))
    page = await read_page(server, NUMBER._replace(descending=True))
    assert ([row.value for row in page.rows], page.scanned_to) == ([3], None)


# --- consumed capacity -----------------------------------------------------------------------------------------

KEY = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}


async def test_consumed_capacity_is_requested_on_demand(server: ScriptedDynamoDB) -> None:
    """Only a metered read requests its consumed capacity, and the capacity of all reads is added."""
    server.set_replies(
        "Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0, "ConsumedCapacity": {"CapacityUnits": 1.5}})
    )
    read = NUMBER._replace(filter=None)
    store = await server.open()
    await store.read_ranges([read], 5)
    with meter_capacity() as meter:
        await store.read_ranges([read, read._replace(hash_key="n!02", ordinal=8)], 5)
    await store.close()
    assert (meter.units, meter.estimated) == (3.0, False)
    requested = [request.get("ReturnConsumedCapacity") for request in server.requests("Query")]
    assert requested == [None, "TOTAL", "TOTAL"]


async def test_capacity_of_all_replies_is_added(server: ScriptedDynamoDB) -> None:
    """A batch in several parts consumes the sum of its parts. A failed attempt consumes nothing."""
    unprocessed = {"script": {"Keys": [KEY]}}
    server.set_replies(
        "BatchGetItem",
        Reply({"Responses": {}, "UnprocessedKeys": unprocessed, "ConsumedCapacity": [{"CapacityUnits": 0.5}]}),
        error_reply("InternalServerError", 500),
        Reply({"Responses": {"script": [KEY]}, "UnprocessedKeys": {}, "ConsumedCapacity": [{"CapacityUnits": 2.0}]}),
    )
    store = await server.open(attempts=3)
    with meter_capacity() as meter:
        await store.get_many([Key("h!", "r")], consistent=False)
    await store.close()
    assert meter.units == 2.5


@pytest.mark.parametrize("fields", [{}, {"ConsumedCapacity": {}}])
async def test_replies_without_capacity(server: ScriptedDynamoDB, fields: Mapping[str, Any]) -> None:
    """If the reply has no consumed capacity, the meter reports an unknown value, and the read succeeds."""
    server.set_replies("Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0, **fields}))
    store = await server.open()
    with meter_capacity() as meter:
        (result,) = await store.read_ranges([NUMBER], 5)
    await store.close()
    assert not isinstance(result, StoreError)
    assert meter.units is None
