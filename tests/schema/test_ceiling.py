"""Capacity ceilings of GraphQL operations: fields share the ceiling, and each field fits, ends early or is refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Ref, Shards, SubId, Unique
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, open_client


class Author(Entity, max_record_bytes=1_000):
    """An author."""

    author_id: Id[str]
    name: str

    books = HasMany("Book", via="by_author")


class Book(Entity, shards=Shards(4), max_record_bytes=1_000):
    """A book."""

    book_id: Id[str]
    author_id: str
    title: str
    isbn: Unique[str | None] = None

    by_title = Index(sort="title")
    by_author = Index(hash="author_id", sort="title")
    author = Ref("Author", by="author_id")


class Loan(Entity, max_record_bytes=1_000):
    """The history of loans of a book."""

    book: Id[str]
    at: SubId[int]


CATALOG = Catalog(Author, Book, Loan)
RECORDS = [
    *(Author(author_id=f"a{at}", name="x") for at in range(5)),
    *(Book(book_id=f"b{at:02}", author_id=f"a{at % 5}", title=f"T{at:02}") for at in range(40)),
    *(Loan(book="b01", at=at) for at in range(3)),
]
BOOKS = "{ bookByTitle(limit: 40%s) { items { bookId } nextToken stoppedBy } }"


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[GraphQLClient]:
    """Opens a client for authors with books."""
    async with open_client(CATALOG, folder, *RECORDS) as client:
        yield client


def caller(max_units: float | None, **more: Any) -> Caller:
    """Returns a caller with a ceiling."""
    return Caller("c-1", max_units=max_units, **more)


@pytest.mark.parametrize("max_units", [2, 3, 4, 50])
async def test_pages_under_a_ceiling_join_to_the_whole_result(tmp_path: Path, max_units: float) -> None:
    """Pages that a ceiling ends say so, and continue exactly there."""
    async with opened(tmp_path) as client:
        found, token, stops = list[str](), "", set[str | None]()
        while True:
            with meter_capacity() as meter:
                data = await client.data(BOOKS % token, caller=caller(max_units))
            assert meter.total is not None
            assert meter.total <= max_units
            page = data["bookByTitle"]
            found += [item["bookId"] for item in page["items"]]
            stops.add(page["stoppedBy"])
            if page["nextToken"] is None:
                break
            token = f', nextToken: "{page["nextToken"]}"'
        assert found == [f"b{at:02}" for at in range(40)]
        assert ("BUDGET" in stops) == (max_units < 50)


async def test_a_search_that_does_not_fit_reads_nothing(tmp_path: Path) -> None:
    """A search is refused with its estimate before anything is read, if not one record of each shard fits."""
    async with opened(tmp_path) as client:
        client.reset_counts()
        error = await client.error(BOOKS % "", caller=caller(1.5))
        assert error["path"] == ["bookByTitle"]
        extensions = error["extensions"]
        assert (extensions["code"], extensions["limit"], extensions["found"]) == ("QUERY_TOO_COSTLY", 1.5, 2.0)
        assert client.counts.rounds == 0


async def test_fields_share_the_ceiling(tmp_path: Path) -> None:
    """All fields of an operation together charge no more than the ceiling; one that finds too little left fails."""
    async with opened(tmp_path) as client:
        fields = " ".join(f'f{at}: bookByTitle(prefix: "T{at}", limit: 5) {{ items {{ bookId }} }}' for at in range(4))
        with meter_capacity() as meter:
            response = await client.execute(f"{{ {fields} }}", caller=caller(7))
        assert meter.total is not None
        assert meter.total <= 7
        assert set(response.codes) == {"QUERY_TOO_COSTLY"}
        assert any(response.body["data"].values())


JOINS = "{ bookByTitle(limit: 10) { items { bookId author { name } } } }"
MANY = '{ author(id: "a1") { books(limit: 5) { items { bookId } stoppedBy } } }'


async def test_joins_count_under_the_ceiling(tmp_path: Path) -> None:
    """Referenced records and pages of related records are read only if they fit."""
    async with opened(tmp_path) as client:
        for query in (JOINS, MANY):
            with meter_capacity() as meter:
                await client.data(query)
            used = meter.total
            assert used is not None
            codes = list[tuple[str, ...]]()
            for max_units in (used - 0.5, used, used + 10):
                with meter_capacity() as meter:
                    response = await client.execute(query, caller=caller(max_units))
                assert meter.total is not None
                assert meter.total <= max_units
                codes.append(response.codes)
            assert set(codes) <= {(), ("QUERY_TOO_COSTLY",), ("QUERY_TOO_COSTLY",) * 10}
            assert codes[-1] == ()


async def test_records_by_key(tmp_path: Path) -> None:
    """A record by key is refused with its estimate if it does not fit."""
    async with opened(tmp_path) as client:
        client.reset_counts()
        error = await client.error('{ book(id: "b01") { title } }', caller=caller(0.5))
        assert error["extensions"]["estimate"] == {"least": 1.0, "expected": 1.0, "most": 1.0}
        assert client.counts.gets == 0
        assert await client.data('{ book(id: "b01") { title } }', caller=caller(1)) == {"book": {"title": "T01"}}
        assert await client.data('{ loan(id: "b01") { at } }', caller=caller(10)) == {"loan": {"at": "2"}}


async def test_counts_are_lower_bounds_under_a_ceiling(tmp_path: Path) -> None:
    """A count that reaches the ceiling is not exact."""
    async with opened(tmp_path) as client:
        query = "{ bookByTitle(limit: 1) { totalCount { value exact } } }"
        exact = await client.data(query)
        assert exact["bookByTitle"]["totalCount"] == {"value": 40, "exact": True}
        low = await client.data(query, caller=caller(4))
        assert low["bookByTitle"]["totalCount"]["value"] < 40
        assert not low["bookByTitle"]["totalCount"]["exact"]


CREATE = 'mutation { createBook(input: {bookId: "%s", authorId: "a1", title: "N", isbn: "%s"}) { book { bookId } } }'


async def test_mutations_under_a_ceiling(tmp_path: Path) -> None:
    """A mutation writes if its greatest charge fits, and writes nothing otherwise."""
    async with opened(tmp_path) as client:
        client.reset_counts()
        error = await client.error(CREATE % ("n", "1"), caller=caller(5))
        assert error["extensions"]["code"] == "QUERY_TOO_COSTLY"
        assert error["extensions"]["estimate"]["least"] == 2
        assert client.counts.writes == 0
        with meter_capacity() as meter:
            await client.data(CREATE % ("n", "1"), caller=caller(40))
        assert meter.total is not None
        assert 0 < meter.total <= 40


async def test_the_explain_output_of_a_mutation_has_its_price(tmp_path: Path) -> None:
    """The explain output of a mutation has the estimate and the charge in write units, and their price."""
    async with open_client(CATALOG, tmp_path, *RECORDS, write_unit_price=0.5) as client:
        response = await client.execute(CREATE % ("n", "1"), caller=Caller("c-1", explain=True))
        (entry,) = response.body["extensions"]["explain"]
        write = entry["write"]
        assert write["capacityUnits"] == write["estimate"]["expected"] == 8
        assert write["costPerMillionWrites"] == 4
        assert write["estimated"]


async def test_a_refused_request_does_not_affect_concurrent_ones(tmp_path: Path) -> None:
    """Each request has a ceiling of its own."""
    async with opened(tmp_path) as client:
        responses = await asyncio.gather(
            *(client.execute(BOOKS % "", caller=caller(units)) for units in (1, 50, 1, 50))
        )
        assert [response.codes for response in responses] == [("QUERY_TOO_COSTLY",), (), ("QUERY_TOO_COSTLY",), ()]
