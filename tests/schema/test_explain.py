"""What searches did, told in one shape: to clients that ask for it, on the command line, in Python and in the log."""

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
from graphql_api.runtime.capacity_meter import meter_capacity
from graphql_api.schema.request_context import Caller
from tests.api.watched import watched
from tests.docs.pages import ROOT
from tests.schema.asking import Asked, asked
from tests.unit.shell import run

EXPLAINED = Caller("c-1", explain=True)


class Book(Entity, shards=Shards(2).then(3, since=100)):
    """Something to read."""

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
    """Who had a book, one after the other."""

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


PLANNED = {"entity", "index", "physicalIndex", "conditions", "order", "range", "reverse", "backward", "resumed"}
PLANNED |= {"shards", "hashKeys", "limit", "firstRead"}


async def explained(ask: Asked, query: str, variables: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """What the searches of an operation are explained by."""
    answer = await ask.answer(query, variables, caller=EXPLAINED)
    found: list[dict[str, Any]] = answer.body["extensions"]["explain"]
    return found


def test_the_keys_are_documented() -> None:
    """The page on GraphQL shows an explain with every key of one, and its table names the others."""
    text = (ROOT / "docs" / "graphql.md").read_text(encoding="utf-8").partition("## Explain")[2].partition("\n## ")[0]
    shown = json.loads(text.partition("```json")[2].partition("```")[0])
    table = {word for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)}
    assert set(shown) == {"path", "why", *PLANNED, "filter", "read"}
    assert set(shown["read"]) == {*COSTS, "costPerMillionPages"}
    assert table >= {"union", "indexes", "fetchesRecords", "sortedBy", "keys", "consistent"}


# --- of a search -----------------------------------------------------------------------------------------------


async def test_a_search(tmp_path: Path) -> None:
    """A search tells why it is this index, what it looks for and where, and what that took."""
    async with asked(CATALOG, tmp_path, *BOOKS) as ask:
        query = '{ bookByTitle(prefix: "Title 1", filter: {pages: {gt: 5}}, limit: 2) { items { bookId } nextToken } }'
        ask.forget()
        (told,) = await explained(ask, query)
        read = told.pop("read")
        assert told.keys() == {"path", "why", "filter", *PLANNED}
        assert told == {
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
            "firstRead": told["firstRead"],
            "filter": {"conditions": "pages gt 5", "testedOnRows": ["pages gt 5"], "testedOnRecords": []},
        }
        assert read.keys() == COSTS
        assert (read["rounds"], read["reads"]) == (ask.counts.rounds, ask.counts.reads)
        assert (read["recordsRead"], read["returned"], read["fetched"]) == (ask.counts.records_read, 2, 0)
        assert read["estimated"]
        assert read["capacityUnits"] >= 0.5


async def test_every_field_by_itself(tmp_path: Path) -> None:
    """Each search has an entry under its own path: aliases, lists, unions, counts, records by key and histories."""
    async with asked(CATALOG, tmp_path, *BOOKS, *LOANS) as ask:
        query = """{
          b: bookByTitle(eq: "Title 1") { items { bookId } totalCount { value } n: totalCount(atMost: 2) { value } }
          a: booksByShelf(orderBy: TITLE_DESC, shelf: "a") { items { pages } }
          union: bookByWords(prefix: "A") { nextToken }
          loan(id: "b1") { reader }
          one: book(id: "b3") { title }
          nobody: book(id: "b99") { title }
        }"""
        found = {".".join(map(str, told["path"])): told for told in await explained(ask, query)}
        assert [*found] == ["a", "b", "b.n", "b.totalCount", "loan", "nobody", "one", "union"]
        assert found["a"]["why"] == "TITLE_DESC is the reversed order of the index shelf."
        assert found["a"]["fetchesRecords"] is True
        assert found["a"]["read"]["fetched"] == 30
        assert found["union"]["why"] == "bookByWords searches title, then author."
        assert found["union"]["union"] == "words"
        assert [member["index"] for member in found["union"]["indexes"]] == ["title", "author"]
        assert found["b.n"]["limit"] == 2
        assert found["b.totalCount"]["limit"] == 10_000
        assert found["b.totalCount"]["index"] == "title"
        assert found["loan"]["why"] == "loan reads one record by its key."
        assert (found["loan"]["index"], found["loan"]["reverse"], found["loan"]["limit"]) == ("id", True, 1)
        assert found["one"]["keys"] == [
            {"hashKey": key["hashKey"], "rangeKey": "bookId#b3"} for key in found["one"]["keys"]
        ]
        assert len(found["one"]["keys"]) == 2
        assert [found[name]["read"]["returned"] for name in ("one", "nobody", "loan")] == [1, 0, 1]
        assert all(told["read"].keys() == COSTS for told in found.values())


