"""What a caller may not see changes no answer, but for a closed list of exceptions (docs/how-to/authorization.md)."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api import Entity
from graphql_api.codecs import RecordKeySeal
from graphql_api.errors import ShardQLError
from graphql_api.query import search_request
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.docs.pages import ROOT
from tests.laws.hidden_catalog import CALLER, CATALOG, IDS, TITLES, Card, Case, Document, Note, random_worlds
from tests.laws.hidden_operations import Operations
from tests.schema.graphql_client import GraphQLClient, client_for, open_database
from tests.support.run_depth import depth
from tests.support.store_doubles import IndependentReadsStore

OPERATIONS = (250, 2_000)
"""of one part, quick and deep"""
PARTS = [0, *(pytest.param(number, marks=pytest.mark.deep) for number in range(1, 25))]
"""100,000 operations with `--deep`, in both budgets"""
EPISODE = 40
"""operations in one pair of worlds"""
GRAPH = Graph(CATALOG)
CALLERS = (Caller("c-1", subject=CALLER), Caller("c-1", subject=CALLER), Caller("c-1"))

# --- worlds ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_worlds(folder: Path, random: Random) -> AsyncIterator[Sequence[GraphQLClient]]:
    """Open two worlds that differ only in what the caller may not see."""
    worlds, seal = random_worlds(random), RecordKeySeal(b"a secret of thirty-two bytes only")
    stores = [await open_sqlite(folder / f"{name}.db") for name in "ab"]
    for store in stores:
        store.writer._sql.execute("PRAGMA synchronous = OFF")  # Tests of files are elsewhere.
    independent = random.random() < 0.3  # An engine that reads each shard by itself, as DynamoDB does.
    one_store, other_store = (IndependentReadsStore(store) if independent else store for store in stores)
    async with open_database(CATALOG, one_store) as one, open_database(CATALOG, other_store) as other:
        clients = [client_for(replace(db, key_seal=seal), graph=GRAPH) for db in (one, other)]
        for client, hidden in zip(clients, worlds.hidden, strict=True):
            for record in (*worlds.shared, *hidden):
                await client.db.put_many([record])
        yield clients


async def change_what_is_hidden(client: GraphQLClient, random: Random) -> None:
    """Change a record in one world such that the caller may see only its version."""
    db, other = client.db, random.choice(("bob", "root"))
    card = await db.get(Card, random.choice(IDS))
    try:
        match random.randint(0, 4):
            case 0 if card is not None:
                await db.update(Card, card.card_id, salary=str(random.random()))
            case 1 if card is not None and card.holder != CALLER:
                await db.update(Card, card.card_id, memo=random.choice(TITLES))
            case 2:
                document = await db.get(Document, id := random.choice(IDS))
                if document is None or document.author != CALLER:
                    await db.put(
                        Document.model_validate(
                            {"document_id": id, "author": other, "title": random.choice(TITLES), "version": 1}
                        )
                    )
            case 3:
                note = await db.get(Note, id := random.choice(IDS))
                if note is None or note.writer != CALLER:
                    document_id = random.choice(IDS)
                    await db.put(
                        Note.model_validate(
                            {"note_id": id, "document_id": document_id, "writer": other, "text": "a", "number": 50}
                        )
                    )
            case _:
                document = await db.get(Document, random.choice(IDS))
                if document is not None and document.author != CALLER:
                    await db.delete(Document, document.document_id)
    except ShardQLError:
        pass  # A constraint prevents the change.


# --- exceptions ------------------------------------------------------------------------------------------------

EXCEPTIONS = {
    "taken value": "`NOT_UNIQUE`",
    "taken id": "`ALREADY_EXISTS`, and `FORBIDDEN` of a put or a new entry of a history",
    "counter": "gaps in the numbers of a counter",
    "version": "versions and update times, `VERSION_CONFLICT`",
    "reference": "`FOREIGN_KEY` of a deletion",
    "budget": "`stoppedBy: BUDGET`, `totalCount { exact }`, `TOO_MANY_TO_SORT`",
    "explain": "explain output",
    "time": "time",
}
"""the documented exceptions, as the guide names them"""


def codes(body: Any) -> set[str]:
    """Return all error codes of an answer."""
    return set(re.findall(r'"code": "([A-Z_]+)"', json.dumps(body)))


def without(body: Any, *names: str) -> Any:
    """Return an answer without fields of these names."""
    if isinstance(body, dict):
        return {name: without(value, *names) for name, value in body.items() if name not in names}
    return [without(value, *names) for value in body] if isinstance(body, list) else body


def exception_for(document: str, bodies: Sequence[Any]) -> str | None:
    """Return which documented exception explains that two answers differ; None: none does."""
    found, text = codes(bodies), json.dumps(bodies)
    if without(bodies[0], "version") == without(bodies[1], "version"):
        return "version"
    if "VERSION_CONFLICT" in found and "expectedVersion" in document:
        return "version"
    if '"stoppedBy": "BUDGET"' in text or '"exact": false' in text or "TOO_MANY_TO_SORT" in found:
        return "budget"
    if document.startswith("mutation { delete"):
        messages = [error["message"] for body in bodies for error in body.get("errors", ())]
        is_general = all("a record references it" in message for message in messages)
        return "reference" if found == {"FOREIGN_KEY"} and is_general else None
    if document.startswith("mutation"):
        if without(bodies[0], "number") == without(bodies[1], "number"):
            return "counter"
        if "NOT_UNIQUE" in found:
            return "taken value"
        continues = re.match(r"mutation \{ (put|createCase|updateCase|updatePage|createPage)", document)
        if "ALREADY_EXISTS" in found or (found == {"FORBIDDEN"} and continues):
            return "taken id"
    return None


# --- the law ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("budget", [None, 12], ids=["default budget", "small budget"])
async def test_hidden_records_change_no_answer(
    tmp_path: Path, random: Random, budget: int | None, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random operations have equal answers in two worlds that differ only in what the caller may not see."""
    if budget is not None:
        monkeypatch.setattr(search_request.SearchRequest.__init__, "__defaults__", _with_budget(budget))
    exceptions, executed = Counter[str](), 0
    episode = 0
    while executed < depth(*OPERATIONS):
        episode += 1
        folder = tmp_path / str(episode)
        folder.mkdir()
        async with open_worlds(folder, random) as worlds:
            operations = Operations(random)
            for _ in range(EPISODE):
                executed += 1
                if random.random() < 0.2:
                    await change_what_is_hidden(random.choice(worlds), random)
                document, caller = operations.next(), random.choice(CALLERS)
                bodies = [(await world.execute(document, caller=caller)).body for world in worlds]
                assert not {"INTERNAL_ERROR", "GRAPHQL_VALIDATION_FAILED", "GRAPHQL_PARSE_FAILED"} & codes(bodies), (
                    document,
                    bodies,
                )
                if bodies[0] == bodies[1]:
                    operations.note_answer(bodies[0])
                    exceptions["equal"] += 1
                    continue
                reason = exception_for(document, bodies)
                assert reason in EXCEPTIONS, f"{caller.subject}: {document}\n{bodies[0]}\n{bodies[1]}"
                exceptions[reason] += 1
                if reason not in ("version", "budget") or document.startswith("mutation"):
                    break  # The worlds may now differ in what the caller sees.
    assert exceptions["equal"] > executed / 2, exceptions


