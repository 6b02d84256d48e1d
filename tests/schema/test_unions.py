"""Unions of indexes: each record once, in one order, with both paging styles, and sorted with `orderBy`."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id, Index, Shards, Union, canonical, derived
from graphql_api.examples.users import User, catalog
from graphql_api.schema.graph import build_schema
from tests.schema.graphql_client import GraphQLClient, open_client


class Person(Entity, shards=Shards(4)):
    """Has two names and an optional nickname."""

    person_id: Id[str]
    town: str
    first_name: str
    last_name: str
    nick: str | None = None
    born: date | None = None
    first: str = derived(canonical, "first_name")
    last: str = derived(canonical, "last_name")

    by_first = Index(sort=["first", "last"])
    by_last = Index(sort=["last", "first"])
    by_nick = Index(sort="nick")
    by_name = Union("by_first", "by_last", "by_nick")
    by_town_first = Index(hash="town", sort="first")
    by_town_nick = Index(hash="town", sort="nick")
    by_town_name = Union("by_town_nick", "by_town_first")


CATALOG = Catalog(Person)
NAMES = ("Ann", "anna", "Ánn", "Bo", "Bob", "Zoë", "Gómez", "gomez")


@cache
def people() -> Sequence[Person]:
    """All combinations of first name, last name and nickname, some without a nickname."""
    return [
        Person(
            person_id=f"p{at:03d}",
            town=("Rom", "Oslo")[at % 2],
            first_name=NAMES[at % 8],
            last_name=NAMES[at // 8 % 8],
            nick=None if at % 3 else canonical(NAMES[at % 5]),
            born=None if at % 7 == 0 else date(2000, 1, 1 + at % 28),
        )
        for at in range(130)
    ]


def expected_ids(prefix: str, *, reverse: bool = False) -> list[str]:
    """The ids index by index, each in its own order, without duplicates."""
    canonical_prefix = canonical(prefix)
    orders: list[tuple[Callable[[Person], str | None], Callable[[Person], Any]]] = [
        (lambda one: one.first, lambda one: (one.first, one.last, one.person_id)),
        (lambda one: one.last, lambda one: (one.last, one.first, one.person_id)),
        (lambda one: one.nick, lambda one: (one.nick, one.person_id)),
    ]
    ids: dict[str, None] = {}
    for name, order in orders:
        found = [one for one in people() if (text := name(one)) is not None and text.startswith(canonical_prefix)]
        ids |= dict.fromkeys(one.person_id for one in sorted(found, key=order, reverse=reverse))
    return [*ids]


def ids_of(page: Any) -> list[str]:
    """The ids of the records of a page."""
    return [item["personId"] for item in page["items"]]


async def traverse(client: GraphQLClient, call: str, size: str, cursor: str, on: str) -> Iterator[list[str]]:
    """The pages of a traversal, in the order of reading."""
    selection = "{ items { personId } edges { node { personId } } nextToken pageInfo { startCursor endCursor "
    selection += "hasNextPage hasPreviousPage } }"
    query = f"query ($t: String) {{ page: personByName({call}, {size}: 7, {cursor}: $t) {selection} }}"
    pages: list[list[str]] = []
    token: str | None = None
    while True:
        page = (await client.data(query, {"t": token}))["page"]
        assert [edge["node"] for edge in page["edges"]] == page["items"]
        pages.append(ids_of(page))
        info = page["pageInfo"]
        token = page["nextToken"] if on == "nextToken" else info[on]
        if not info["hasPreviousPage" if size == "last" else "hasNextPage"]:
            return iter(pages)
        assert len(pages[-1]) == 7


# --- pages -----------------------------------------------------------------------------------------------------

STYLES = [("limit", "nextToken", "nextToken"), ("first", "after", "endCursor"), ("last", "before", "startCursor")]


@pytest.mark.parametrize(("size", "cursor", "on"), STYLES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("prefix", ["", "b", "a", "GÓMEZ", "x"])
async def test_pages_of_a_union(tmp_path: Path, prefix: str, reverse: bool, size: str, cursor: str, on: str) -> None:
    """The pages of a union return index after index in its own order, full pages except the last, each record once."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        call = f'prefix: "{prefix}", reverse: {str(reverse).lower()}'
        pages = [*await traverse(client, call, size, cursor, on)]
        ids = [id for page in (pages[::-1] if size == "last" else pages) for id in page]
        assert ids == expected_ids(prefix, reverse=reverse)
        assert len(ids) == len({*ids})
        assert bool(ids) == (prefix != "x")