async def test_sorted_answers(tmp_path: Path) -> None:
    """An answer that is sorted says by what, also by what no index could hold in that direction."""
    async with asked(CATALOG, tmp_path, *BOOKS) as ask:
        (told,) = await explained(ask, '{ bookByWords(prefix: "T", orderBy: TITLE_DESC) { items { bookId } } }')
        assert told["sortedBy"] == "title desc"
        (told,) = await explained(ask, '{ bookByWords(prefix: "T", orderBy: PAGES_DESC) { items { bookId } } }')
        assert told["sortedBy"] == "pages desc"
        assert told["read"]["returned"] == 30


async def test_fields_that_fail(tmp_path: Path) -> None:
    """A search that is refused has done nothing to tell of; the others are told."""
    async with asked(CATALOG, tmp_path, *BOOKS) as ask:
        found = await explained(ask, "{ bad: bookByTitle(limit: 0) { nextToken } good: bookByTitle { nextToken } }")
        assert [told["path"] for told in found] == [["good"]]


async def test_nobody_is_told_who_does_not_ask(tmp_path: Path) -> None:
    """Without being asked, an answer has no extensions, and the store is asked for no bill."""
    async with asked(CATALOG, tmp_path, *BOOKS) as ask:
        answer = await ask.answer("{ bookByTitle { nextToken } }")
        assert "extensions" not in answer.body
        assert answer.explain_entries == ()


# --- one shape -------------------------------------------------------------------------------------------------

QUERIES = [
    ('bookByTitle(prefix: "T", limit: 3)', lambda db: db.search(Book.by_title, prefix="T", limit=3)),
    ('bookByShelf(shelf: "a", last: 2)', lambda db: db.search(Book.by_shelf, shelf="a", last=2)),
    (
        "bookByWords(filter: {pages: {in: [1, 2]}})",
        lambda db: db.search(Book.by_words, filter={"pages": {"in": [1, 2]}}),
    ),
]


@pytest.mark.parametrize(("field", "search"), QUERIES)
async def test_python_is_told_the_same(tmp_path: Path, field: str, search: Any) -> None:
    """A page from Python explains itself in the same words as its field does, but for the field's path and reason."""
    async with asked(CATALOG, tmp_path, *BOOKS) as ask:
        (told,) = await explained(ask, f"{{ {field} {{ items {{ bookId title author pages shelf created }} }} }}")
        with meter_capacity():
            page = await search(ask.db)
        assert told.pop("path") == [field.partition("(")[0]]
        assert told.pop("why")
        assert told["read"].pop("milliseconds") >= 0
        ours = json.loads(json.dumps(page.explain))
        assert ours["read"].pop("milliseconds") >= 0
        assert told == ours


DECLARED = """from tests.schema.test_explain import CATALOG as catalog
"""


def test_the_command_line_tells_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`shardql explain` tells of each field what the answer will tell of it, but for what reading takes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("books_explained.py").write_text(DECLARED)
    query = '{ a: bookByTitle(eq: "Title 1") { nextToken } words: bookByWords(prefix: "A", limit: 1) { nextToken } '
    query += 'key: book(id: "b3") { title } loan(id: "b1") { at } '
    query += 'booksByShelf(shelf: "a", filter: {pages: {gt: 2}}) { nextToken } }'

    async def really() -> list[dict[str, Any]]:
        async with asked(CATALOG, tmp_path, *BOOKS, *LOANS) as ask:
            return await explained(ask, query)

    ran = {told["path"][0]: told for told in asyncio.run(really())}
    assert len(ran) == 5
    assert all(told.pop("read") for told in ran.values())
    planned = json.loads(run("explain", "books_explained:catalog", query, "--json").stdout)
    assert planned["problems"] == []
    assert {told["path"][0]: told for told in planned["plans"]} == ran