# --- the list of exceptions ------------------------------------------------------------------------------------


def a_document(id: str, author: str, **more: Any) -> Document:
    """Return a document of an author."""
    return Document.model_validate({"document_id": id, "author": author, "title": "a", "version": 1, **more})


def a_note(id: str, writer: str, document_id: str | None = None) -> Note:
    """Return a note of a writer."""
    return Note.model_validate({"note_id": id, "writer": writer, "document_id": document_id, "text": "a", "number": 1})


def a_card(memo: str) -> Card:
    """Return a card with a memo that only its holder reads."""
    return Card.model_validate({"card_id": "c1", "holder": "bob", "title": "a", "memo": memo, "version": 1})


CREATE_DOCUMENT = (
    'mutation { createDocument(input: {documentId: "%s", author: "ann", title: "a", code: "c"}) { __typename } }'
)
PUT_NOTE = 'mutation { putNote(input: {noteId: "n1", writer: "ann", text: "a"}) { __typename } }'
CREATE_CASE = 'mutation { createCase(input: {caseId: "c1", step: "2", holder: "ann", text: "a"}) { __typename } }'
CREATE_NOTE = (
    'mutation { createNote(input: {noteId: "n2", documentId: "d1", writer: "ann", text: "a"}) { note { number } } }'
)
SEARCH = "{ documentByTitle { items { title } nextToken stoppedBy } }"
OWN = (a_document("d1", "ann"),)
SCENARIOS: Sequence[tuple[str, Sequence[Entity], Sequence[Entity], str]] = (
    ("taken value", (), (a_document("d1", "bob", code="c"),), CREATE_DOCUMENT % "d2"),
    ("taken id", (), (a_document("d1", "bob"),), CREATE_DOCUMENT % "d1"),
    ("taken id", (), (a_note("n1", "bob"),), PUT_NOTE),
    ("taken id", (), (Case(case_id="c1", step="1", holder="bob", text="a"),), CREATE_CASE),
    ("counter", OWN, (a_note("n1", "root", "d1"),), CREATE_NOTE),
    ("reference", OWN, (a_note("n1", "root", "d1"),), 'mutation { deleteDocument(id: "d1") { deletedId } }'),
    ("version", (a_card(""),), (a_card("secret"),), '{ card(id: "c1") { version } }'),
    ("budget", (), tuple(a_document(f"d{at}", "bob") for at in range(30)), SEARCH),
)


