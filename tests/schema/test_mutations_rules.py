"""Who may write what: rules of entities and properties, decided before anything is read or written."""

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
from tests.schema.asking import Asked, asked
from tests.schema.guarded import ADMIN, ANN, BOB, CLERK, NOBODY
from tests.stores import Counts


class Paper(Entity, allow=[group("Admin"), owner("author")]):
    """Somebody's paper: whoever may read it may write it."""

    paper_id: Id[str]
    author: str
    title: str = "-"
    pages: int = 0
    fee: Annotated[int, allow(group("Payroll"))] = 0
    draft: Annotated[str, allow(owner("author"), group("Admin"))] = ""
    version: Version[Int32]

    by_author = Index(hash="author", sort="title")


class Notice(Entity, allow=anyone, write=group("Admin")):
    """Everybody reads it, few write it."""

    notice_id: Id[str]
    text: str = "-"


class Vote(Entity, allow=group("Admin"), write=signed_in):
    """Whoever is known casts one, and few see it."""

    vote_id: Id[str]
    choice: str


class Deed(Entity, allow=[]):
    """Who owns a shelf."""

    shelf_id: Id[str]
    holder: SubId[str]


class Line(Entity, allow=owner_through("Deed", of="shelf_id", owner="holder")):
    """What stands on a shelf."""

    shelf_id: Id[str]
    number: SubId[int]
    colour: str = "red"


class Case(Entity, current="~current", allow=owner("holder")):
    """A history, whose holder may change."""

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
NOTHING = Counts().without_lists()


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[Asked]:
    """The catalog over its records; nothing has been counted yet."""
    async with asked(CATALOG, folder, *RECORDS, graph=GRAPH) as ask:
        ask.forget()
        yield ask


async def refused(ask: Asked, field: str, caller: Caller) -> str:
    """The words in which a field is refused to somebody."""
    answer = await ask.answer(f"mutation {{ {field} }}", caller=caller)
    assert answer.codes == ("FORBIDDEN",), answer.body
    assert [*answer.body["data"].values()] == [None]
    return str(answer.body["errors"][0]["message"])


# --- decided unread --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "field", "words"),
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
            NOBODY,
            'createVote(input: {voteId: "v", choice: "y"}) { __typename }',
            "createVote is allowed only for authenticated",
        ),
        (
            NOBODY,
            'createPaper(input: {paperId: "p", author: "x"}) { __typename }',
            "createPaper is allowed only for members of Admin",
        ),
        # What may not be read may not be written, by whoever else.
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
        # Nor is it shown what may not be read.
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
async def test_refused_before_anything_is_read(tmp_path: Path, caller: Caller, field: str, words: str) -> None:
    """What needs no record to be decided is refused as a whole, with the words that say whom it is for."""
    async with guarded(tmp_path) as ask:
        assert (await refused(ask, field, caller)).startswith(words)
        assert ask.counts.without_lists() == NOTHING


async def test_rows_with_a_protected_property(tmp_path: Path) -> None:
    """A row that writes what the caller may not is refused by itself, and takes no other with it."""
    async with guarded(tmp_path) as ask:
        query = """mutation { updatePapers(inputs: [{id: "a", fee: 1}, {id: "a", pages: 2}, {id: "b", pages: 2}]) {
          results { paper { pages } error { code message } } } }"""
        results = (await ask.data(query, caller=ANN))["updatePapers"]["results"]
        assert [one["error"] and one["error"]["code"] for one in results] == ["FORBIDDEN", None, "FORBIDDEN"]
        assert results[0]["error"]["message"].startswith("Paper.fee is allowed only for members of Payroll")
        assert results[1]["paper"] == {"pages": "2"}


# --- owners ----------------------------------------------------------------------------------------------------