# --- what it costs ---------------------------------------------------------------------------------------------


async def test_what_a_million_pages_cost(tmp_path: Path) -> None:
    """Where the price of read units is known, a search tells what a million of such pages would cost."""
    async with asked(CATALOG, tmp_path, *BOOKS, read_unit_price=0.25) as ask:
        (told,) = await explained(ask, "{ bookByTitle { items { bookId } } }")
        assert told["read"]["costPerMillionPages"] == told["read"]["capacityUnits"] * 0.25 > 0


async def test_each_field_has_its_own_bill(tmp_path: Path) -> None:
    """What one search costs is not put on the bill of another one beside it."""
    async with asked(CATALOG, tmp_path, *BOOKS) as ask:
        small, large = '{ s: bookByTitle(eq: "none") { nextToken } }', "{ l: bookById(limit: 500) { nextToken } }"
        (alone,), (other,) = await explained(ask, small), await explained(ask, large)
        both = {told["path"][0]: told for told in await explained(ask, f"{small[:-1]} {large[1:]}")}
        assert both["s"]["read"]["capacityUnits"] == alone["read"]["capacityUnits"]
        assert both["l"]["read"]["capacityUnits"] == other["read"]["capacityUnits"]


# --- over HTTP -------------------------------------------------------------------------------------------------

PEOPLE = "query Jo($p: String) { userByName(prefix: $p, limit: 2) { items { userId } } }"


def test_the_header(tmp_path: Path) -> None:
    """With the header `x-explain: 1` a reply has the explains in its extensions, and without it none."""
    with watched(tmp_path) as server:
        for headers, asks in (({"x-explain": "1"}, True), ({"x-explain": "yes"}, False), ({}, False)):
            body = server.client.post(
                "/graphql", json={"query": PEOPLE, "variables": {"p": "j"}}, headers=headers
            ).json()
            assert len(body["data"]["userByName"]["items"]) == 2
            assert ("extensions" in body) == asks
            if asks:
                (told,) = body["extensions"]["explain"]
                assert told["path"] == ["userByName"]
                assert told["union"] == "name"
                assert told["read"].keys() == {*COSTS, "costPerMillionPages"}
                assert told["read"]["costPerMillionPages"] == told["read"]["capacityUnits"] * 0.125 > 0


@pytest.mark.parametrize(("level", "tells"), [("DEBUG", True), ("INFO", False)])
@pytest.mark.parametrize("asked_for", [False, True])
def test_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture, level: str, tells: bool, asked_for: bool) -> None:
    """At the level debug, and at no other, the line of a request has the explains of its searches, whoever asks."""
    caplog.set_level(level, "shardql")
    headers = {"x-explain": "1"} if asked_for else {}
    with watched(tmp_path) as server:
        body = {"query": PEOPLE, "variables": {"p": "j"}}
        reply = server.client.post("/graphql", json=body, headers=headers).json()
    assert ("extensions" in reply) == asked_for
    line = next(vars(record)["facts"] for record in caplog.records if record.name == "shardql.request")
    assert ("explain" in line) == tells
    logged = [*line.get("explain", ())]
    assert [told["path"] for told in logged] == [["userByName"]] * tells
    assert all(told["read"].keys() >= COSTS for told in logged)
    if tells and asked_for:
        assert reply["extensions"]["explain"] == logged


def test_the_log_as_text_and_as_json() -> None:
    """Both forms of the log show explains as JSON."""
    facts = {"explain": ({"path": ["a"], "read": {"rounds": 1}},)}
    record = logging.LogRecord("shardql.request", logging.DEBUG, "x.py", 1, "POST /graphql 200", (), None)
    record.facts = facts
    assert json.loads(JsonFormatter().format(record))["explain"] == [{"path": ["a"], "read": {"rounds": 1}}]
    assert TextFormatter().format(record).endswith(' explain={"path": ["a"], "read": {"rounds": 1}}')