async def test_cursors_work_in_both_directions(tmp_path: Path) -> None:
    """Any cursor continues in both directions, also across the boundary of two indexes."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        whole = expected_ids("b")
        page = (await client.data('{ page: personByName(prefix: "b") { edges { cursor } } }'))["page"]
        for at, edge in enumerate(page["edges"]):
            query = (
                'query ($t: String) { on: personByName(prefix: "b", first: 3, after: $t) { items { personId } } '
                'back: personByName(prefix: "b", last: 3, before: $t) { items { personId } } }'
            )
            found = await client.data(query, {"t": edge["cursor"]})
            assert ids_of(found["on"]) == whole[at + 1 : at + 4]
            assert ids_of(found["back"]) == whole[max(0, at - 3) : at]


async def test_union_with_hash_properties(tmp_path: Path) -> None:
    """A union of hashed indexes takes their hash properties, and returns records that only one index contains."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        query = '{ page: personByTownName(town: "Rom", prefix: "bo", limit: 100) { items { personId } nextToken } }'
        page = (await client.data(query))["page"]
        rom = [one for one in people() if one.town == "Rom"]
        by_nick = [one for one in rom if one.nick is not None and one.nick.startswith("bo")]
        by_first = [one for one in rom if one.first.startswith("bo") and one not in by_nick]
        assert ids_of(page) == [
            *(one.person_id for one in sorted(by_nick, key=lambda one: (one.nick, one.person_id))),
            *(one.person_id for one in sorted(by_first, key=lambda one: (one.first, one.person_id))),
        ]
        assert page["nextToken"] is None
        assert by_nick
        assert any(one.nick is None for one in by_first)


async def test_canonical_names(tmp_path: Path) -> None:
    """A name matches every spelling with the same canonical form, in each of the names."""
    gomez = Person(person_id="g", town="Rom", first_name="José", last_name="Gómez-Juárez")
    jose = Person(person_id="j", town="Rom", first_name="GOMEZ", last_name="Ann")
    async with open_client(CATALOG, tmp_path, gomez, jose) as client:
        for given in ('prefix: "Gómez"', 'prefix: "gomez"', 'prefix: "GÓ-MEZ"', 'from: "Gömez", to: "gomezz"'):
            assert ids_of(
                (await client.data(f"{{ page: personByName({given}) {{ items {{ personId }} }} }}"))["page"]
            ) == [
                "j",
                "g",
            ]
        found = await client.data('{ page: personByName(eq: "GÓMEZ JUÁREZ") { items { firstName } } }')
        assert found["page"]["items"] == [{"firstName": "José"}]


async def test_name_search_of_the_example(tmp_path: Path) -> None:
    """In the example, one search finds people by first or last name."""
    people = [
        User(user_id=id, beneficiary_id="b", created=1, updated=1, first_name=first, last_name=last)
        for id, first, last in (("1", "Zoë", "Gómez"), ("2", "Gomez", "Addams"), ("3", "Gomes", "Gómez"))
    ]
    async with open_client(catalog, tmp_path, *people) as client:
        for name in ("Gómez", "gomez"):
            found = await client.data(f'{{ page: userByName(prefix: "{name}") {{ items {{ userId }} }} }}')
            assert [item["userId"] for item in found["page"]["items"]] == ["2", "3", "1"]


