"""What a query tests and answers as DynamoDB is asked for it, what is left out of that, and what it says it costs."""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from graphql_api.codecs.key_ranges import KeyRange
from graphql_api.errors import StoreError
from graphql_api.runtime.capacity_meter import meter_capacity
from graphql_api.storage.engines.dynamodb.filter_expressions import (
    MAX_CHARACTERS,
    MAX_IN,
    MAX_OPERATORS,
    MAX_VALUE_BYTES,
    QueryExpressions,
    build_expressions,
    build_expressions_of_reads,
)
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
from tests.unit.dynamo_script import Reply, Script, error, playing

ALL = IndexDefinition("all", "t", "text")
SOME = IndexDefinition("some", "t", "text", projection=("color", "size"))
TABLE = TableDefinition((ALL, SOME))
ITSELF = IndexDefinition("the table", "hashKey", "rangeKey")


def asks(attribute: str, operation: str = "eq", *values: Any, or_missing: bool = False) -> AttributeTest:
    """A test of an attribute."""
    return AttributeTest(attribute, operation, values or ("v",), or_missing)


def filtered(filter: StoreFilter, index: IndexDefinition = ALL) -> QueryExpressions:
    """The expressions of a filter."""
    return build_expressions(TABLE, index, filter, None)


A, B, C = asks("a"), asks("b"), asks("c")

TEXTS: dict[str, tuple[StoreFilter, str]] = {
    "eq": (A, "#a2 = :a0"),
    "lt": (asks("a", "lt"), "#a2 < :a0"),
    "le": (asks("a", "le"), "#a2 <= :a0"),
    "gt": (asks("a", "gt"), "#a2 > :a0"),
    "ge": (asks("a", "ge"), "#a2 >= :a0"),
    "between": (asks("a", "between", 1, 2), "#a2 BETWEEN :a0 AND :a1"),
    "in": (asks("a", "in", 1, "x"), "#a2 IN (:a0, :a1)"),
    "prefix": (asks("a", "prefix"), "begins_with(#a2, :a0)"),
    "contains": (asks("a", "contains"), "contains(#a2, :a0)"),
    "or missing": (asks("a", or_missing=True), "(#a2 = :a0 OR attribute_not_exists(#a2))"),
    "one attribute twice": (AllOf((asks("a", "gt"), asks("a", "lt"))), "#a2 > :a0 AND #a2 < :a1"),
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
        AnyOf((asks("a", or_missing=True), B)),
        "(#a2 = :a0 OR attribute_not_exists(#a2) OR #a3 = :a1)",
    ),
}


