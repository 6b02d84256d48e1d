"""Authorization of references: a foreign key asks for the right to read the record that it references."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from graphql_api import (
    Catalog,
    Entity,
    ForeignKey,
    Id,
    Int32,
    SubId,
    anyone,
    counter,
    group,
    owner,
    owner_through,
    signed_in,
)
from graphql_api.errors import ForeignKeyBroken, InvalidCatalog
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, open_client
from tests.schema.guarded_catalog import ADMIN, ANN, ANONYMOUS, BOB


class Share(Entity, allow=[]):
    """The members of a folder."""

    folder_id: Id[str]
    holder: SubId[str]


class Document(Entity, allow=[group("Admin"), owner("author")]):
    """A document of its author."""

    document_id: Id[str]
    author: str
    parent_id: str | None = None

    of_parent = ForeignKey("Document", by="parent_id")


class Folder(Entity, allow=owner_through("Share", of="folder_id", owner="holder")):
    """A folder of its members."""

    folder_id: Id[str]


class Notice(Entity, allow=signed_in, write=group("Admin")):
    """Read by authenticated callers."""

    notice_id: Id[str]


class Note(Entity, write=anyone):
    """A note about documents, which everyone writes."""

    note_id: Id[str]
    document_id: str | None = None
    folder_id: str | None = None
    notice_id: str | None = None
    open_id: str | None = None
    text: str = ""

    of_document = ForeignKey("Document", by="document_id")
    of_folder = ForeignKey("Folder", by="folder_id")
    of_notice = ForeignKey("Notice", by="notice_id")
    of_open = ForeignKey("Document", by="open_id", allow=anyone)


class Remark(Entity, allow=owner("writer")):
    """A numbered remark on a document, read by its writer."""

    remark_id: Id[str]
    document_id: str
    writer: str
    number: Int32 = counter("document_id")

    of_document = ForeignKey("Document", by="document_id", allow=signed_in)


class Page(Entity, write=anyone):
    """A numbered page of a document."""

    document_id: Id[str]
    number: SubId[Int32] = counter("document_id")
    text: str = ""

    of_document = ForeignKey("Document", by="document_id")


CATALOG = Catalog(Share, Document, Folder, Notice, Note, Remark, Page)
GRAPH = Graph(CATALOG)
RECORDS = (
    Share(folder_id="f1", holder="ann"),
    Share(folder_id="f2", holder="bob"),
    Folder(folder_id="f1"),
    Folder(folder_id="f2"),
    Document(document_id="ann1", author="ann"),
    Document(document_id="ann2", author="ann"),
    Document(document_id="bob1", author="bob"),
    Notice(notice_id="n1"),
    Note(note_id="old", document_id="bob1"),
)
REFUSED = (
    "A reference to Document by documentId is allowed only for members of Admin or the owner (author). "
    "Reference a Document that you may read."
)


@asynccontextmanager
async def open_documents(folder: Path) -> AsyncIterator[GraphQLClient]:
    """Open a client for the documents."""
    async with open_client(CATALOG, folder, *RECORDS, graph=GRAPH) as client:
        client.reset_counts()
        yield client


async def write(client: GraphQLClient, caller: Caller, field: str) -> str | None:
    """Execute a mutation. Return its error code."""
    body = (await client.execute(f"mutation {{ {field} }}", caller=caller)).body
    return body["errors"][0]["extensions"]["code"] if "errors" in body else None


@pytest.mark.parametrize("verb", ["create", "put", "update"])
async def test_hidden_and_missing_parents_are_alike(tmp_path: Path, verb: str) -> None:
    """A reference to a record that the caller may not read, or that does not exist, is refused with the same error."""
    async with open_documents(tmp_path) as client:
        await client.data('mutation { createNote(input: {noteId: "a"}) { __typename } }', caller=ANN)
        key = "id" if verb == "update" else "noteId"
        errors = [
            await client.error(
                f'mutation {{ {verb}Note(input: {{{key}: "a", documentId: "{id}"}}) {{ __typename }} }}', caller=ANN
            )
            for id in ("bob1", "missing", "x" * 3_000)
        ]
        assert {error["message"] for error in errors} == {REFUSED}
        assert [error["extensions"] for error in errors] == [{"code": "FORBIDDEN"}] * 3
        assert await write(
            client, ANN, f'{verb}Note(input: {{{key}: "b{verb}", documentId: "ann1"}}) {{ __typename }}'
        ) == ("RECORD_NOT_FOUND" if verb == "update" else None)


async def test_readers_of_the_parent_may_reference_it(tmp_path: Path) -> None:
    """Callers that may read the parent may reference it, and are told that a parent is missing."""
    async with open_documents(tmp_path) as client:
        create = 'createNote(input: {{noteId: "{}", {}}}) {{ __typename }}'
        for number, (caller, reference, code) in enumerate(
            [
                (ANN, 'documentId: "ann1"', None),
                (ADMIN, 'documentId: "bob1"', None),
                (ADMIN, 'documentId: "missing"', "FOREIGN_KEY"),
                (ANN, 'folderId: "f1"', None),
                (ANN, 'folderId: "f2"', "FORBIDDEN"),
                (ANN, 'folderId: "f3"', "FORBIDDEN"),
                (ANN, 'noticeId: "n1"', None),
                (ANN, 'noticeId: "n2"', "FOREIGN_KEY"),
                (ANONYMOUS, 'noticeId: "n1"', "FORBIDDEN"),
                (ANN, 'openId: "bob1"', None),
                (ANONYMOUS, 'openId: "bob1"', None),
                (ANONYMOUS, 'openId: "missing"', "FOREIGN_KEY"),
                (ANONYMOUS, "documentId: null", None),
            ]
        ):
            assert await write(client, caller, create.format(f"n{number}", reference)) == code, reference


async def test_refusals_without_a_record_read_nothing(tmp_path: Path) -> None:
    """A caller that may never read the parent is refused before anything is read."""
    async with open_documents(tmp_path) as client:
        assert await write(
            client, ANONYMOUS, 'createNote(input: {noteId: "x", documentId: "ann1"}) { __typename }'
        ) == ("FORBIDDEN")
        assert (client.counts.gets, client.counts.rounds) == (0, 0)


async def test_references_that_stay_are_not_checked(tmp_path: Path) -> None:
    """A write that keeps the reference of a record is allowed; one that changes it is checked."""
    async with open_documents(tmp_path) as client:
        update = 'updateNote(input: {{id: "old", {}}}) {{ __typename }}'
        assert await write(client, ANN, update.format('text: "new"')) is None
        assert await write(client, ANN, 'putNote(input: {noteId: "old", documentId: "bob1"}) { __typename }') is None
        assert await write(client, ANN, update.format('documentId: "ann1"')) is None
        assert await write(client, ANN, update.format('documentId: "bob1"')) == "FORBIDDEN"
        assert await write(client, ANN, update.format("documentId: null")) is None


async def test_counters_of_hidden_parents(tmp_path: Path) -> None:
    """A refused reference draws no number from the counter of the parent, and does not tell its value."""
    async with open_documents(tmp_path) as client:
        create = 'mutation {{ createPage(input: {{documentId: "{}"}}) {{ page {{ number }} }} }}'
        for _ in range(3):
            await client.data(create.format("bob1"), caller=BOB)
        for verb in ("create", "put"):
            assert await write(client, ANN, f'{verb}Page(input: {{documentId: "bob1"}}) {{ page {{ number }} }}') == (
                "FORBIDDEN"
            )
        data = await client.data(create.format("bob1"), caller=BOB)
        assert data == {"createPage": {"page": {"number": 4}}}


async def test_batches(tmp_path: Path) -> None:
    """In a batch, each row with a forbidden reference has its own error."""
    async with open_documents(tmp_path) as client:
        rows = ", ".join(f'{{noteId: "{id}", documentId: "{id}"}}' for id in ("ann1", "bob1", "missing"))
        data = await client.data(
            f"mutation {{ createNotes(inputs: [{rows}]) {{ results {{ error {{ code }} }} }} }}", caller=ANN
        )
        assert data["createNotes"]["results"] == [
            {"error": None},
            {"error": {"code": "FORBIDDEN"}},
            {"error": {"code": "FORBIDDEN"}},
        ]


async def test_a_record_that_references_itself(tmp_path: Path) -> None:
    """A new record that references itself is allowed for those who may read it."""
    async with open_documents(tmp_path) as client:
        create = 'createDocument(input: {{documentId: "{0}", author: "ann", parentId: "{1}"}}) {{ __typename }}'
        assert await write(client, ANN, create.format("d1", "d1")) is None
        assert await write(client, ANN, create.format("d2", "d1")) is None
        assert await write(client, ANN, create.format("d3", "bob1")) == "FORBIDDEN"


# --- deletions -------------------------------------------------------------------------------------------------


async def deletion_error(client: GraphQLClient, caller: Caller, id: str) -> str:
    """Return the message of a deletion that references block."""
    error = await client.error(f'mutation {{ deleteDocument(id: "{id}") {{ deletedId }} }}', caller=caller)
    assert error["extensions"]["code"] == "FOREIGN_KEY"
    message: str = error["message"]
    return message


async def test_blocked_deletions_do_not_name_hidden_records(tmp_path: Path) -> None:
    """A deletion that a hidden record blocks fails with the same error as if one's own record blocked it."""
    async with open_documents(tmp_path) as client:
        create = 'createRemark(input: {{remarkId: "{}", documentId: "{}", writer: "{}"}}) {{ __typename }}'
        assert await write(client, BOB, create.format("secret", "ann1", "bob")) is None
        assert await write(client, ANN, create.format("own", "ann2", "ann")) is None
        hidden, own = await deletion_error(client, ANN, "ann1"), await deletion_error(client, ANN, "ann2")
        assert "secret" not in hidden
        assert hidden.replace("ann1", "ann2") == own
        assert hidden == (
            "Document ann1 cannot be deleted: a record references it. References can be in Document.parentId or "
            "Note.documentId or Note.openId or Remark.documentId or Page.documentId. You may not be allowed to read "
            "the record that does."
        )


async def test_blocked_deletions_name_records_for_those_who_read_all(tmp_path: Path) -> None:
    """A caller without rules, such as the Python API, is told which record references the one to delete."""
    async with open_documents(tmp_path) as client:
        with pytest.raises(ForeignKeyBroken, match=r"Note old references it by Note\.document_id"):
            await client.db.delete(Document, "bob1")


# --- declarations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (owner("writer"), "names the owner property 'writer', which Paper does not have."),
        (group(), "has a group rule without a name."),
        ("Admin", "has 'Admin' instead of a rule."),
    ],
)
def test_rules_of_foreign_keys(rule: Any, problem: str) -> None:
    """Rules of a foreign key are checked with the properties of the referenced entity."""

    class Paper(Entity):
        """A paper."""

        paper_id: Id[str]
        author: str

    class Comment(Entity):
        """A comment on a paper."""

        comment_id: Id[str]
        paper_id: str
        writer: str

        of_paper = ForeignKey("Paper", by="paper_id", allow=rule)

    with pytest.raises(InvalidCatalog) as refused:
        Catalog(Paper, Comment)
    (violation,) = refused.value.violations
    assert (violation.property, violation.problem) == ("of_paper", problem)