@pytest.mark.parametrize(("reason", "shared", "hidden", "document"), SCENARIOS, ids=[one[0] for one in SCENARIOS])
async def test_exceptions(
    tmp_path: Path,
    reason: str,
    shared: Sequence[Entity],
    hidden: Sequence[Entity],
    document: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each documented exception is real: one hidden record changes the answer in this way."""
    monkeypatch.setattr(search_request.SearchRequest.__init__, "__defaults__", _with_budget(12))
    bodies = list[Any]()
    for records in (shared, (*shared, *hidden)):
        store = await open_sqlite(tmp_path / f"{len(bodies)}.db")
        async with open_database(CATALOG, store) as db:
            for record in records:
                assert await db.put_many([record]) == [None]
            bodies.append((await client_for(db, graph=GRAPH).execute(document, caller=CALLERS[0])).body)
    assert bodies[0] != bodies[1]
    assert exception_for(document, bodies) == reason


async def test_tokens_do_not_depend_on_hidden_records(tmp_path: Path) -> None:
    """A token is the same text, whether or not others have records between the caller's own."""
    own = [a_document(f"d{at}", "ann", title=f"t{at:03}") for at in range(0, 90, 30)]
    tokens = []
    for count in (0, 1, 20):
        store = await open_sqlite(tmp_path / f"{count}.db")
        hidden = [a_document(f"d{at}", "bob", title=f"t{at:03}") for at in range(31, 31 + count)]
        async with open_database(CATALOG, store, *own, *hidden) as db:
            query = '{ documentByTitle(first: 1, filter: {place: {ne: "x"}}) { nextToken edges { cursor } } }'
            tokens.append(await client_for(db, graph=GRAPH).data(query, caller=CALLERS[0]))
    assert tokens[0]["documentByTitle"]["nextToken"] == tokens[0]["documentByTitle"]["edges"][0]["cursor"]
    assert tokens == [tokens[0]] * 3


def test_exceptions_are_documented() -> None:
    """The guide lists exactly these exceptions."""
    page = (ROOT / "docs" / "how-to" / "authorization.md").read_text(encoding="utf-8")
    section = page.partition("\n## What hidden records can change\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", section, re.MULTILINE)
    assert rows[1:] == [*EXCEPTIONS.values()]


def _with_budget(budget: int) -> tuple[Any, ...]:
    """Return the default values of a search request, with another read budget."""
    defaults = search_request.SearchRequest.__init__.__defaults__ or ()
    return tuple(budget if value == search_request.READ_BUDGET else value for value in defaults)
