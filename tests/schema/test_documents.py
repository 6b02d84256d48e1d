"""What else decides whether an operation runs: its name and kind, what the server tells, trusted documents."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id
from graphql_api.schema.request_context import Caller
from tests.schema.asking import Asked, asked, asking
from tests.schema.people import people_catalog

CATALOG, PERSON = people_catalog(2)
ANN = PERSON(person_id="p1", created=1, name="Ann", town="Rom", note="x")
FIND = 'query Find($id: ID = "p1") { person(id: $id) { name } }'
SHUT: dict[str, Any] = {"introspection": False, "suggestions": False}


async def _refused(ask: Asked, query: str | None, status: int, **more: Any) -> dict[str, Any]:
    ask.forget()
    answer = await ask.answer(query, **more)
    assert (answer.executed, answer.status) == (False, status)
    assert (ask.counts.rounds, ask.counts.gets) == (0, 0)
    error: dict[str, Any]
    (error,) = answer.body["errors"]
    return error


# --- which operation -------------------------------------------------------------------------------------------


async def test_the_named_operation_runs(tmp_path: Path) -> None:
    """Of several operations the named one runs; of one alone no name is needed, and no characters are no name."""
    both = "query A { a: __typename } query B { b: __typename }"
    async with asked(CATALOG, tmp_path, ANN) as ask:
        assert await ask.data(both, name="B") == {"b": "Query"}
        for name in (None, "", "Find"):
            assert await ask.data(FIND, name=name) == {"person": {"name": "Ann"}}


@pytest.mark.parametrize(
    ("query", "name", "says"),
    [
        (
            "query A { a: __typename } query B { b: __typename }",
            None,
            "several operations: A, B. Choose one by operationName",
        ),
        (
            "query A { a: __typename } query B { b: __typename }",
            "",
            "several operations: A, B. Choose one by operationName",
        ),
        ("query Find { __typename }", "Fnd", "no operation 'Fnd'. Did you mean 'Find'?"),
        ("{ __typename }", "Find", "no operation 'Find'."),
        ("type Query { a: Int }", None, "not executable"),
        ("fragment f on Query { __typename }", None, "never used"),
    ],
)
async def test_no_operation_to_run(tmp_path: Path, query: str, name: str | None, says: str) -> None:
    """A document that leaves open which operation to run is refused, with the names that there are."""
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, query, 400, name=name)
        assert says in error["message"]


@pytest.mark.parametrize("query", ["mutation { a }", "subscription { a }"])
async def test_operations_that_the_schema_does_not_have(tmp_path: Path, query: str) -> None:
    """A schema without mutations and subscriptions refuses them as invalid, with their place."""

    class Sealed(Entity, write=[]):
        sealed_id: Id[str]

    async with asked(Catalog(Sealed), tmp_path) as ask:
        error = await _refused(ask, query, 400)
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
        assert error["locations"] == [{"line": 1, "column": 1}]


async def test_no_query(tmp_path: Path) -> None:
    """A request without a document is refused by the argument that is missing."""
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, None, 400)
        assert error["extensions"] == {"code": "INVALID_REQUEST", "argument": "query"}


@pytest.mark.parametrize(
    "query", ["", " ", "{", "{ a", "query", "\ufeff", "{ a(b: ) }", '{ a(b: "', "\x00", "{ a } }", "&"]
)
async def test_what_is_no_document(tmp_path: Path, query: str) -> None:
    """A text that is no document is refused with the place where it ceases to be one."""
    async with asked(CATALOG, tmp_path) as ask:
        error = await _refused(ask, query, 400)
        assert error["extensions"] == {"code": "GRAPHQL_PARSE_FAILED"}
        assert error["message"].startswith("Syntax Error: ")
        assert [*error["locations"][0]] == ["line", "column"]


async def test_a_reader_may_not_write(tmp_path: Path) -> None:
    """Who may only read gets queries answered; anything else is refused before it runs."""
    reader = Caller("c-1", read_only=True)
    async with asked(CATALOG, tmp_path, ANN) as ask:
        assert await ask.data(FIND, caller=reader) == {"person": {"name": "Ann"}}


# --- what the server shows of itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["{ __schema { types { name } } }", '{ __type(name: "Person") { name } }'])
async def test_introspection_off(tmp_path: Path, query: str) -> None:
    """Without introspection the schema is not told, by whatever fragments; `__typename` still is."""
    async with asked(CATALOG, tmp_path, ANN) as ask:
        assert await ask.data(query)
        shut = asking(ask.db, **SHUT)
        hidden = f"{{ ...f }} fragment f on Query {query}"
        for text in (query, hidden):
            for error in await shut.errors(text):
                assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
                assert "introspection has been disabled" in error["message"]
        assert await shut.data('{ person(id: "p1") { __typename } }') == {"person": {"__typename": "Person"}}


NEAR_MISSES: list[tuple[str, dict[str, Any], str | None]] = [
    ("{ persn { name } }", {}, None),
    ('{ person(id: "p1") { nme } }', {}, None),
    ('{ person(idd: "p1") { name } }', {}, None),
    ('{ person(id: "p1") { ... on Persn { name } } }', {}, None),
    ("query ($id: IDD) { person(id: $id) { name } }", {}, None),
    ('{ personByFolded(folded: {prefx: "a"}) { nextToken } }', {}, None),
    ("{ people: persons(orderBy: FOLDED_ASC_CREATED_DES) { nextToken } }", {}, None),
    ("query ($o: PersonOrder!) { persons(orderBy: $o) { nextToken } }", {"o": "FOLDED_ASC_CREATED_DES"}, None),
    ("query ($f: StringCondition) { personByFolded(folded: $f) { nextToken } }", {"f": {"prefx": "a"}}, None),
    ("query ($s: OnShardFailure) { personById(onShardFailure: $s) { nextToken } }", {"s": "PARTAL"}, None),
    ("{ personById(onShardFailure: PARTAL) { nextToken } }", {}, None),
    ("query Find { __typename }", {}, "Fnd"),
]


@pytest.mark.parametrize(("query", "variables", "name"), NEAR_MISSES)
async def test_suggestions_off(tmp_path: Path, query: str, variables: dict[str, Any], name: str | None) -> None:
    """With suggestions a mistyped name is answered by the nearest one; without them no message tells any."""
    async with asked(CATALOG, tmp_path, ANN) as ask:
        helped = await ask.errors(query, variables, name=name)
        assert "Did you mean" in str(helped)
        shut = await asking(ask.db, **SHUT).errors(query, variables, name=name)
        assert [error["extensions"]["code"] for error in shut] == [error["extensions"]["code"] for error in helped]
        assert "Did you mean" not in str(shut)
        assert all(error["message"].strip() for error in shut)


# --- trusted documents -----------------------------------------------------------------------------------------

DOCUMENTS = {"find": FIND, "broken": "{ persn }"}


async def test_trusted_documents(tmp_path: Path) -> None:
    """A document is asked for by its id, with variables like any other; other documents may be sent as text."""
    async with asked(CATALOG, tmp_path, ANN, documents=DOCUMENTS) as ask:
        for variables in ({}, {"id": "p1"}):
            assert await ask.data(None, variables, document_id="find") == {"person": {"name": "Ann"}}
        assert await ask.data(None, {"id": "p2"}, document_id="find") == {"person": None}
        assert await ask.data("{ __typename }") == {"__typename": "Query"}
        error = await _refused(ask, None, 400, document_id="fnd")
        assert error["extensions"] == {"code": "PERSISTED_QUERY_NOT_FOUND"}
        error = await _refused(ask, None, 400, document_id="broken")
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}


async def test_only_trusted_documents(tmp_path: Path) -> None:
    """Where only trusted documents run, their text is as good as their id, and any other text is refused unread."""
    async with asked(CATALOG, tmp_path, ANN, documents=DOCUMENTS, only_documents=True) as ask:
        assert await ask.data(None, document_id="find") == {"person": {"name": "Ann"}}
        assert await ask.data(FIND) == {"person": {"name": "Ann"}}
        for query in ("{ __typename }", "{", f"{FIND} ", None):
            error = await _refused(ask, query, 403)
            assert error["extensions"] == {"code": "PERSISTED_QUERY_REQUIRED"}


# --- documents that come again ---------------------------------------------------------------------------------


async def test_documents_that_come_again(tmp_path: Path) -> None:
    """A document that was seen before is answered as at first: with other variables, and by its other operations."""
    both = f"{FIND} query Other {{ __typename }}"
    async with asked(CATALOG, tmp_path, ANN) as ask:
        for _ in range(2):
            assert await ask.data(both, name="Find") == {"person": {"name": "Ann"}}
            assert await ask.data(both, {"id": "p2"}, name="Find") == {"person": None}
            assert await ask.data(both, name="Other") == {"__typename": "Query"}
            assert (await ask.error(both, {"id": []}, name="Find"))["extensions"]["code"] == "BAD_USER_INPUT"


async def test_more_documents_than_are_kept(tmp_path: Path) -> None:
    """However many documents come, each is answered, and what is kept of them has an end."""
    async with asked(CATALOG, tmp_path, ANN) as ask:
        for at in range(200):
            query = f"{{ a{at}: __typename }}{' ' * 9_000}"
            assert await ask.data(query) == {f"a{at}": "Query"}
        assert len(ask.engine._cache) < 200
        assert await ask.data("{ a0: __typename }" + " " * 9_000) == {"a0": "Query"}
