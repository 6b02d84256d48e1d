"""Walks through GraphQL give what Python gives and what sorting gives, on every engine and any number of shards."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api.database import Database
from graphql_api.model.markers import IndexRef
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from tests.depth import is_deep
from tests.dynamodb_local import ENGINE, Server
from tests.schema.asking import Asked, asking, opened
from tests.schema.people import people_catalog, some_people

SHARDS = [1, 16, 150]
PEOPLE = 230
SIZE = 70

Open = Callable[[int], AbstractAsyncContextManager[Database]]
"""a database with people over so many shards"""


@pytest.fixture(params=["sqlite", ENGINE])
def open_people(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens people on an engine."""
    server: Server | None = request.getfixturevalue("dynamodb") if request.param == ENGINE else None

    @asynccontextmanager
    async def open_one(shards: int) -> AsyncIterator[Database]:
        catalog, person = people_catalog(shards)
        store = await (server.open(f"people{shards}-{tmp_path.name}") if server else open_sqlite(tmp_path / "x.db"))
        async with opened(catalog, store, *some_people(person, PEOPLE)) as db:
            yield db

    return open_one


Search = tuple[str, str, str, dict[str, str], Callable[[Any], Any]]
"""a field, its arguments in GraphQL, the index, its arguments in Python, and the order"""

FOLDED: Search = ("personByFolded", "", "by_folded", {}, lambda one: (one.folded, -one.created, one.person_id))
TOWN: Search = ("personByTown", 'town: "Rom"', "by_town", {"town": "Rom"}, lambda one: (-one.created, one.person_id))
PREFIX: Search = (
    "personByFolded",
    'prefix: "Á-n"',
    "by_folded",
    {"prefix": "Á-n"},
    lambda one: (one.folded, -one.created, one.person_id),
)
ALL: Search = ("personById", "", "by_id", {}, attrgetter("person_id"))
SEARCHES = [FOLDED, TOWN, PREFIX, ALL]


def _sorted(search: Search, shards: int) -> list[str]:
    """The ids of the answer, from nothing but the records."""
    *_, arguments, order = search
    _, person = people_catalog(shards)
    found = [
        one
        for one in some_people(person, PEOPLE)
        if one.town == arguments.get("town", one.town) and ("prefix" not in arguments or one.folded.startswith("an"))
    ]
    return [one.person_id for one in sorted(found, key=order)]


async def _forward(ask: Asked, search: Any, *, reverse: bool, style: tuple[str, str]) -> list[str]:
    field, given, *_ = search
    size, token = style
    given += f" reverse: {str(reverse).lower()}"
    found: list[str] = []
    after = None
    while True:
        page = (
            await ask.data(
                f"query ($t: String) {{ page: {field}({given} {size}: {SIZE} {token}: $t) "
                "{ items { personId } nextToken edges { node { personId } } pageInfo { hasNextPage endCursor } } }",
                {"t": after},
            )
        )["page"]
        found += [item["personId"] for item in page["items"]]
        assert [edge["node"] for edge in page["edges"]] == page["items"]
        assert page["pageInfo"]["hasNextPage"] == (page["nextToken"] is not None)
        after = page["nextToken"] if size == "limit" else page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            return found
        assert len(page["items"]) == SIZE


async def _backward(ask: Asked, search: Any) -> list[str]:
    field, given, *_ = search
    found: list[str] = []
    before = None
    while True:
        page = (
            await ask.data(
                f"query ($t: String) {{ page: {field}({given} last: {SIZE} before: $t) "
                "{ items { personId } nextToken pageInfo { hasPreviousPage startCursor } } }",
                {"t": before},
            )
        )["page"]
        assert page["nextToken"] is None
        found = [item["personId"] for item in page["items"]] + found
        before = page["pageInfo"]["startCursor"]
        if not page["pageInfo"]["hasPreviousPage"]:
            return found
        assert len(page["items"]) == SIZE


@pytest.mark.parametrize("shards", SHARDS)
async def test_walks_give_the_sorted_answer(open_people: Open, shards: int, random: Random) -> None:
    """Forward, reverse and backward, by tokens and by cursors: all pages joined are the sorted answer, and Python's."""
    async with open_people(shards) as db:
        ask = asking(db)
        many_calls = shards == SHARDS[-1] and not isinstance(db.store, SqliteStore)
        for search in random.sample(SEARCHES, 1 if many_calls and not is_deep() else len(SEARCHES)):
            expected = _sorted(search, shards)
            assert len(expected) > SIZE
            _, person = people_catalog(shards)
            _, _, index, arguments, _ = search
            core = await db.search(IndexRef(person, index), **arguments, limit=500)
            assert [one.person_id for one in core.items] == expected
            for style in (("limit", "nextToken"), ("first", "after")):
                assert await _forward(ask, search, reverse=False, style=style) == expected, search[0]
                assert await _forward(ask, search, reverse=True, style=style) == expected[::-1], search[0]
            assert await _backward(ask, search) == expected, search[0]


@pytest.mark.parametrize("shards", SHARDS)
async def test_ties_on_a_raw_index_have_one_order(open_people: Open, shards: int) -> None:
    """Where records tie, every way of walking gives the one order that the engine has for them."""
    async with open_people(shards) as db:
        ask = asking(db)
        search = ("personByNote", "")
        whole = await _forward(ask, search, reverse=False, style=("limit", "nextToken"))
        assert len(set(whole)) == len(whole) == PEOPLE
        assert await _forward(ask, search, reverse=True, style=("first", "after")) == whole[::-1]
        assert await _backward(ask, search) == whole


@pytest.mark.parametrize("shards", SHARDS)
async def test_any_cursor_works_wherever_a_place_is_asked_for(open_people: Open, shards: int) -> None:
    """A cursor of an edge, start, end and nextToken of pages walked either way serve as after, before and nextToken."""
    async with open_people(shards) as db:
        ask = asking(db)
        expected = _sorted(FOLDED, shards)
        page = "{ nextToken edges { cursor node { personId } } pageInfo { startCursor endCursor } }"
        pages = await ask.data(f"{{ one: personByFolded(first: 30) {page} other: personByFolded(last: 30) {page} }}")
        places: dict[str, int] = {}
        for found in pages.values():
            edges = found["edges"]
            places |= {edge["cursor"]: expected.index(edge["node"]["personId"]) for edge in edges[::9]}
            places[found["pageInfo"]["endCursor"]] = expected.index(edges[-1]["node"]["personId"])
            places[found["pageInfo"]["startCursor"]] = expected.index(edges[0]["node"]["personId"])
            if found["nextToken"]:
                places[found["nextToken"]] = expected.index(edges[-1]["node"]["personId"])
        query = (
            "query ($t: String!) {"
            " token: personByFolded(limit: 5, nextToken: $t) { items { personId } }"
            " after: personByFolded(first: 5, after: $t) { items { personId } }"
            " before: personByFolded(last: 5, before: $t) { items { personId } } }"
        )
        assert len(places) >= 8
        for token, at in places.items():
            found = await ask.data(query, {"t": token})
            ids = {name: [item["personId"] for item in page["items"]] for name, page in found.items()}
            assert ids["token"] == ids["after"] == expected[at + 1 : at + 6]
            assert ids["before"] == expected[max(0, at - 5) : at]
