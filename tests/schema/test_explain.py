"""Explain output of searches: the same shape in responses, on the command line, in Python and in the log."""

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Created, Entity, Id, Index, Shards, SubId, Timestamp, Union
from graphql_api.cli.process.log_output import JsonFormatter, TextFormatter
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.schema.request_context import Caller
from tests.docs.pages import ROOT
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.server.observed_server import observed_server
from tests.support.cli_runner import run

EXPLAIN_CALLER = Caller("c-1", explain=True)


class Book(Entity, shards=Shards(2).then(3, since=100)):
    """A book."""

    book_id: Id[str]
    created: Created[Timestamp]
    title: str
    author: str
    shelf: str = "a"
    pages: int = 0

    by_title = Index(sort="title")
    by_author = Index(sort="author")
    by_shelf = Index(hash="shelf", sort="title", projection="KEYS_ONLY")
    by_words = Union("by_title", "by_author")


class Loan(Entity):
    """The history of loans of a book."""

    book: Id[str]
    at: SubId[int]
    reader: str


CATALOG = Catalog(Book, Loan)
BOOKS = [
    Book(book_id=f"b{at}", created=at * 10, title=f"Title {at % 10}", author=f"Author {at % 3}", pages=at)
    for at in range(30)
]
LOANS = [Loan(book="b1", at=at, reader=f"r{at}") for at in range(3)]
COSTS = {"rounds", "reads", "recordsRead", "fetched", "milliseconds", "capacityUnits", "estimated", "returned"}
PAGE_COSTS = {*COSTS, "byHashKey"}


PLANNED = {"entity", "index", "physicalIndex", "conditions", "order", "range", "reverse", "backward", "resumed"}
PLANNED |= {"shards", "hashKeys", "limit", "firstRead", "estimate"}