async def test_owners_write_what_is_theirs(tmp_path: Path) -> None:
    """An owner creates, changes and removes own records, and neither gives them away nor takes others."""
    async with guarded(tmp_path) as ask:
        made = await ask.data(
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
            words = await refused(ask, field, ANN)
            whom = "members of Admin or the owner (author)"
            assert words == f"{field.partition('(')[0]} is allowed only for {whom}. Request your own records."
        assert await ask.db.get(Paper, "y") is None
        papers = await ask.db.get_many(Paper, ["a", "b"])
        assert [paper and (paper.author, paper.title, paper.version) for paper in papers] == [
            ("ann", "T", 2),
            ("bob", "-", 1),
        ]
        # Who is of the group writes all of them.
        await ask.data('mutation { updatePaper(input: {id: "b", author: "ann"}) { __typename } }', caller=ADMIN)


async def test_whose_it_is_and_whether_it_is(tmp_path: Path) -> None:
    """A record that is not there is refused in the words for that of somebody else, whatever is wrong besides."""
    async with guarded(tmp_path) as ask:
        for field in (
            'updatePaper(input: {{id: "{}", title: "x"}}) {{ __typename }}',
            'updatePaper(input: {{id: "{}", title: null}}) {{ __typename }}',
            'updatePaper(input: {{id: "{}"}}, expectedVersion: 9) {{ __typename }}',
            'deletePaper(id: "{}") {{ __typename }}',
            'deletePaper(id: "{}", expectedVersion: 9) {{ __typename }}',
        ):
            assert await refused(ask, field.format("b"), ANN) == await refused(ask, field.format("z"), ANN)
        batch = """mutation { deletePapers(inputs: [{id: "b"}, {id: "z"}, {id: "a"}]) {
          results { deletedId error { code message } } } }"""
        foreign, unknown, own = (await ask.data(batch, caller=ANN))["deletePapers"]["results"]
        assert foreign == unknown
        assert foreign["error"]["code"] == "FORBIDDEN"
        assert own["deletedId"]


async def test_owners_through_another_entity(tmp_path: Path) -> None:
    """Whoever a lookup names as the owner writes; everybody else is refused, and so is a move to a foreign shelf."""
    async with guarded(tmp_path) as ask:
        made = await ask.data(
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
            assert "is allowed only for the owner of shelfId through Deed" in await refused(ask, field, ANN)
        assert await ask.db.get(Line, "s2", number=2) is None
        line = await ask.db.get(Line, "s2", number=1)
        assert line is not None
        assert line.colour == "red"


async def test_nobody_takes_over_a_history(tmp_path: Path) -> None:
    """A further entry changes what a history is, and so is for whoever owns the latest state of it."""
    async with guarded(tmp_path) as ask:
        for field in (
            'createCase(input: {caseId: "c", step: "3", holder: "ann"}) { __typename }',
            'putCase(input: {caseId: "c", step: "3", holder: "ann"}) { __typename }',
            'updateCase(input: {id: "c", step: "3", holder: "ann"}) { __typename }',
            'updateCase(input: {id: "c", step: "2", text: "x"}) { __typename }',
        ):
            assert "is allowed only for the owner (holder)" in await refused(ask, field, ANN)
        # What was hers still is, behind what came since.
        mine = 'mutation { updateCase(input: {id: "c", step: "1", text: "x"}) { case { holder text } } }'
        assert await ask.data(mine, caller=ANN) == {"updateCase": {"case": {"holder": "ann", "text": "x"}}}
        later = 'mutation { updateCase(input: {id: "c", step: "3", text: "y"}) { case { holder text } } }'
        assert await ask.data(later, caller=BOB) == {"updateCase": {"case": {"holder": "bob", "text": "y"}}}
        current = await ask.db.get(Case, "c")
        assert current is not None
        assert (current.holder, current.text) == ("bob", "y")


# --- what is shown ---------------------------------------------------------------------------------------------


async def test_what_a_writer_may_not_see(tmp_path: Path) -> None:
    """Who may write and not read gets an answer without the record; a property of its owner is null for others."""
    async with guarded(tmp_path) as ask:
        made = 'mutation { createVote(input: {voteId: "v", choice: "y"}) { __typename } }'
        assert await ask.data(made, caller=BOB) == {"createVote": {"__typename": "CreateVotePayload"}}
        assert await ask.db.get(Vote, "v") is not None
        fee = 'mutation { updatePaper(input: {id: "a", fee: 9}) { __typename } }'
        both = Caller("c", subject="eve", groups=frozenset({"Admin", "Payroll"}))
        assert await ask.data(fee, caller=both) == {"updatePaper": {"__typename": "UpdatePaperPayload"}}
        assert await refused(ask, fee.partition("{ ")[2].rpartition(" }")[0], CLERK)


async def test_other_tenants(tmp_path: Path) -> None:
    """A write is of the caller's tenant: what another one has is not there, and its ids are of nobody."""
    async with guarded(tmp_path) as ask:
        sealed = (await ask.data('{ notice(id: "n") { id } }'))["notice"]["id"]
        other = Caller("c", tenant="t", subject="root", groups=frozenset({"Admin"}))
        gone = 'mutation { deleteNotice(id: "n") { deletedId } }'
        assert await ask.data(gone, caller=other) == {"deleteNotice": {"deletedId": None}}
        error = await ask.error(
            "mutation ($id: ID!) { deleteNotice(id: $id) { deletedId } }", {"id": sealed}, caller=other
        )
        assert error["extensions"]["code"] == "INVALID_RECORD_KEY"
        assert await ask.db.get(Notice, "n") is not None
