"""Which operations run: operation names and kinds, introspection, suggestions, and trusted documents."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api import Catalog, Entity, Id
from graphql_api.schema.request_context import Caller
from tests.schema.graphql_client import GraphQLClient, client_for, open_client
from tests.schema.people_catalog import people_catalog

CATALOG, PERSON = people_catalog(2)
ANN = PERSON(person_id="p1", created=1, name="Ann", town="Rom", note="x")
FIND = 'query Find($id: ID = "p1") { person(id: $id) { name } }'
RESTRICTED: dict[str, Any] = {"introspection": False, "suggestions": False}


async def _refusal(client: GraphQLClient, query: str | None, status: int, **options: Any) -> dict[str, Any]:
    client.reset_counts()
    response = await client.execute(query, **options)
    assert (response.executed, response.status) == (False, status)
    assert (client.counts.rounds, client.counts.gets) == (0, 0)
    error: dict[str, Any]
    (error,) = response.body["errors"]
    return error


# --- operation selection ---------------------------------------------------------------------------------------


async def test_the_named_operation_runs(tmp_path: Path) -> None:
    """`operationName` selects one of several operations. A single operation needs no name; an empty name is ignored."""
    both = "query A { a: __typename } query B { b: __typename }"
    async with open_client(CATALOG, tmp_path, ANN) as client:
        assert await client.data(both, name="B") == {"b": "Query"}
        for name in (None, "", "Find"):
            assert await client.data(FIND, name=name) == {"person": {"name": "Ann"}}


@pytest.mark.parametrize(
    ("query", "name", "message"),
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
async def test_documents_without_a_selected_operation(
    tmp_path: Path, query: str, name: str | None, message: str
) -> None:
    """A document without a selected operation is refused, and the message lists its operations."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, query, 400, name=name)
        assert message in error["message"]


@pytest.mark.parametrize("query", ["mutation { a }", "subscription { a }"])
async def test_operations_missing_from_the_schema(tmp_path: Path, query: str) -> None:
    """A schema without mutations and subscriptions refuses them as invalid, with their location."""

    class Sealed(Entity, write=[]):
        sealed_id: Id[str]

    async with open_client(Catalog(Sealed), tmp_path) as client:
        error = await _refusal(client, query, 400)
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
        assert error["locations"] == [{"line": 1, "column": 1}]


async def test_a_request_without_a_document(tmp_path: Path) -> None:
    """A request without a document is refused, and the error names the missing argument."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, None, 400)
        assert error["extensions"] == {"code": "INVALID_REQUEST", "argument": "query"}


@pytest.mark.parametrize(
    "query", ["", " ", "{", "{ a", "query", "\ufeff", "{ a(b: ) }", '{ a(b: "', "\x00", "{ a } }", "&"]
)
async def test_syntax_errors(tmp_path: Path, query: str) -> None:
    """A document with a syntax error is refused with the location of the error."""
    async with open_client(CATALOG, tmp_path) as client:
        error = await _refusal(client, query, 400)
        assert error["extensions"] == {"code": "GRAPHQL_PARSE_FAILED"}
        assert error["message"].startswith("Syntax Error: ")
        assert [*error["locations"][0]] == ["line", "column"]


async def test_read_only_callers_may_query(tmp_path: Path) -> None:
    """A read-only caller may execute queries."""
    reader = Caller("c-1", read_only=True)
    async with open_client(CATALOG, tmp_path, ANN) as client:
        assert await client.data(FIND, caller=reader) == {"person": {"name": "Ann"}}


# --- introspection and suggestions -----------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["{ __schema { types { name } } }", '{ __type(name: "Person") { name } }'])
async def test_introspection_off(tmp_path: Path, query: str) -> None:
    """Disabled introspection refuses schema queries, also in fragments. `__typename` remains available."""
    async with open_client(CATALOG, tmp_path, ANN) as client:
        assert await client.data(query)
        restricted = client_for(client.db, **RESTRICTED)
        hidden = f"{{ ...f }} fragment f on Query {query}"
        for text in (query, hidden):
            for error in await restricted.errors(text):
                assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}
                assert "introspection has been disabled" in error["message"]
        assert await restricted.data('{ person(id: "p1") { __typename } }') == {"person": {"__typename": "Person"}}


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
    """Error messages suggest the nearest name only if suggestions are enabled. The codes stay the same."""
    async with open_client(CATALOG, tmp_path, ANN) as client:
        with_suggestions = await client.errors(query, variables, name=name)
        assert "Did you mean" in str(with_suggestions)
        without_suggestions = await client_for(client.db, **RESTRICTED).errors(query, variables, name=name)
        assert [error["extensions"]["code"] for error in without_suggestions] == [
            error["extensions"]["code"] for error in with_suggestions
        ]
        assert "Did you mean" not in str(without_suggestions)
        assert all(error["message"].strip() for error in without_suggestions)


# --- trusted documents -----------------------------------------------------------------------------------------

DOCUMENTS = {"find": FIND, "broken": "{ persn }"}


async def test_trusted_documents(tmp_path: Path) -> None:
    """A trusted document is executed by its id, with variables. Other documents may still be sent as text."""
    async with open_client(CATALOG, tmp_path, ANN, documents=DOCUMENTS) as client:
        for variables in ({}, {"id": "p1"}):
            assert await client.data(None, variables, document_id="find") == {"person": {"name": "Ann"}}
        assert await client.data(None, {"id": "p2"}, document_id="find") == {"person": None}
        assert await client.data("{ __typename }") == {"__typename": "Query"}
        error = await _refusal(client, None, 400, document_id="fnd")
        assert error["extensions"] == {"code": "PERSISTED_QUERY_NOT_FOUND"}
        error = await _refusal(client, None, 400, document_id="broken")
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}


async def test_only_trusted_documents(tmp_path: Path) -> None:
    """With `only_documents`, trusted documents run by id or by text. Other texts are refused without parsing."""
    async with open_client(CATALOG, tmp_path, ANN, documents=DOCUMENTS, only_documents=True) as client:
        assert await client.data(None, document_id="find") == {"person": {"name": "Ann"}}
        assert await client.data(FIND) == {"person": {"name": "Ann"}}
        for query in ("{ __typename }", "{", f"{FIND} ", None):
            error = await _refusal(client, query, 403)
            assert error["extensions"] == {"code": "PERSISTED_QUERY_REQUIRED"}


# --- document cache --------------------------------------------------------------------------------------------


async def test_cached_documents(tmp_path: Path) -> None:
    """A cached document runs like a new one, with other variables and other operations."""
    both = f"{FIND} query Other {{ __typename }}"
    async with open_client(CATALOG, tmp_path, ANN) as client:
        for _ in range(2):
            assert await client.data(both, name="Find") == {"person": {"name": "Ann"}}
            assert await client.data(both, {"id": "p2"}, name="Find") == {"person": None}
            assert await client.data(both, name="Other") == {"__typename": "Query"}
            assert (await client.error(both, {"id": []}, name="Find"))["extensions"]["code"] == "BAD_USER_INPUT"


async def test_the_document_cache_is_bounded(tmp_path: Path) -> None:
    """The document cache is bounded, and documents beyond its size still run."""
    async with open_client(CATALOG, tmp_path, ANN) as client:
        for at in range(200):
            query = f"{{ a{at}: __typename }}{' ' * 9_000}"
            assert await client.data(query) == {f"a{at}": "Query"}
        assert len(client.executor._cache) < 200
        assert await client.data("{ a0: __typename }" + " " * 9_000) == {"a0": "Query"}
