"""Filters through GraphQL: comparisons of every scalar, logical operators, limits, pages, and every kind of search."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from graphql import GraphQLInputObjectType

from graphql_api import (
    Catalog,
    Entity,
    Id,
    Index,
    Int32,
    Shards,
    SubId,
    Timestamp,
    TimestampMs,
    Union,
    canonical,
    derived,
)
from graphql_api.database import Database
from graphql_api.query.execution.result_page import Page
from graphql_api.query.filter_parser import MAX_COMPARISONS, MAX_NESTING, MAX_VALUES
from graphql_api.query.search_request import SearchRequest
from graphql_api.schema.graph import build_schema
from tests.schema.graphql_client import GraphQLClient, client_for, open_client
from tests.schema.graphql_text import argument_value, literal


class Level(Enum):
    """The declaration order of the members differs from the sort order of their values."""

    LOW = "z"
    MIDDLE = "m"
    HIGH = "a"


class Sample(Entity, shards=Shards(3)):
    """A record with an optional property of every type."""

    key: Id[str]
    big: int | None = None
    small: Int32 | None = None
    real: float | None = None
    amount: Decimal | None = None
    flag: bool | None = None
    text: str | None = None
    uuid: UUID | None = None
    day: date | None = None
    moment: datetime | None = None
    span: timedelta | None = None
    seconds: Timestamp | None = None
    millis: TimestampMs | None = None
    level: Level | None = None
    folded: str | None = derived(canonical, "text")
    tags: list[str] = []  # noqa: RUF012 - pydantic copies it
    marks: set[int] | None = None
    extra: dict[str, int] | None = None

    by_key = Index(sort="key")
    by_bare = Index(sort="key", projection="KEYS_ONLY", name="bare")
    by_folded = Index(sort="folded")
    by_day = Index(sort="day")
    by_either = Union("by_day", "by_day_too")
    by_day_too = Index(sort=["day", "big"], name="dayToo")


class Entry(Entity):
    """An entry of a history."""

    of: Id[str]
    at: SubId[int]
    note: str
    not_: str = ""

    by_note = Index(hash="note", sort="at")


CATALOG = Catalog(Sample, Entry)

VALUES: dict[str, Sequence[Any]] = {
    "big": (-(2**63), 9, 10),
    "small": (-5, 9, 10),
    "real": (-1e100, 9.5, 10.25),
    "amount": (Decimal("-1.5"), Decimal(9), Decimal(10)),
    "text": ("Ann", "Anna", "é|\U0001f600"),
    "uuid": (UUID(int=1), UUID(int=2), UUID(int=2**127)),
    "day": (date(1, 1, 1), date(2024, 2, 29), date(2024, 3, 1)),
    "moment": tuple(datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 10)),
    "span": (timedelta(days=-1), timedelta(seconds=9), timedelta(seconds=10)),
    "seconds": (-(2**53), 9, 10),
    "millis": (-(2**53), 9, 10),
    "level": (Level.LOW, Level.MIDDLE, Level.HIGH),
}
"""three ascending values of each property"""

KEYS = "{ items { key } }"


def samples(name: str) -> list[Sample]:
    """Return three records with values of a property, and one without."""
    values = zip("abc", VALUES[name], strict=True)
    return [Sample(key="n"), *(Sample.model_validate({"key": key, name: value}) for key, value in values)]


async def matching_keys(client: GraphQLClient, filter: Any, field: str = "samples(orderBy: KEY_ASC") -> str:
    """Return the keys of the matching records. Literals and variables give the same result."""
    data = await client.data(f"{{ page: {field}, filter: {literal(filter)}) {KEYS} }}")
    query = f"query ($f: SampleFilter) {{ page: {field}, filter: $f) {KEYS} }}"
    assert await client.data(query, {"f": filter}) == data
    return "".join(item["key"] for item in data["page"]["items"])


# --- comparisons -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES)
async def test_every_comparison_of_every_scalar(tmp_path: Path, name: str) -> None:
    """Comparisons agree with the order of the values. Missing values match only `ne` and `exists: false`."""
    codec = CATALOG.entity(Sample).properties[name].column.codec
    first, second, third = (argument_value(codec, value) for value in VALUES[name])
    expected: list[tuple[Mapping[str, Any], str]] = [
        ({"eq": second}, "b"),
        ({"ne": second}, "acn"),
        ({"in": [first, third, first]}, "ac"),
        ({"in": []}, ""),
        ({"lt": second}, "a"),
        ({"le": second}, "ab"),
        ({"gt": second}, "c"),
        ({"ge": second}, "bc"),
        ({"between": {"from": first, "to": second}}, "ab"),
        ({"between": {"from": third, "to": first}}, ""),
        ({"exists": True}, "abc"),
        ({"exists": False}, "n"),
        ({"gt": first, "lt": third}, "b"),
        ({}, "abcn"),
    ]
    async with open_client(CATALOG, tmp_path, *samples(name)) as client:
        for comparison, keys in expected:
            assert await matching_keys(client, {name: comparison}) == keys, comparison
            opposite = "".join(sorted({*"abcn"} - {*keys}))
            assert await matching_keys(client, {"not": {name: comparison}}) == opposite, comparison


async def test_booleans(tmp_path: Path) -> None:
    """Booleans support `eq`, `ne`, `in` and `exists`."""
    records = [Sample(key="f", flag=False), Sample(key="t", flag=True), Sample(key="n")]
    async with open_client(CATALOG, tmp_path, *records) as client:
        for comparison, keys in (
            ({"eq": False}, "f"),
            ({"ne": False}, "nt"),
            ({"in": [True]}, "t"),
            ({"exists": True}, "ft"),
        ):
            assert await matching_keys(client, {"flag": comparison}) == keys


async def test_texts(tmp_path: Path) -> None:
    """Texts also support `prefix` and `contains`, which are case-sensitive."""
    texts = {"a": "Jo|Ann", "b": "jo", "c": "Anna", "d": ""}
    async with open_client(CATALOG, tmp_path, *(Sample(key=key, text=text) for key, text in texts.items())) as client:
        for comparison, keys in (
            ({"prefix": "Jo"}, "a"),
            ({"prefix": ""}, "abcd"),
            ({"contains": "nn"}, "ac"),
            ({"contains": "|"}, "a"),
            ({"contains": ""}, "abcd"),
            ({"eq": ""}, "d"),
        ):
            assert await matching_keys(client, {"text": comparison}) == keys, comparison


async def test_derived_properties(tmp_path: Path) -> None:
    """The derivation of a property is applied to the operands of its comparisons."""
    texts = {"a": "Gómez-Juárez", "b": "GOMEZ", "c": "Gomes"}
    async with open_client(CATALOG, tmp_path, *(Sample(key=key, text=text) for key, text in texts.items())) as client:
        for comparison, keys in (
            ({"eq": "Gómez"}, "b"),
            ({"prefix": "GÓMEZ"}, "ab"),
            ({"contains": "Z-J"}, "a"),
            ({"in": ["gomes", "gó-mez"]}, "bc"),
        ):
            assert await matching_keys(client, {"folded": comparison}) == keys, comparison


async def test_lists_sets_and_maps(tmp_path: Path) -> None:
    """Lists and sets support `contains`, and every property supports `exists`."""
    records = [
        Sample(key="a", tags=["x", "y"], marks={1, 2**60}),
        Sample(key="b", tags=["xy"], extra={"x": 1}),
        Sample(key="n"),
    ]
    async with open_client(CATALOG, tmp_path, *records) as client:
        for filter, keys in (
            ({"tags": {"contains": "x"}}, "a"),
            ({"marks": {"contains": str(2**60)}}, "a"),
            ({"marks": {"exists": False}}, "bn"),
            ({"tags": {"exists": True}}, "abn"),
            ({"extra": {"exists": True}}, "b"),
        ):
            assert await matching_keys(client, filter) == keys, filter


def test_the_comparisons_of_each_type() -> None:
    """The filter type of each scalar offers exactly its comparisons."""
    ordered = {"eq", "ne", "in", "lt", "le", "gt", "ge", "between", "exists"}
    types = build_schema(CATALOG)._schema.type_map
    offered = {
        name: set(kind.fields)
        for name, kind in types.items()
        if isinstance(kind, GraphQLInputObjectType) and name.endswith("Filter")
        if name not in ("SampleFilter", "EntryFilter")
    }
    assert offered == {
        **{
            f"{name}Filter": ordered
            for name in ("BigInt", "Int", "Float", "Decimal", "UUID", "Date", "DateTime", "Duration")
        },
        **{f"{name}Filter": ordered for name in ("Timestamp", "TimestampMs", "Level")},
        "StringFilter": {*ordered, "prefix", "contains"},
        "BooleanFilter": {"eq", "ne", "in", "exists"},
        "StringListFilter": {"contains", "exists"},
        "BigIntListFilter": {"contains", "exists"},
        "ValueFilter": {"exists"},
    }


# --- logical operators -----------------------------------------------------------------------------------------


async def test_logical_operators(tmp_path: Path) -> None:
    """Comparisons of one filter all apply, and `and`, `or` and `not` combine filters."""
    async with open_client(CATALOG, tmp_path, *samples("big")) as client:
        nine, ten, some = {"big": {"eq": "9"}}, {"big": {"eq": "10"}}, {"big": {"exists": True}}
        for filter, keys in (
            ({"or": [nine, ten]}, "bc"),
            ({"or": [nine, {"key": {"in": ["a", "n"]}}]}, "abn"),
            ({"and": [some, {"not": nine}]}, "ac"),
            ({**some, "not": ten, "or": [nine, ten]}, "b"),
            ({"not": {"or": [nine, {"not": some}]}}, "ac"),
            ({"not": {"not": nine}}, "b"),
            ({"and": []}, "abcn"),
            ({"or": []}, ""),
            ({"not": {}}, ""),
            ({}, "abcn"),
        ):
            assert await matching_keys(client, filter) == keys, filter


async def test_properties_named_like_logical_operators(tmp_path: Path) -> None:
    """A property with the name of a logical operator gets a trailing underscore."""
    records = [Entry(of="o", at=at, note="x", not_=word) for at, word in enumerate(("yes", "no"))]
    async with open_client(CATALOG, tmp_path, *records) as client:
        query = '{ page: entryByNote(note: "x", filter: {not_: {eq: "no"}, not: {at: {eq: 5}}}) { items { at } } }'
        assert await client.data(query) == {"page": {"items": [{"at": "1"}]}}


# --- refused filters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "code", "message"),
    [
        ({"text": {"eq": None}}, "INVALID_VALUE", "text.eq: A comparison with null matches nothing"),
        ({"text": None}, "INVALID_VALUE", "A comparison with null matches nothing"),
        ({"flag": {"exists": None}}, "INVALID_VALUE", "flag.exists: A comparison with null matches nothing"),
        ({"not": None}, "INVALID_VALUE", "A filter maps property names"),
        ({"or": None}, "INVALID_VALUE", "or takes a list of filters."),
        ({"day": {"between": None}}, "INVALID_VALUE", "day.between: A comparison with null matches nothing"),
        ({"text": {"in": ["x"] * (MAX_VALUES + 1)}}, "FILTER_TOO_LARGE", "in has 101 values, and at most 100"),
        (
            {"or": [{"text": {"eq": "x"}}] * (MAX_COMPARISONS + 1)},
            "FILTER_TOO_LARGE",
            "or has 101 filters, and at most",
        ),
        ({"or": [{}] * MAX_COMPARISONS, "text": {"eq": "x"}}, "FILTER_TOO_LARGE", "has 101 comparisons, and at most"),
        ({"and": [{"or": [{"not": {}}] * 51}] * 2}, "FILTER_TOO_LARGE", "has 102 comparisons, and at most"),
    ],
)
async def test_refused_filters(tmp_path: Path, filter: Any, code: str, message: str) -> None:
    """Null operands and oversized filters are refused before any read, with code, argument and message."""
    async with open_client(CATALOG, tmp_path) as client:
        query = f"query ($f: SampleFilter) {{ page: samples(filter: $f) {KEYS} }}"
        error = await client.error(query, {"f": filter})
        assert error["extensions"] == {"code": code, "argument": "filter"}
        assert message in error["message"]
        assert client.counts.rounds == 0


async def test_the_largest_filters(tmp_path: Path) -> None:
    """The maximum numbers of comparisons, values and levels are accepted, and one more level is refused."""
    deepest: dict[str, Any] = {"key": {"eq": "a"}}
    for _ in range(MAX_NESTING):
        deepest = {"and": [deepest]}
    async with open_client(CATALOG, tmp_path, *samples("text")) as client:
        query = f"query ($f: SampleFilter) {{ page: samples(filter: $f) {KEYS} }}"
        for filter in (
            deepest,
            {"key": {"in": ["a", *map(str, range(MAX_VALUES - 1))]}},
            {"or": [{"key": {"eq": "a"}}, *({"text": {"eq": str(at)}} for at in range(MAX_COMPARISONS - 1))]},
        ):
            assert await client.data(query, {"f": filter}) == {"page": {"items": [{"key": "a"}]}}
        error = await client.error(query, {"f": {"or": [deepest]}})
        assert error["extensions"]["code"] == "FILTER_TOO_LARGE"
        assert "more than 10 levels" in error["message"]


@pytest.mark.parametrize(
    "filter",
    [
        '{txt: {eq: "x"}}',
        '{text: "x"}',
        "{text: {eq: 5}}",
        '{text: {gte: "x"}}',
        "{flag: {lt: true}}",
        '{tags: {eq: ["x"]}}',
        '{day: {between: {from: "2026-01-01"}}}',
        "{level: {eq: LOWEST}}",
        '{big: {eq: "much"}}',
        "{or: [null]}",
        "{text: {in: [null]}}",
        '"text"',
    ],
)
async def test_filters_that_do_not_fit_the_schema(tmp_path: Path, filter: str) -> None:
    """A filter that does not fit its input type is refused before execution."""
    async with open_client(CATALOG, tmp_path) as client:
        response = await client.execute(f"{{ samples(filter: {filter}) {KEYS} }}")
        assert (response.executed, response.status, {*response.codes}) == (False, 400, {"GRAPHQL_VALIDATION_FAILED"})
        assert client.counts.rounds == 0


async def test_a_null_filter(tmp_path: Path) -> None:
    """A null filter equals no filter."""
    async with open_client(CATALOG, tmp_path, Sample(key="a")) as client:
        assert await client.data(f"{{ page: samples(filter: null) {KEYS} }}") == {"page": {"items": [{"key": "a"}]}}


# --- pages -----------------------------------------------------------------------------------------------------

MANY = [Sample(key=f"{at:03d}", big=at % 3, day=date(2026, 1, 1 + at % 5), text=f"T{at % 7}") for at in range(100)]
THIRD = [sample.key for sample in MANY if sample.big == 1]
THIRD_FILTER = {"big": {"eq": "1"}}


@pytest.mark.parametrize("field", ["sampleByKey", "sampleByBare", "sampleById"])
@pytest.mark.parametrize("backward", [False, True])
async def test_pages_of_filtered_results(tmp_path: Path, field: str, backward: bool) -> None:
    """Pages are full and form the filtered result, in both directions, also for an index with keys only."""
    async with open_client(CATALOG, tmp_path, *MANY) as client:
        size, cursor = ("last", "before") if backward else ("first", "after")
        query = (
            f"query ($f: SampleFilter, $t: String) {{ page: {field}(filter: $f, {size}: 7, {cursor}: $t) "
            "{ edges { cursor node { key big } } pageInfo { startCursor endCursor hasNextPage hasPreviousPage } } }"
        )
        collected: list[str] = []
        token: str | None = None
        while True:
            page = (await client.data(query, {"f": THIRD_FILTER, "t": token}))["page"]
            keys = [edge["node"]["key"] for edge in page["edges"]]
            collected = keys + collected if backward else collected + keys
            assert {edge["node"]["big"] for edge in page["edges"]} == {"1"}
            if not page["pageInfo"]["hasPreviousPage" if backward else "hasNextPage"]:
                break
            assert len(keys) == 7
            token = page["pageInfo"]["startCursor" if backward else "endCursor"]
        assert collected == THIRD


async def test_a_token_belongs_to_its_filter(tmp_path: Path) -> None:
    """A page token is accepted with an equivalent filter and refused with any other."""
    query = "query ($f: SampleFilter, $t: String) { page: sampleByKey(filter: $f, limit: 3, nextToken: $t) "
    query += "{ items { key } nextToken } }"
    made_for = {"big": {"eq": "1"}, "text": {"exists": True}}
    async with open_client(CATALOG, tmp_path, *MANY) as client:
        token = (await client.data(query, {"f": made_for}))["page"]["nextToken"]
        for same in (
            made_for,
            {"text": {"exists": True}, "big": {"eq": 1}},
            {"and": [{"text": {"exists": True}}, {"big": {"eq": "1"}}]},
        ):
            page = (await client.data(query, {"f": same, "t": token}))["page"]
            assert [item["key"] for item in page["items"]] == THIRD[3:6], same
        for other in (None, {"big": {"eq": "2"}, "text": {"exists": True}}, {"big": {"eq": "1"}}):
            error = await client.error(query, {"f": other, "t": token})
            assert error["extensions"] == {"code": "TOKEN_MISMATCH", "argument": "nextToken"}
            assert "where big eq" in error["message"]


# --- every kind of search --------------------------------------------------------------------------------------


async def test_filters_on_every_kind_of_search(tmp_path: Path) -> None:
    """Filters apply to searches by id, searches by index, lists, unions and histories."""
    entries = [Entry(of=of, at=at, note="x" if at % 2 else "y") for of in "pq" for at in range(6)]
    third = "filter: {big: {eq: 1}}"
    async with open_client(CATALOG, tmp_path, *MANY, *entries) as client:
        for call, keys in (
            (f"sampleById(prefix: '01', {third})", [key for key in THIRD if key.startswith("01")]),
            (f"samples(orderBy: KEY_DESC, {third}, limit: 2)", THIRD[::-1][:2]),
            (f"sampleByKey(from: '050', reverse: true, {third})", [key for key in THIRD[::-1] if key >= "050"]),
            (
                f"sampleByEither(eq: '2026-01-02', {third})",
                [one.key for one in MANY if one.big == 1 and one.day == date(2026, 1, 2)],
            ),
        ):
            page = (await client.data(f"{{ page: {call} {KEYS} }}".replace("'", '"')))["page"]
            assert [item["key"] for item in page["items"]] == keys, call
        query = '{ page: entryById(id: "p", filter: {note: {eq: "x"}, at: {gt: 1}}) { items { of at } } }'
        items = (await client.data(query))["page"]["items"]
        assert [(item["of"], item["at"]) for item in items] == [("p", "3"), ("p", "5")]


async def test_a_filter_on_the_sort_property_narrows_the_range(tmp_path: Path) -> None:
    """A filter on the sort property of an index reads as few records as a condition."""
    async with open_client(CATALOG, tmp_path, *MANY) as client:
        client.reset_counts()
        assert await matching_keys(client, {"key": {"prefix": "09"}}, "sampleByKey(limit: 20") == "".join(
            sample.key for sample in MANY if sample.key.startswith("09")
        )
        assert client.counts.records_read == 2 * 10


class SmallBudgetDatabase(Database):
    """A database with a small read budget for each page."""

    __slots__ = ()

    async def page(self, request: SearchRequest) -> Page[Any]:
        return await super().page(replace(request, read_budget=20))


async def test_pages_that_reach_the_read_budget(tmp_path: Path) -> None:
    """A page that reaches the read budget is short with `stoppedBy: BUDGET`. Its token leads to the rest."""
    async with open_client(CATALOG, tmp_path, *MANY) as plain:
        db = plain.db
        client = client_for(SmallBudgetDatabase(db.catalog, db.store, db.seal, db.clock))
        query = (
            'query ($t: String) { page: sampleByKey(filter: {key: {contains: "9"}, big: {eq: 1}}, limit: 10, '
            "nextToken: $t) { items { key } nextToken stoppedBy complete pageInfo { hasNextPage endCursor } } }"
        )
        collected: list[str] = []
        stops: list[str | None] = []
        token: str | None = None
        while token is not None or not stops:
            page = (await client.data(query, {"t": token}))["page"]
            collected += [item["key"] for item in page["items"]]
            stops.append(page["stoppedBy"])
            token = page["nextToken"]
            assert page["complete"]
            assert page["pageInfo"]["hasNextPage"] == (token is not None)
        assert collected == [key for key in THIRD if "9" in key]
        assert {*stops[:-1]} == {"BUDGET"}
        assert stops[-1] is None
        assert len(stops) > 2
