"""`totalCount`: an exact number or a lower bound, the same on every page, with its own query cost."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Shards, Union
from tests.schema.graphql_client import GraphQLClient, open_client


class Thing(Entity, shards=Shards(5)):
    """Has a number and an optional alias."""

    thing_id: Id[str]
    kind: str
    name: str
    number: int
    alias: str | None = None

    by_name = Index(sort=["name", "number"])
    by_alias = Index(sort="alias")
    by_kind = Index(hash="kind", sort="number", projection="KEYS_ONLY")
    by_any_name = Union("by_name", "by_alias")


CATALOG = Catalog(Thing)
COUNT = "{ totalCount { value exact } }"


@cache
def things() -> Sequence[Thing]:
    """300 things, a quarter of them with an alias."""
    return [
        Thing(
            thing_id=f"t{at}",
            kind="ab"[at % 2],
            name=f"n{at % 10}",
            number=at,
            alias=None if at % 4 else f"n{at // 4 % 10}",
        )
        for at in range(300)
    ]


async def count_of(client: GraphQLClient, call: str, selection: str = COUNT) -> tuple[int, bool]:
    """The total count of a page."""
    found = (await client.data(f"{{ page: {call} {selection} }}"))["page"]["totalCount"]
    return found["value"], found["exact"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("thingByName", 300),
        ('thingByName(prefix: "n1")', 30),
        ('thingByName(eq: "n1", reverse: true)', 30),
        ('thingByName(name: {eq: "n1"}, number: {from: 100})', 20),
        ('thingByKind(kind: "a", to: 99)', 50),
        ('thingByKind(kind: "nothing")', 0),
        ('things(filter: {number: {lt: 7}, kind: {eq: "b"}})', 3),
        ('thingByKind(kind: "a", filter: {name: {eq: "n2"}})', 30),
        ('thingByAnyName(eq: "n1")', len({t.thing_id for t in things() if "n1" in (t.name, t.alias)})),
        (
            'thingByAnyName(eq: "n1", orderBy: NUMBER_DESC)',
            len({t.thing_id for t in things() if "n1" in (t.name, t.alias)}),
        ),
        ('thingById(id: "t5")', 1),
    ],
)
async def test_exact_counts(tmp_path: Path, call: str, expected: int) -> None:
    """The count covers all matches of the conditions and the filter, each record once."""
    async with open_client(CATALOG, tmp_path, *things()) as client:
        assert await count_of(client, call) == (expected, True)


async def test_every_page_has_the_same_count(tmp_path: Path) -> None:
    """Every page of a search has the same count, in every paging style and direction."""
    async with open_client(CATALOG, tmp_path, *things()) as client:
        query = 'query ($t: String) { page: thingByName(prefix: "n1", limit: 20, nextToken: $t) '
        query += "{ items { thingId } nextToken totalCount { value exact } } }"
        first = (await client.data(query))["page"]
        second = (await client.data(query, {"t": first["nextToken"]}))["page"]
        assert second["nextToken"] is None
        for call in ('thingByName(prefix: "n1", last: 1)', 'thingByName(prefix: "n1", first: 500)'):
            assert await count_of(client, call) == (30, True)
        assert first["totalCount"] == second["totalCount"] == {"value": 30, "exact": True}


@pytest.mark.parametrize(("at_most", "expected"), [(1, (1, False)), (299, (299, False)), (300, (300, True))])
async def test_lower_bounds(tmp_path: Path, at_most: int, expected: tuple[int, bool]) -> None:
    """Counting stops at `atMost`, and the value is then a lower bound."""
    async with open_client(CATALOG, tmp_path, *things()) as client:
        assert (
            await count_of(client, "thingByName", f"{{ totalCount(atMost: {at_most}) {{ value exact }} }}") == expected
        )


async def test_reads_of_a_limited_count(tmp_path: Path) -> None:
    """A limited count reads few more records than it counts, and fetches none by key if the index covers the search."""
    async with open_client(CATALOG, tmp_path, *things()) as client:
        await count_of(client, 'thingByKind(kind: "a", limit: 1)', "{ totalCount(atMost: 10) { value exact } }")
        assert client.counts.records_read <= 2 + 12
        assert client.counts.gets == 0


@pytest.mark.parametrize("at_most", [0, -1, 10_001, 2**31 - 1])
async def test_limits_of_at_most(tmp_path: Path, at_most: int) -> None:
    """`atMost` is 1 to 10,000; for another number the page is returned without its count."""
    async with open_client(CATALOG, tmp_path, *things()[:3]) as client:
        query = f"{{ page: thingByName {{ items {{ thingId }} totalCount(atMost: {at_most}) {{ value }} }} }}"
        answer = await client.execute(query)
        (error,) = answer.body["errors"]
        assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": "atMost"}
        assert error["path"] == ["page", "totalCount"]
        assert "from 1 to 10,000" in error["message"]


@pytest.mark.parametrize("at_most", ["1.5", '"5"'])
async def test_type_of_at_most(tmp_path: Path, at_most: str) -> None:
    """An `atMost` that is no integer is refused before execution."""
    async with open_client(CATALOG, tmp_path) as client:
        answer = await client.execute(f"{{ thingByName {{ totalCount(atMost: {at_most}) {{ value }} }} }}")
        assert (answer.executed, answer.status) == (False, 400)


async def test_count_budget(tmp_path: Path) -> None:
    """A count that exceeds its read budget returns the number found so far as a lower bound."""
    rare = [
        Thing(thing_id=f"t{at}", kind="x", name="n", number=at, alias="rare" if at % 2_000 == 0 else None)
        for at in range(24_000)
    ]
    async with open_client(CATALOG, tmp_path, *rare) as client:
        value, exact = await count_of(client, 'thingByName(limit: 1, filter: {alias: {eq: "rare"}})')
        assert not exact
        assert 9 <= value <= 11


class Box(Entity):
    """A box of parts."""

    box_id: Id[str]
    parts = HasMany("Part", via="by_box")


class Part(Entity):
    """A part of a box."""

    part_id: Id[str]
    box_id: str

    by_box = Index(hash="box_id", sort="part_id")


async def test_counts_of_the_lists_of_records(tmp_path: Path) -> None:
    """Counts of the lists of 50 records are within the default cost limit: they count up to 1,000 by default."""
    parts = [Part(part_id=f"p{at:04}", box_id="b0") for at in range(1_200)]
    boxes = [Box(box_id=f"b{at}") for at in range(2)]
    async with open_client(Catalog(Box, Part), tmp_path, *boxes, *parts) as client:
        query = "{ boxes(limit: 50) { items { parts(limit: 20) { items { partId } totalCount { value exact } } } } }"
        items = (await client.data(query))["boxes"]["items"]
        assert [item["parts"]["totalCount"] for item in items] == [
            {"value": 1_000, "exact": False},
            {"value": 0, "exact": True},
        ]
        spread = "{ boxes { items { ...f } } } fragment f on Box { parts { totalCount { value } } }"
        assert (await client.execute(spread)).executed
        exact = query.replace("totalCount", "totalCount(atMost: 4000)")
        assert (await client.error(exact))["extensions"]["code"] == "QUERY_TOO_COSTLY"
        items = (await client.data(exact.replace("limit: 50", "limit: 2")))["boxes"]["items"]
        assert items[0]["parts"]["totalCount"] == {"value": 1_200, "exact": True}


async def test_query_cost_of_counts(tmp_path: Path) -> None:
    """The query cost of a count is a tenth of its limit, and is checked before any read."""
    async with open_client(CATALOG, tmp_path, *things()) as client:
        many = " ".join(f"c{at}: totalCount {{ value }}" for at in range(15))
        error = await client.error(f"{{ thingByName {{ {many} }} }}")
        assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 15_000, "found": 1 + 15 * (1_000 + 2)}
        assert client.counts.rounds == 0
        few = " ".join(f"c{at}: totalCount(atMost: 100) {{ value }}" for at in range(15))
        assert await client.data(f"{{ thingByName {{ {few} }} }}")
        error = await client.error(
            f"query ($n: Int!) {{ thingByName {{ {many.replace('totalCount', 'totalCount(atMost: $n)')} }} }}",
            {"n": 10_000},
        )
        assert error["extensions"]["found"] == 1 + 15 * (1_000 + 2)
