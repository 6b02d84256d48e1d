"""Traversals through GraphQL return the results of Python and of a sort, on every engine, with any number of shards."""

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
from tests.schema.graphql_client import GraphQLClient, client_for, open_database
from tests.schema.people_catalog import people_catalog, sample_people
from tests.support.dynamodb_servers import ENGINE, Server
from tests.support.run_depth import is_deep

SHARDS = [1, 16, 150]
PEOPLE = 230
SIZE = 70

Open = Callable[[int], AbstractAsyncContextManager[Database]]
"""opens a database with people on a number of shards"""


@pytest.fixture(params=["sqlite", ENGINE])
def open_people(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a database with people on an engine."""
    server: Server | None = request.getfixturevalue("dynamodb") if request.param == ENGINE else None

    @asynccontextmanager
    async def open_one(shards: int) -> AsyncIterator[Database]:
        catalog, person = people_catalog(shards)
        store = await (server.open(f"people{shards}-{tmp_path.name}") if server else open_sqlite(tmp_path / "x.db"))
        async with open_database(catalog, store, *sample_people(person, PEOPLE)) as db:
            yield db

    return open_one


Search = tuple[str, str, str, dict[str, Any], Callable[[Any], Any]]
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


def _expected_ids(search: Search, shards: int) -> list[str]:
    """The expected ids, computed from the sample records."""
    *_, arguments, order = search
    _, person = people_catalog(shards)
    found = [
        one
        for one in sample_people(person, PEOPLE)
        if one.town == arguments.get("town", one.town) and ("prefix" not in arguments or one.folded.startswith("an"))
    ]
    return [one.person_id for one in sorted(found, key=order)]


async def _forward(client: GraphQLClient, search: Any, *, reverse: bool, style: tuple[str, str]) -> list[str]:
    field, given, *_ = search
    size, token = style
    given += f" reverse: {str(reverse).lower()}"
    found: list[str] = []
    after = None
    while True:
        page = (
            await client.data(
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


async def _backward(client: GraphQLClient, search: Any) -> list[str]:
    field, given, *_ = search
    found: list[str] = []
    before = None
    while True:
        page = (
            await client.data(
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
async def test_traversals_equal_the_sorted_result(open_people: Open, shards: int, random: Random) -> None:
    """Forward, reverse and backward traversals, by token and by cursor, return the sorted result, equal to Python's."""
    async with open_people(shards) as db:
        client = client_for(db)
        is_slow = shards == SHARDS[-1] and not isinstance(db.store, SqliteStore)
        for search in random.sample(SEARCHES, 1 if is_slow and not is_deep() else len(SEARCHES)):
            expected = _expected_ids(search, shards)
            assert len(expected) > SIZE
            _, person = people_catalog(shards)
            _, _, index, arguments, _ = search
            python_page = await db.search(IndexRef(person, index), **arguments, limit=500)
            assert [one.person_id for one in python_page.items] == expected
            for style in (("limit", "nextToken"), ("first", "after")):
                assert await _forward(client, search, reverse=False, style=style) == expected, search[0]
                assert await _forward(client, search, reverse=True, style=style) == expected[::-1], search[0]
            assert await _backward(client, search) == expected, search[0]


@pytest.mark.parametrize("shards", SHARDS)
async def test_tie_order_of_a_raw_index(open_people: Open, shards: int) -> None:
    """Tied entries of a raw index have the same order in every traversal."""
    async with open_people(shards) as db:
        client = client_for(db)
        search = ("personByNote", "")
        whole = await _forward(client, search, reverse=False, style=("limit", "nextToken"))
        assert len(set(whole)) == len(whole) == PEOPLE
        assert await _forward(client, search, reverse=True, style=("first", "after")) == whole[::-1]
        assert await _backward(client, search) == whole


@pytest.mark.parametrize("shards", SHARDS)
async def test_cursors_are_interchangeable(open_people: Open, shards: int) -> None:
    """Edge cursors, start cursors, end cursors and next tokens are all valid for `after`, `before` and `nextToken`."""
    async with open_people(shards) as db:
        client = client_for(db)
        expected = _expected_ids(FOLDED, shards)
        page = "{ nextToken edges { cursor node { personId } } pageInfo { startCursor endCursor } }"
        pages = await client.data(f"{{ one: personByFolded(first: 30) {page} other: personByFolded(last: 30) {page} }}")
        positions: dict[str, int] = {}
        for found in pages.values():
            edges = found["edges"]
            positions |= {edge["cursor"]: expected.index(edge["node"]["personId"]) for edge in edges[::9]}
            positions[found["pageInfo"]["endCursor"]] = expected.index(edges[-1]["node"]["personId"])
            positions[found["pageInfo"]["startCursor"]] = expected.index(edges[0]["node"]["personId"])
            if found["nextToken"]:
                positions[found["nextToken"]] = expected.index(edges[-1]["node"]["personId"])
        query = (
            "query ($t: String!) {"
            " token: personByFolded(limit: 5, nextToken: $t) { items { personId } }"
            " after: personByFolded(first: 5, after: $t) { items { personId } }"
            " before: personByFolded(last: 5, before: $t) { items { personId } } }"
        )
        assert len(positions) >= 8
        for token, at in positions.items():
            found = await client.data(query, {"t": token})
            ids = {name: [item["personId"] for item in page["items"]] for name, page in found.items()}
            assert ids["token"] == ids["after"] == expected[at + 1 : at + 6]
            assert ids["before"] == expected[max(0, at - 5) : at]
