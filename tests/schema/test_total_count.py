"""How many records an answer has: exact or at least, whatever page it is asked with, at a cost of its own."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Union
from tests.schema.asking import Asked, asked


class Thing(Entity, shards=Shards(5)):
    """Something with a number."""

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
    """Three hundred things, some of which have an alias too."""
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


async def count(ask: Asked, call: str, selection: str = COUNT) -> tuple[int, bool]:
    """What a page counts."""
    found = (await ask.data(f"{{ page: {call} {selection} }}"))["page"]["totalCount"]
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
    """Every search counts its whole answer, with its conditions and filter, each record once."""
    async with asked(CATALOG, tmp_path, *things()) as ask:
        assert await count(ask, call) == (expected, True)


async def test_the_page_does_not_matter(tmp_path: Path) -> None:
    """Every page of an answer has the same count, whichever way it was come to."""
    async with asked(CATALOG, tmp_path, *things()) as ask:
        query = 'query ($t: String) { page: thingByName(prefix: "n1", limit: 20, nextToken: $t) '
        query += "{ items { thingId } nextToken totalCount { value exact } } }"
        first = (await ask.data(query))["page"]
        second = (await ask.data(query, {"t": first["nextToken"]}))["page"]
        assert second["nextToken"] is None
        for call in ('thingByName(prefix: "n1", last: 1)', 'thingByName(prefix: "n1", first: 500)'):
            assert await count(ask, call) == (30, True)
        assert first["totalCount"] == second["totalCount"] == {"value": 30, "exact": True}


@pytest.mark.parametrize(("at_most", "expected"), [(1, (1, False)), (299, (299, False)), (300, (300, True))])
async def test_at_least(tmp_path: Path, at_most: int, expected: tuple[int, bool]) -> None:
    """Beyond `atMost` nothing is counted: there are so many, or more."""
    async with asked(CATALOG, tmp_path, *things()) as ask:
        assert await count(ask, "thingByName", f"{{ totalCount(atMost: {at_most}) {{ value exact }} }}") == expected


async def test_counting_reads_no_more_than_it_counts(tmp_path: Path) -> None:
    """A count that ends early reads little more than it counts, and no record by key where rows tell enough."""
    async with asked(CATALOG, tmp_path, *things()) as ask:
        await count(ask, 'thingByKind(kind: "a", limit: 1)', "{ totalCount(atMost: 10) { value exact } }")
        assert ask.counts.records_read <= 2 + 12
        assert ask.counts.gets == 0


@pytest.mark.parametrize("at_most", [0, -1, 10_001, 2**31 - 1])
async def test_bounds(tmp_path: Path, at_most: int) -> None:
    """`atMost` is a whole number from 1 to 10,000; another one leaves the page as it is, without its count."""
    async with asked(CATALOG, tmp_path, *things()[:3]) as ask:
        query = f"{{ page: thingByName {{ items {{ thingId }} totalCount(atMost: {at_most}) {{ value }} }} }}"
        answer = await ask.answer(query)
        (error,) = answer.body["errors"]
        assert error["extensions"] == {"code": "INVALID_LIMIT", "argument": "atMost"}
        assert error["path"] == ["page", "totalCount"]
        assert "from 1 to 10,000" in error["message"]


@pytest.mark.parametrize("at_most", ["null", "1.5", '"5"'])
async def test_bounds_of_another_type(tmp_path: Path, at_most: str) -> None:
    """What is no number is refused before anything runs."""
    async with asked(CATALOG, tmp_path) as ask:
        answer = await ask.answer(f"{{ thingByName {{ totalCount(atMost: {at_most}) {{ value }} }} }}")
        assert (answer.executed, answer.status) == (False, 400)


async def test_a_budget_of_its_own(tmp_path: Path) -> None:
    """A count for which too much would have to be looked at says how many it has found: at least so many."""
    rare = [
        Thing(thing_id=f"t{at}", kind="x", name="n", number=at, alias="rare" if at % 2_000 == 0 else None)
        for at in range(24_000)
    ]
    async with asked(CATALOG, tmp_path, *rare) as ask:
        value, exact = await count(ask, 'thingByName(limit: 1, filter: {alias: {eq: "rare"}})')
        assert not exact
        assert 9 <= value <= 11


async def test_what_counting_costs(tmp_path: Path) -> None:
    """A count is weighed by a tenth of what it may count, before anything is read."""
    async with asked(CATALOG, tmp_path, *things()) as ask:
        many = " ".join(f"c{at}: totalCount {{ value }}" for at in range(15))
        error = await ask.error(f"{{ thingByName {{ {many} }} }}")
        assert error["extensions"] == {"code": "QUERY_TOO_COSTLY", "limit": 15_000, "found": 1 + 15 * (1_000 + 2)}
        assert ask.counts.rounds == 0
        few = " ".join(f"c{at}: totalCount(atMost: 100) {{ value }}" for at in range(15))
        assert await ask.data(f"{{ thingByName {{ {few} }} }}")
        error = await ask.error(
            f"query ($n: Int!) {{ thingByName {{ {many.replace('totalCount', 'totalCount(atMost: $n)')} }} }}",
            {"n": 10_000},
        )
        assert error["extensions"]["found"] == 1 + 15 * (1_000 + 2)