async def test_token_of_a_union(tmp_path: Path) -> None:
    """A token of a union is valid for that union, but not for one of its indexes."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        token = (await client.data('{ page: personByName(prefix: "a", limit: 2) { nextToken } }'))["page"]["nextToken"]
        for other in ("personByFirst", "personByLast"):
            query = f'query ($t: String) {{ page: {other}(prefix: "a", nextToken: $t) {{ nextToken }} }}'
            error = await client.error(query, {"t": token})
            assert error["extensions"]["code"] == "TOKEN_MISMATCH"


def test_arguments_of_a_union() -> None:
    """A union takes flat conditions, a filter, paging and `orderBy`, but no conditions by property."""
    query = build_schema(CATALOG)._schema.query_type
    assert query is not None
    paging = ["reverse", "limit", "nextToken", "first", "after", "last", "before", "onShardFailure"]
    flat = ["eq", "prefix", "from", "to", "filter", "orderBy"]
    assert [*query.fields["personByName"].args] == [*flat, *paging]
    assert [*query.fields["personByTownName"].args] == ["town", "townIn", *flat, *paging]
    kind: Any = query.fields["personByName"].args["orderBy"].type
    assert kind.name == "PersonByNameSort"
    assert {"BORN_ASC", "BORN_DESC", "FIRST_NAME_ASC", "PERSON_ID_DESC"} <= {*kind.values}


# --- orderBy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "key", "descending"),
    [
        ("PERSON_ID_ASC", lambda one: one.person_id, False),
        ("PERSON_ID_DESC", lambda one: one.person_id, True),
        ("BORN_ASC", lambda one: (one.born is not None, one.born), False),
        ("BORN_DESC", lambda one: (one.born is not None, one.born), True),
        ("LAST_NAME_ASC", lambda one: one.last_name, False),
    ],
)
async def test_order_by(tmp_path: Path, order: str, key: Callable[[Person], Any], descending: bool) -> None:
    """`orderBy` returns the whole result as one sorted page, nulls first in ascending order, ties in search order."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        by_id = {one.person_id: one for one in people()}
        matches = [by_id[id] for id in expected_ids("b")]
        query = f'{{ page: personByName(prefix: "b", orderBy: {order}) {{ items {{ personId }} nextToken '
        query += "pageInfo { hasNextPage hasPreviousPage } stoppedBy } }"
        page = (await client.data(query))["page"]
        assert ids_of(page) == [one.person_id for one in sorted(matches, key=key, reverse=descending)]
        assert page["nextToken"] is None
        assert page["pageInfo"] == {"hasNextPage": False, "hasPreviousPage": False}
        assert page["stoppedBy"] is None


async def test_order_by_with_a_filter(tmp_path: Path) -> None:
    """A filter is applied before sorting."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        query = (
            '{ page: personByName(prefix: "b", orderBy: BORN_DESC, filter: {town: {eq: "Rom"}, born: {exists: true}}) '
        )
        query += "{ items { personId born } } }"
        items = (await client.data(query))["page"]["items"]
        rom = {one.person_id for one in people() if one.town == "Rom" and one.born is not None} & {*expected_ids("b")}
        assert {item["personId"] for item in items} == rom
        assert [item["born"] for item in items] == sorted((item["born"] for item in items), reverse=True)


@pytest.mark.parametrize(("count", "sorts"), [(1_000, True), (1_001, False)])
async def test_sort_limit(tmp_path: Path, count: int, sorts: bool) -> None:
    """1,000 matches are sorted. More are an error that states the remedy; duplicates count once."""
    people = [
        Person(person_id=f"p{at:04d}", town="Rom", first_name="Ann", last_name=f"Anna{at % 7}") for at in range(count)
    ]
    async with open_client(CATALOG, tmp_path, *people) as client:
        query = '{ page: personByName(prefix: "ann", orderBy: PERSON_ID_DESC) { items { personId } } }'
        if sorts:
            assert ids_of((await client.data(query))["page"]) == [one.person_id for one in people[::-1]]
        else:
            error = await client.error(query)
            assert error["extensions"] == {"code": "TOO_MANY_TO_SORT"}
            assert "More than 1,000 records match" in error["message"]
            assert "Narrow the search" in error["message"]


@pytest.mark.parametrize(
    "argument",
    [
        *("limit: 5", "first: 5", "last: 5", "reverse: true", "onShardFailure: PARTIAL"),
        *('nextToken: "x"', 'after: "x"', 'before: "x"'),
    ],
)
async def test_order_by_excludes_paging(tmp_path: Path, argument: str) -> None:
    """Paging arguments are refused together with `orderBy`, by name and without a read."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        error = await client.error(f"{{ personByName(orderBy: BORN_ASC, {argument}) {{ nextToken }} }}")
        assert error["extensions"] == {"code": "CONFLICTING_ARGUMENTS", "argument": "orderBy"}
        assert argument.partition(":")[0] in error["message"]
        assert client.counts.rounds == 0


async def test_query_cost_of_sorting(tmp_path: Path) -> None:
    """A sorted search has the query cost of 1,000 records."""
    async with open_client(CATALOG, tmp_path, *people()) as client:
        fields = " ".join(f"f{at}: personId" for at in range(20))
        error = await client.error(f"{{ personByName(orderBy: BORN_ASC) {{ items {{ {fields} }} }} }}")
        assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"
        assert error["extensions"]["found"] == 2 + 1_000 * 21
        assert await client.data(f"{{ personByName {{ items {{ {fields} }} }} }}")
        assert client.counts.rounds > 0