@pytest.mark.parametrize(("filter", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_filters_as_expressions(filter: StoreFilter, text: str) -> None:
    """Each comparison has its form, alternatives stand in parentheses, and nothing stands in two pairs of them."""
    extras = filtered(filter)
    assert extras.filter == text
    assert all(placeholder in text for placeholder in (*extras.names, *extras.values))


def test_values_of_filters() -> None:
    """Values go along with their types, whole and broken numbers alike."""
    values = ("x", 5, Decimal("2.50"), b"\xff", True, None)
    assert list(filtered(asks("a", "in", *values)).values.values()) == [
        {"S": "x"},
        {"N": "5"},
        {"N": "25E-1"},
        {"B": b"\xff"},
        {"BOOL": True},
        {"NULL": True},
    ]


LEFT_OUT: dict[str, StoreFilter] = {
    "the index's hash attribute": asks("t"),
    "the index's range attribute": asks("text"),
    "the table's hash attribute": asks("hashKey"),
    "the table's range attribute": asks("rangeKey"),
    "an attribute that the index lacks": asks("other"),
    "an order of truth values": asks("color", "lt", True),
    "an order of nothing": asks("color", "ge", None),
    "an order of lists": asks("color", "gt", ["x"]),
    "bounds of two types": asks("color", "between", 1, "x"),
    "bounds the wrong way round": asks("color", "between", 2, 1),
    "a prefix that is a number": asks("color", "prefix", 1),
    "a part that is a number": asks("color", "contains", 1),
    "no values": AttributeTest("color", "in", (), or_missing=False),
    "too many values": asks("color", "in", *range(MAX_IN + 1)),
    "a number that cannot be sent": asks("color", "eq", 10**200),
    "half a surrogate pair": asks("color", "eq", "\ud800"),
    "an empty set": asks("color", "eq", frozenset()),
    "a set of two types": asks("color", "eq", frozenset({1, "x"})),
    "values that are too long": asks("color", "eq", "x" * (MAX_VALUE_BYTES + 1)),
    "an unknown comparison": asks("color", "like"),
    "no alternatives": AnyOf(()),
}


@pytest.mark.parametrize("wrong", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_cannot_be_asked_is_left_out(wrong: StoreFilter) -> None:
    """What the protocol would refuse is not asked: the rest is, and no alternative to it stands alone."""
    right = asks("size")
    assert filtered(wrong, SOME) == QueryExpressions()
    whole = filtered(AllOf((wrong, right, AnyOf((right, wrong)))), SOME)
    assert (whole.filter, whole.names, whole.values) == ("#a2 = :a0", {"#a2": "size"}, {":a0": {"S": "v"}})


def test_keys_of_other_indexes_are_tested() -> None:
    """A read of the table tests the key attributes of indexes as any others."""
    assert filtered(asks("text"), ITSELF).filter == "#a2 = :a0"


def test_large_filters() -> None:
    """A filter that is too large is asked as far as it fits, and later parts that still fit are asked too."""
    many = tuple(asks("a", "in", *range(n, n + MAX_IN)) for n in range(20))
    extras = filtered(AllOf((*many, asks("last"))))
    assert extras.filter is not None
    assert MAX_CHARACTERS - 700 < len(extras.filter) <= MAX_CHARACTERS
    assert extras.filter.endswith(f" AND #a3 = :a{len(extras.values) - 1}")
    assert set(extras.names.values()) == {"a", "last"}
    assert all(re.search(rf"{placeholder}\b", extras.filter) for placeholder in extras.values)

    loose = filtered(AllOf(tuple(asks("a", or_missing=True) for _ in range(300))))
    assert loose.filter is not None
    operators = sum(map(loose.filter.count, (" = ", " OR ", " AND ", "attribute_not_exists")))
    assert MAX_OPERATORS - 4 <= operators <= MAX_OPERATORS

    long = filtered(AllOf(tuple(asks("a", "eq", "x" * (MAX_VALUE_BYTES // 3)) for _ in range(5))))
    assert len(long.values) == 3


def test_reads_of_one_search_share_their_expressions() -> None:
    """A filter of many reads is written down once; reads that ask for something else get their own."""
    filter = AllOf((A, B))
    reads = [RangeRead("all", f"t!{shard}", shard, KeyRange(), 5, filter=filter) for shard in range(3)]
    reads += [replace(reads[0], filter=A), replace(reads[0], filter=None), replace(reads[0], attributes=frozenset("x"))]
    extras = build_expressions_of_reads(TABLE, ALL, reads)
    assert extras[0] is extras[1] is extras[2]
    assert [each.filter for each in extras[3:]] == ["#a2 = :a0", None, extras[0].filter]
    assert [each.projection is None for each in extras] == [True] * 5 + [False]


PROJECTIONS: dict[str, tuple[IndexDefinition, frozenset[str], set[str] | None]] = {
    "keys": (ALL, frozenset(), {"hashKey", "rangeKey", "t", "text"}),
    "some": (ALL, frozenset({"a", "text"}), {"hashKey", "rangeKey", "t", "text", "a"}),
    "of the table": (ITSELF, frozenset({"a"}), {"hashKey", "rangeKey", "a"}),
    "what the index lacks": (SOME, frozenset({"a", "size"}), {"hashKey", "rangeKey", "t", "text", "size"}),
    "all that the index has": (SOME, frozenset({"a", "size", "color"}), None),
    "very many": (ALL, frozenset(map(str, range(200))), None),
}


@pytest.mark.parametrize(("index", "attributes", "answered"), PROJECTIONS.values(), ids=PROJECTIONS.keys())
def test_projections(index: IndexDefinition, attributes: frozenset[str], answered: set[str] | None) -> None:
    """The keys always come back, each under one name, and of what is asked for that which the index carries."""
    extras = build_expressions(TABLE, index, asks("size", or_missing=True), attributes)
    if answered is None:
        assert extras.projection is None
        return
    assert extras.projection is not None
    names = {"#h": index.hash_attribute, **extras.names}
    placeholders = extras.projection.split(", ")
    assert len(set(names.values())) == len(names)
    assert sorted(names[placeholder] for placeholder in placeholders) == sorted(answered)


# --- with an engine --------------------------------------------------------------------------------------------


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    """A server that answers as it is told."""
    async with playing() as played:
        yield played


NUMBER = RangeRead("byNumber", "n!01", 7, KeyRange(1, 5, low_open=True), 3, filter=asks("color"))


def found(*values: int, scanned: int, last: int | None) -> Reply:
    """An answer with rows of these numbers, out of so many that were looked at; the last of those, if more follow."""
    answer = {"Items": list(map(_row, values)), "Count": len(values), "ScannedCount": scanned}
    return Reply(answer if last is None else answer | {"LastEvaluatedKey": _row(last)})


def _row(value: int) -> Mapping[str, Any]:
    keys = {"hashKey": {"S": "h!"}, "rangeKey": {"S": f"r{value}"}}
    return {**keys, "n": {"S": "n!01"}, "number": {"N": str(value)}}


async def asked(script: Script, read: RangeRead) -> RowPage:
    """The page that the store makes of the script's answers to a read."""
    store = await script.open()
    (answer,) = await store.read_ranges([read], 100)
    await store.close()
    assert isinstance(answer, RowPage), answer
    return answer


async def test_a_page_of_which_nothing_passes(script: Script) -> None:
    """An answer without rows that names a place within the range is progress: how far it looked, and at how many."""
    script.tell("Query", found(scanned=3, last=4))
    page = await asked(script, NUMBER)
    assert (page.rows, page.scanned_to, page.records_read) == ([], Position(4, 7, Key("h!", "r4")), 3)
    (request,) = script.requests("Query")
    assert request["FilterExpression"] == "#a2 = :a0"
    assert request["ExpressionAttributeNames"] == {"#h": "n", "#r": "number", "#a2": "color"}
    assert request["ExpressionAttributeValues"][":a0"] == {"S": "v"}
    assert request["Limit"] == 3


async def test_rows_of_an_open_bound_that_a_filter_hides(script: Script) -> None:
    """Where all that was looked at lies on the nearer bound, which is open, the read goes on behind it."""
    script.tell("Query", found(scanned=3, last=1), found(2, scanned=3, last=4))
    page = await asked(script, NUMBER)
    assert ([row.value for row in page.rows], page.scanned_to) == ([2], Position(4, 7, Key("h!", "r4")))
    assert page.records_read == 6
    assert script.requests("Query")[1]["KeyConditionExpression"] == "#h = :h AND #r > :low"


@pytest.mark.parametrize("values", [(), (2,)])
async def test_the_end_of_a_range_that_a_filter_hides(script: Script, values: tuple[int, ...]) -> None:
    """A read whose condition has no farther bound ends where the engine stands beyond it, though no row tells so."""
    script.tell("Query", found(scanned=3, last=1), found(*values, scanned=3, last=6))
    page = await asked(script, NUMBER)
    assert ([row.value for row in page.rows], page.scanned_to, page.records_read) == ([*values], None, 6)
    assert script.counts["Query"] == 2


async def test_the_farther_open_bound_that_a_filter_hides(script: Script) -> None:
    """Backward too, and where the engine stands on the open bound itself."""
    script.tell("Query", found(3, scanned=3, last=1))
    page = await asked(script, replace(NUMBER, descending=True))
    assert ([row.value for row in page.rows], page.scanned_to) == ([3], None)


# --- what it costs ---------------------------------------------------------------------------------------------

KEY = {"hashKey": {"S": "h!"}, "rangeKey": {"S": "r"}}


async def test_the_price_is_asked_for_on_demand(script: Script) -> None:
    """Only where somebody keeps a bill is the engine asked what a read costs; what it says of all reads is added up."""
    script.tell(
        "Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0, "ConsumedCapacity": {"CapacityUnits": 1.5}})
    )
    read = replace(NUMBER, filter=None)
    store = await script.open()
    await store.read_ranges([read], 5)
    with meter_capacity() as meter:
        await store.read_ranges([read, replace(read, hash_key="n!02", ordinal=8)], 5)
    await store.close()
    assert (meter.units, meter.estimated) == (3.0, False)
    told = [request.get("ReturnConsumedCapacity") for request in script.requests("Query")]
    assert told == [None, "TOTAL", "TOTAL"]


async def test_every_answer_has_its_price(script: Script) -> None:
    """A batch that comes in pieces costs what all of its pieces say, and a try that fails costs nothing."""
    left = {"script": {"Keys": [KEY]}}
    script.tell(
        "BatchGetItem",
        Reply({"Responses": {}, "UnprocessedKeys": left, "ConsumedCapacity": [{"CapacityUnits": 0.5}]}),
        error("InternalServerError", 500),
        Reply({"Responses": {"script": [KEY]}, "UnprocessedKeys": {}, "ConsumedCapacity": [{"CapacityUnits": 2.0}]}),
    )
    store = await script.open(attempts=3)
    with meter_capacity() as meter:
        await store.get_many([Key("h!", "r")], consistent=False)
    await store.close()
    assert meter.units == 2.5


@pytest.mark.parametrize("told", [{}, {"ConsumedCapacity": {}}])
async def test_an_engine_without_prices(script: Script, told: Mapping[str, Any]) -> None:
    """Where the engine does not say what a read costs, the bill says that nobody knows; the read is none the worse."""
    script.tell("Query", Reply({"Items": [], "Count": 0, "ScannedCount": 0, **told}))
    store = await script.open()
    with meter_capacity() as meter:
        (answer,) = await store.read_ranges([NUMBER], 5)
    await store.close()
    assert not isinstance(answer, StoreError)
    assert meter.units is None
