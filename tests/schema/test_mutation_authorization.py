"""Authorization of writes: access rules of entities and properties, applied before any read or write."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import pytest

from graphql_api import (
    Catalog,
    Entity,
    Id,
    Index,
    Int32,
    SubId,
    Version,
    allow,
    anyone,
    group,
    owner,
    owner_through,
    signed_in,
)
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.schema.guarded_catalog import ADMIN, ANN, ANONYMOUS, BOB, CLERK
from tests.support.store_doubles import Counts


class Paper(Entity, allow=[group("Admin"), owner("author")]):
    """A paper; read rules apply to writes too."""

    paper_id: Id[str]
    author: str
    title: str = "-"
    pages: int = 0
    fee: Annotated[int, allow(group("Payroll"))] = 0
    draft: Annotated[str, allow(owner("author"), group("Admin"))] = ""
    version: Version[Int32]

    by_author = Index(hash="author", sort="title")


class Notice(Entity, allow=anyone, write=group("Admin")):
    """Public to read, written by administrators."""

    notice_id: Id[str]
    text: str = "-"


class Vote(Entity, allow=group("Admin"), write=signed_in):
    """Any authenticated principal writes it, administrators read it."""

    vote_id: Id[str]
    choice: str


class Deed(Entity, allow=[]):
    """The owners of a shelf."""

    shelf_id: Id[str]
    holder: SubId[str]


class Line(Entity, allow=owner_through("Deed", of="shelf_id", owner="holder")):
    """A line on a shelf."""

    shelf_id: Id[str]
    number: SubId[int]
    colour: str = "red"


class Case(Entity, current="~current", allow=owner("holder")):
    """A history whose owner may change."""

    case_id: Id[str]
    step: SubId[str]
    holder: str
    text: str = "-"


CATALOG = Catalog(Paper, Notice, Vote, Deed, Line, Case)
GRAPH = Graph(CATALOG)
RECORDS = (
    Paper(paper_id="a", author="ann", fee=7, draft="A", version=1),
    Paper(paper_id="b", author="bob", version=1),
    Notice(notice_id="n"),
    Deed(shelf_id="s1", holder="ann"),
    Deed(shelf_id="s2", holder="bob"),
    Line(shelf_id="s2", number=1),
    Case(case_id="c", step="1", holder="ann"),
    Case(case_id="c", step="2", holder="bob"),
)
NOTHING = Counts().scalar_counts()


@asynccontextmanager
async def guarded_client(folder: Path) -> AsyncIterator[GraphQLClient]:
    """A client of the catalog with its records; counts begin at zero."""
    async with open_client(CATALOG, folder, *RECORDS, graph=GRAPH) as client:
        client.reset_counts()
        yield client


async def refusal_message(client: GraphQLClient, field: str, caller: Caller) -> str:
    """The message of a field that is refused for a caller."""
    answer = await client.execute(f"mutation {{ {field} }}", caller=caller)
    assert answer.codes == ("FORBIDDEN",), answer.body
    assert [*answer.body["data"].values()] == [None]
    return str(answer.body["errors"][0]["message"])


# --- decided without a read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "field", "message"),
    [
        (
            BOB,
            'createNotice(input: {noticeId: "x"}) { notice { text } }',
            "createNotice is allowed only for members of Admin",
        ),
        (
            BOB,
            'updateNotice(input: {id: "n", text: "x"}) { notice { text } }',
            "updateNotice is allowed only for members of Admin",
        ),
        (BOB, 'putNotice(input: {noticeId: "n"}) { __typename }', "putNotice is allowed only for members of Admin"),
        (BOB, 'deleteNotice(id: "n") { deletedId }', "deleteNotice is allowed only for members of Admin"),
        (
            BOB,
            'createNotices(inputs: [{noticeId: "x"}]) { results { error { code } } }',
            "createNotices is allowed only for members",
        ),
        (
            ANONYMOUS,
            'createVote(input: {voteId: "v", choice: "y"}) { __typename }',
            "createVote is allowed only for authenticated",
        ),
        (
            ANONYMOUS,
            'createPaper(input: {paperId: "p", author: "x"}) { __typename }',
            "createPaper is allowed only for members of Admin",
        ),
        # A property that the caller may not read cannot be written either.
        (
            ANN,
            'updatePaper(input: {id: "a", fee: 1}) { __typename }',
            "Paper.fee is allowed only for members of Payroll",
        ),
        (
            ANN,
            'createPaper(input: {paperId: "p", author: "ann", fee: 0}) { __typename }',
            "Paper.fee is allowed only for members",
        ),
        (
            ANN,
            'putPaper(input: {paperId: "a", author: "ann"}) { __typename }',
            "Paper.fee is allowed only for members of Payroll. putPaper always writes it. Use an update instead.",
        ),
        (
            ADMIN,
            'updatePaper(input: {id: "a", fee: null}) { __typename }',
            "Paper.fee is allowed only for members of Payroll",
        ),
        # The response cannot contain what the caller may not read.
        (
            BOB,
            'createVote(input: {voteId: "v", choice: "y"}) { vote { choice } }',
            "createVote with Vote in its response",
        ),
        (
            ANN,
            'updatePaper(input: {id: "a", pages: 1}) { paper { fee } }',
            "Paper.fee is allowed only for members of Payroll",
        ),
        (
            ANN,
            'updatePapers(inputs: [{id: "a", pages: 1}]) { results { paper { ...f } } } } fragment f on Paper { fee',
            "Paper.fee is allowed only for members of Payroll",
        ),
    ],
)
async def test_refused_before_any_read(tmp_path: Path, caller: Caller, field: str, message: str) -> None:
    """A rule that needs no record refuses the whole field without a read, and states who is allowed."""
    async with guarded_client(tmp_path) as client:
        assert (await refusal_message(client, field, caller)).startswith(message)
        assert client.counts.scalar_counts() == NOTHING


async def test_rows_with_a_protected_property(tmp_path: Path) -> None:
    """A row with a property that the caller may not write is refused alone; other rows are written."""
    async with guarded_client(tmp_path) as client:
        query = """mutation { updatePapers(inputs: [{id: "a", fee: 1}, {id: "a", pages: 2}, {id: "b", pages: 2}]) {
          results { paper { pages } error { code message } } } }"""
        results = (await client.data(query, caller=ANN))["updatePapers"]["results"]
        assert [one["error"] and one["error"]["code"] for one in results] == ["FORBIDDEN", None, "FORBIDDEN"]
        assert results[0]["error"]["message"].startswith("Paper.fee is allowed only for members of Payroll")
        assert results[1]["paper"] == {"pages": "2"}


# --- owners ----------------------------------------------------------------------------------------------------


async def test_owners_write_their_own_records(tmp_path: Path) -> None:
    """An owner creates, updates and deletes own records, but cannot transfer them or take over other records."""
    async with guarded_client(tmp_path) as client:
        made = await client.data(
            """mutation {
              createPaper(input: {paperId: "x", author: "ann", draft: "D"}) { paper { author draft } }
              updatePaper(input: {id: "a", title: "T", draft: "E"}) { paper { title draft } }
              deletePaper(id: "x") { deletedId }
            }""",
            caller=ANN,
        )
        assert made["createPaper"] == {"paper": {"author": "ann", "draft": "D"}}
        assert made["updatePaper"] == {"paper": {"title": "T", "draft": "E"}}
        assert made["deletePaper"]["deletedId"]
        for field in (
            'createPaper(input: {paperId: "y", author: "bob"}) { __typename }',
            'updatePaper(input: {id: "a", author: "bob"}) { __typename }',
            'updatePaper(input: {id: "b", author: "ann"}) { __typename }',
            'updatePaper(input: {id: "b", title: "x"}) { __typename }',
            'deletePaper(id: "b") { __typename }',
        ):
            message = await refusal_message(client, field, ANN)
            allowed = "members of Admin or the owner (author)"
            assert message == f"{field.partition('(')[0]} is allowed only for {allowed}. Request your own records."
        assert await client.db.get(Paper, "y") is None
        papers = await client.db.get_many(Paper, ["a", "b"])
        assert [paper and (paper.author, paper.title, paper.version) for paper in papers] == [
            ("ann", "T", 2),
            ("bob", "-", 1),
        ]
        # A member of the group writes all records.
        await client.data('mutation { updatePaper(input: {id: "b", author: "ann"}) { __typename } }', caller=ADMIN)


async def test_missing_records_are_refused_like_foreign_ones(tmp_path: Path) -> None:
    """A missing record is refused with the same message as a foreign one, whatever else is invalid."""
    async with guarded_client(tmp_path) as client:
        for field in (
            'updatePaper(input: {{id: "{}", title: "x"}}) {{ __typename }}',
            'updatePaper(input: {{id: "{}", title: null}}) {{ __typename }}',
            'updatePaper(input: {{id: "{}"}}, expectedVersion: 9) {{ __typename }}',
            'deletePaper(id: "{}") {{ __typename }}',
            'deletePaper(id: "{}", expectedVersion: 9) {{ __typename }}',
        ):
            assert await refusal_message(client, field.format("b"), ANN) == await refusal_message(
                client, field.format("z"), ANN
            )
        batch = """mutation { deletePapers(inputs: [{id: "b"}, {id: "z"}, {id: "a"}]) {
          results { deletedId error { code message } } } }"""
        foreign, missing, own = (await client.data(batch, caller=ANN))["deletePapers"]["results"]
        assert foreign == missing
        assert foreign["error"]["code"] == "FORBIDDEN"
        assert own["deletedId"]


async def test_owners_by_lookup(tmp_path: Path) -> None:
    """The owner by a lookup may write. Other callers are refused, and so is a move to a foreign shelf."""
    async with guarded_client(tmp_path) as client:
        made = await client.data(
            'mutation { createLine(input: {shelfId: "s1", number: 1}) { line { colour } } }', caller=ANN
        )
        assert made == {"createLine": {"line": {"colour": "red"}}}
        for field in (
            'createLine(input: {shelfId: "s2", number: 2}) { __typename }',
            'updateLine(input: {id: "s2", number: 1, colour: "x"}) { __typename }',
            'putLine(input: {shelfId: "s2", number: 1}) { __typename }',
            'deleteLine(id: "s2", number: 1) { __typename }',
            'deleteLine(id: "s3", number: 1) { __typename }',
        ):
            assert "is allowed only for the owner of shelfId through Deed" in await refusal_message(client, field, ANN)
        assert await client.db.get(Line, "s2", number=2) is None
        line = await client.db.get(Line, "s2", number=1)
        assert line is not None
        assert line.colour == "red"


async def test_history_ownership(tmp_path: Path) -> None:
    """Only the owner of the latest entry may append to a history or change that entry."""
    async with guarded_client(tmp_path) as client:
        for field in (
            'createCase(input: {caseId: "c", step: "3", holder: "ann"}) { __typename }',
            'putCase(input: {caseId: "c", step: "3", holder: "ann"}) { __typename }',
            'updateCase(input: {id: "c", step: "3", holder: "ann"}) { __typename }',
            'updateCase(input: {id: "c", step: "2", text: "x"}) { __typename }',
        ):
            assert "is allowed only for the owner (holder)" in await refusal_message(client, field, ANN)
        # An older entry still belongs to its own owner.
        own_entry = 'mutation { updateCase(input: {id: "c", step: "1", text: "x"}) { case { holder text } } }'
        assert await client.data(own_entry, caller=ANN) == {"updateCase": {"case": {"holder": "ann", "text": "x"}}}
        next_entry = 'mutation { updateCase(input: {id: "c", step: "3", text: "y"}) { case { holder text } } }'
        assert await client.data(next_entry, caller=BOB) == {"updateCase": {"case": {"holder": "bob", "text": "y"}}}
        current = await client.db.get(Case, "c")
        assert current is not None
        assert (current.holder, current.text) == ("bob", "y")


# --- responses -------------------------------------------------------------------------------------------------


async def test_write_without_read_access(tmp_path: Path) -> None:
    """A caller with write access only gets a response without the record, and other callers are refused."""
    async with guarded_client(tmp_path) as client:
        made = 'mutation { createVote(input: {voteId: "v", choice: "y"}) { __typename } }'
        assert await client.data(made, caller=BOB) == {"createVote": {"__typename": "VotePayload"}}
        assert await client.db.get(Vote, "v") is not None
        fee = 'mutation { updatePaper(input: {id: "a", fee: 9}) { __typename } }'
        both = Caller("c", subject="eve", groups=frozenset({"Admin", "Payroll"}))
        assert await client.data(fee, caller=both) == {"updatePaper": {"__typename": "PaperPayload"}}
        assert await refusal_message(client, fee.partition("{ ")[2].rpartition(" }")[0], CLERK)


async def test_other_tenants(tmp_path: Path) -> None:
    """A write applies to the caller's tenant: records of other tenants do not exist, their global ids are invalid."""
    async with guarded_client(tmp_path) as client:
        global_id = (await client.data('{ notice(id: "n") { id } }'))["notice"]["id"]
        other = Caller("c", tenant="t", subject="root", groups=frozenset({"Admin"}))
        delete = 'mutation { deleteNotice(id: "n") { deletedId } }'
        assert await client.data(delete, caller=other) == {"deleteNotice": {"deletedId": None}}
        error = await client.error(
            "mutation ($id: ID!) { deleteNotice(id: $id) { deletedId } }", {"id": global_id}, caller=other
        )
        assert error["extensions"]["code"] == "INVALID_RECORD_KEY"
        assert await client.db.get(Notice, "n") is not None