async def explain_output(
    client: GraphQLClient, query: str, variables: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return the explain output of an operation."""
    response = await client.execute(query, variables, caller=EXPLAIN_CALLER)
    entries: list[dict[str, Any]] = response.body["extensions"]["explain"]
    return entries


def test_the_keys_are_documented() -> None:
    """The GraphQL page documents every key of the explain output, in its example or in its table."""
    text = (
        (ROOT / "docs" / "reference" / "graphql.md")
        .read_text(encoding="utf-8")
        .partition("## Explain")[2]
        .partition("\n## ")[0]
    )
    shown = json.loads(text.partition("```json")[2].partition("```")[0])
    table = {word for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)}
    assert set(shown) == {"path", "why", *PLANNED, "filter", "read"}
    assert set(shown["read"]) == {*PAGE_COSTS, "costPerMillionPages"}
    assert table >= {"failedHashKeys", "union", "indexes", "fetchesRecords", "sortedBy", "keys", "consistent"}


# --- explain output of a search --------------------------------------------------------------------------------


async def test_a_search(tmp_path: Path) -> None:
    """The explain output of a search has its plan and its actual cost."""
    async with open_client(CATALOG, tmp_path, *BOOKS) as client:
        query = '{ bookByTitle(prefix: "Title 1", filter: {pages: {gt: 5}}, limit: 2) { items { bookId } nextToken } }'
        client.reset_counts()
        (entry,) = await explain_output(client, query)
        read = entry.pop("read")
        assert entry.keys() == {"path", "why", "filter", *PLANNED}
        assert entry == {
            "path": ["bookByTitle"],
            "why": "bookByTitle names the index title.",
            "entity": "Book",
            "index": "title",
            "physicalIndex": "title",
            "conditions": 'title prefix "Title 1"',
            "order": ["title", "bookId"],
            "range": {"from": "title#Title 1", "to": "title#Title 2", "open": ["to"]},
            "reverse": False,
            "backward": False,
            "resumed": False,
            "shards": 3,
            "hashKeys": ["book!00", "book!01", "book!02"],
            "limit": 2,
            "firstRead": entry["firstRead"],
            "estimate": entry["estimate"],
            "filter": {"conditions": "pages gt 5", "testedOnRows": ["pages gt 5"], "testedOnRecords": []},
        }
        assert read.keys() == PAGE_COSTS
        assert sum(read["byHashKey"].values()) == 2
        assert read["byHashKey"].keys() <= {*entry["hashKeys"]}
        assert (read["rounds"], read["reads"]) == (client.counts.rounds, client.counts.reads)
        assert (read["recordsRead"], read["returned"], read["fetched"]) == (client.counts.records_read, 2, 0)
        assert read["estimated"]
        assert entry["estimate"]["least"] == 1.5
        assert entry["estimate"]["least"] <= read["capacityUnits"] <= entry["estimate"]["most"]


async def test_each_field_has_an_entry(tmp_path: Path) -> None:
    """Each search has an entry under its own path: aliases, lists, unions, counts, records by key and histories."""
    async with open_client(CATALOG, tmp_path, *BOOKS, *LOANS) as client:
        query = """{
          b: bookByTitle(eq: "Title 1") { items { bookId } totalCount { value } n: totalCount(atMost: 2) { value } }
          a: booksByShelf(orderBy: TITLE_DESC, shelf: "a") { items { pages } }
          union: bookByWords(prefix: "A") { nextToken }
          loan(id: "b1") { reader }
          one: book(id: "b3") { title }
          missing: book(id: "b99") { title }
        }"""
        entries = {".".join(map(str, entry["path"])): entry for entry in await explain_output(client, query)}
        assert [*entries] == ["a", "b", "b.n", "b.totalCount", "loan", "missing", "one", "union"]
        assert entries["a"]["why"] == "TITLE_DESC is the reversed order of the index shelf."
        assert entries["a"]["fetchesRecords"] is True
        assert entries["a"]["read"]["fetched"] == 30
        assert entries["union"]["why"] == "bookByWords searches title, then author."
        assert entries["union"]["union"] == "words"
        assert [member["index"] for member in entries["union"]["indexes"]] == ["title", "author"]
        assert entries["b.n"]["limit"] == 2
        assert entries["b.totalCount"]["limit"] == 10_000
        assert entries["b.totalCount"]["index"] == "title"
        assert entries["loan"]["why"] == "loan reads one record by its key."
        assert (entries["loan"]["index"], entries["loan"]["reverse"], entries["loan"]["limit"]) == ("id", True, 1)
        assert entries["one"]["keys"] == [
            {"hashKey": key["hashKey"], "rangeKey": "bookId#b3"} for key in entries["one"]["keys"]
        ]
        assert len(entries["one"]["keys"]) == 2
        assert [entries[name]["read"]["returned"] for name in ("one", "missing", "loan")] == [1, 0, 1]
        assert all(entry["read"].keys() in (COSTS, PAGE_COSTS) for entry in entries.values())


async def test_sorted_results(tmp_path: Path) -> None:
    """The explain output of a sorted result names its sort properties, also for orders without an index."""
    async with open_client(CATALOG, tmp_path, *BOOKS) as client:
        (entry,) = await explain_output(
            client, '{ bookByWords(prefix: "T", orderBy: TITLE_DESC) { items { bookId } } }'
        )
        assert entry["sortedBy"] == "title desc"
        (entry,) = await explain_output(
            client, '{ bookByWords(prefix: "T", orderBy: PAGES_DESC) { items { bookId } } }'
        )
        assert entry["sortedBy"] == "pages desc"
        assert entry["read"]["returned"] == 30


async def test_fields_that_fail(tmp_path: Path) -> None:
    """A refused search has no explain output. Other searches of the operation do."""
    async with open_client(CATALOG, tmp_path, *BOOKS) as client:
        entries = await explain_output(
            client, "{ bad: bookByTitle(limit: 0) { nextToken } good: bookByTitle { nextToken } }"
        )
        assert [entry["path"] for entry in entries] == [["good"]]


async def test_no_explain_output_without_request(tmp_path: Path) -> None:
    """Without a request for explain output, the response has no extensions and capacity is not measured."""
    async with open_client(CATALOG, tmp_path, *BOOKS) as client:
        response = await client.execute("{ bookByTitle { nextToken } }")
        assert "extensions" not in response.body
        assert response.explain_entries == ()


# --- the same shape everywhere ---------------------------------------------------------------------------------

QUERIES = [
    ('bookByTitle(prefix: "T", limit: 3)', lambda db: db.search(Book.by_title, prefix="T", limit=3)),
    ('bookByShelf(shelf: "a", last: 2)', lambda db: db.search(Book.by_shelf, shelf="a", last=2)),
    (
        "bookByWords(filter: {pages: {in: [1, 2]}})",
        lambda db: db.search(Book.by_words, filter={"pages": {"in": [1, 2]}}),
    ),
]


@pytest.mark.parametrize(("field", "search"), QUERIES)
async def test_python_pages_have_the_same_explain_output(tmp_path: Path, field: str, search: Any) -> None:
    """A page in Python has the explain output of the GraphQL field, except for path and reason."""
    async with open_client(CATALOG, tmp_path, *BOOKS) as client:
        (entry,) = await explain_output(
            client, f"{{ {field} {{ items {{ bookId title author pages shelf created }} }} }}"
        )
        with meter_capacity():
            page = await search(client.db)
        assert entry.pop("path") == [field.partition("(")[0]]
        assert entry.pop("why")
        assert entry["read"].pop("milliseconds") >= 0
        python_entry = json.loads(json.dumps(page.explain))
        assert python_entry["read"].pop("milliseconds") >= 0
        assert entry == python_entry


DECLARED = """from tests.schema.test_explain import CATALOG as catalog
"""


def test_the_command_line_prints_the_same_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`shardql explain` prints the explain output of each field, except for the actual cost."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("books_explained.py").write_text(DECLARED)
    query = '{ a: bookByTitle(eq: "Title 1") { nextToken } words: bookByWords(prefix: "A", limit: 1) { nextToken } '
    query += 'key: book(id: "b3") { title } loan(id: "b1") { at } '
    query += 'booksByShelf(shelf: "a", filter: {pages: {gt: 2}}) { nextToken } }'

    async def execute() -> list[dict[str, Any]]:
        async with open_client(CATALOG, tmp_path, *BOOKS, *LOANS) as client:
            return await explain_output(client, query)

    executed = {entry["path"][0]: entry for entry in asyncio.run(execute())}
    assert len(executed) == 5
    assert all(entry.pop("read") for entry in executed.values())
    planned = json.loads(run("explain", "books_explained:catalog", query, "--json").stdout)
    assert planned["problems"] == []
    assert {entry["path"][0]: entry for entry in planned["plans"]} == executed


# --- cost ------------------------------------------------------------------------------------------------------


async def test_the_cost_of_a_million_pages(tmp_path: Path) -> None:
    """With a known read unit price, the explain output contains the cost of a million such pages."""
    async with open_client(CATALOG, tmp_path, *BOOKS, read_unit_price=0.25) as client:
        (entry,) = await explain_output(client, "{ bookByTitle { items { bookId } } }")
        assert entry["read"]["costPerMillionPages"] == entry["read"]["capacityUnits"] * 0.25 > 0


async def test_each_field_has_its_own_cost(tmp_path: Path) -> None:
    """The capacity units of one search do not include those of another search in the operation."""
    async with open_client(CATALOG, tmp_path, *BOOKS) as client:
        small, large = '{ s: bookByTitle(eq: "none") { nextToken } }', "{ l: bookById(limit: 500) { nextToken } }"
        (alone,), (alone_large,) = await explain_output(client, small), await explain_output(client, large)
        both = {entry["path"][0]: entry for entry in await explain_output(client, f"{small[:-1]} {large[1:]}")}
        assert both["s"]["read"]["capacityUnits"] == alone["read"]["capacityUnits"]
        assert both["l"]["read"]["capacityUnits"] == alone_large["read"]["capacityUnits"]


# --- over HTTP -------------------------------------------------------------------------------------------------

PEOPLE = "query Jo($p: String) { userByName(prefix: $p, limit: 2) { items { userId } } }"


def test_the_header(tmp_path: Path) -> None:
    """Only with the header `x-explain: 1` does a response contain explain output."""
    with observed_server(tmp_path) as server:
        for headers, explains in (({"x-explain": "1"}, True), ({"x-explain": "yes"}, False), ({}, False)):
            body = server.client.post(
                "/graphql", json={"query": PEOPLE, "variables": {"p": "j"}}, headers=headers
            ).json()
            assert len(body["data"]["userByName"]["items"]) == 2
            assert ("extensions" in body) == explains
            if explains:
                (entry,) = body["extensions"]["explain"]
                assert entry["path"] == ["userByName"]
                assert entry["union"] == "name"
                assert entry["read"].keys() == {*PAGE_COSTS, "costPerMillionPages"}
                assert entry["read"]["costPerMillionPages"] == entry["read"]["capacityUnits"] * 0.125 > 0


@pytest.mark.parametrize(("level", "logs_explain"), [("DEBUG", True), ("INFO", False)])
@pytest.mark.parametrize("header_sent", [False, True])
def test_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: str, logs_explain: bool, header_sent: bool
) -> None:
    """The request log line contains explain output exactly at level DEBUG, with and without the header."""
    caplog.set_level(level, "shardql")
    headers = {"x-explain": "1"} if header_sent else {}
    with observed_server(tmp_path) as server:
        body = {"query": PEOPLE, "variables": {"p": "j"}}
        reply = server.client.post("/graphql", json=body, headers=headers).json()
    assert ("extensions" in reply) == header_sent
    line = next(vars(record)["facts"] for record in caplog.records if record.name == "shardql.request")
    assert ("explain" in line) == logs_explain
    logged = [*line.get("explain", ())]
    assert [entry["path"] for entry in logged] == [["userByName"]] * logs_explain
    assert all(entry["read"].keys() >= COSTS for entry in logged)
    if logs_explain and header_sent:
        assert reply["extensions"]["explain"] == logged


def test_the_log_as_text_and_as_json() -> None:
    """Both log formats show explain output as JSON."""
    facts = {"explain": ({"path": ["a"], "read": {"rounds": 1}},)}
    record = logging.LogRecord("shardql.request", logging.DEBUG, "x.py", 1, "POST /graphql 200", (), None)
    record.facts = facts
    assert json.loads(JsonFormatter().format(record))["explain"] == [{"path": ["a"], "read": {"rounds": 1}}]
    assert TextFormatter().format(record).endswith(' explain={"path": ["a"], "read": {"rounds": 1}}')
