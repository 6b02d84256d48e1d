"""Fuzz tests of queries: each response is a result or an error with a code, never an internal error."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from graphql import GraphQLEnumType, GraphQLInputObjectType, GraphQLList, GraphQLNonNull
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_graphql import Mode, nodes, queries

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import build_schema
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.docs.test_errors import error_classes
from tests.schema.graphql_client import SEAL, GraphQLClient, client_for
from tests.schema.graphql_text import EnumName, document_with_literals, document_with_variables, needed_arguments
from tests.server.catalog_server import Server, start_server
from tests.support.all_types_catalog import CATALOG as ALL_TYPES
from tests.support.all_types_catalog import Line, Settings, Thing
from tests.support.run_depth import examples

RECORDS = [
    Thing(thing_id="t-1", created=1, first_name="Jo", owner="o"),
    Thing(thing_id="t-2", created=2, first_name="Jo", owner="o"),
    Line(order="o", year=1, category="c", num=1),
    Settings(),
]
LIMITS = Limits(aliases=1_000, root_fields=1_000, tokens=20_000, cost=10**8)
"""high limits, so that drawn documents reach the search"""

SCHEMA = build_schema(ALL_TYPES)
SDL = SCHEMA.as_str()
CODES = {error.code for error in error_classes(ShardQLError)} - {"INTERNAL_ERROR"}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["t-1", "jo", "o", "o/1", "c/1", "", "x" * 3_000]
)
SCALAR_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "String": TEXTS,
    "ID": TEXTS | st.integers(),
    "Int": st.integers() | st.integers(-2, 502),
    "Float": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "Boolean": st.booleans(),
    "BigInt": st.integers() | st.integers().map(str),
    "Timestamp": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "Decimal": st.decimals().map(str) | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "UUID": st.uuids().map(str),
    "Date": st.dates().map(str),
    "DateTime": st.datetimes(timezones=st.timezones()).map(lambda at: at.isoformat()),
    "Duration": st.from_regex(r"\A-?P(\d{1,9}D)?(T(\d{1,9}H)?(\d{1,9}M)?(\d{1,9}(\.\d{1,6})?S)?)?\Z"),
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.text(st.characters(), max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["eq", "from", "to", "x"]), inner),
    max_leaves=8,
)

SCALAR_VALUES |= {
    "JSON": JSON,
    "Bytes": st.binary(max_size=5).map(lambda data: b64encode(data).decode()) | TEXTS,
    "TimestampMs": SCALAR_VALUES["Timestamp"],
}


def _node(value: Any) -> Any:
    """Return an AST literal for generated documents."""
    if isinstance(value, int):
        return nodes.Int(value)
    return nodes.Float(value) if isinstance(value, float) else nodes.String(value)


CUSTOM_SCALARS = ("BigInt", "Timestamp", "Decimal", "UUID", "Date", "DateTime", "Duration")
SCALAR_LITERALS = {name: SCALAR_VALUES[name].map(_node) for name in CUSTOM_SCALARS}
DOCUMENTS = queries(SDL, custom_scalars=SCALAR_LITERALS)
INVALID_DOCUMENTS = queries(SDL, custom_scalars=SCALAR_LITERALS, mode=Mode.NEGATIVE)


def _fields() -> dict[str, dict[str, Any]]:
    query = SCHEMA._schema.query_type
    assert query is not None
    return {name: {word: arg.type for word, arg in field.args.items()} for name, field in query.fields.items()}


FIELDS = _fields()
PAGE = "{ items { __typename } nextToken edges { cursor } pageInfo { startCursor endCursor hasNextPage } }"


def valid_values(of: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for valid values of an input type."""
    kind = of.of_type if isinstance(of, GraphQLNonNull) else of
    if isinstance(kind, GraphQLList):
        return st.lists(valid_values(kind.of_type), max_size=2)
    if isinstance(kind, GraphQLEnumType):
        return st.sampled_from([EnumName(name) for name in kind.values])
    return _input_objects(kind) if isinstance(kind, GraphQLInputObjectType) else SCALAR_VALUES[kind.name]


def _deferred_values(of: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: valid_values(of))


@cache
def _input_objects(kind: GraphQLInputObjectType) -> st.SearchStrategy[Any]:
    """Return a strategy for input objects with all required and few optional fields. Types may be recursive."""
    fields = {name: _deferred_values(field.type) for name, field in kind.fields.items()}
    if kind.is_one_of:
        return st.one_of([st.fixed_dictionaries({name: values}) for name, values in fields.items()])
    needed = {name for name, field in kind.fields.items() if isinstance(field.type, GraphQLNonNull)}
    further = {name: values | st.none() for name, values in fields.items() if name not in needed}
    if not further:
        return st.fixed_dictionaries(fields)
    chosen = st.lists(st.sampled_from([*further]), max_size=2, unique=True)
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries(
            {name: values for name, values in {**fields, **further}.items() if name in needed or name in names}
        )
    )


@st.composite
def calls(draw: st.DrawFn, *, any_type: bool) -> tuple[str, str, dict[str, Any]]:
    """Draw a field, its selection, and some arguments. With `any_type`, values may have any type."""
    field = draw(st.sampled_from([*FIELDS]))
    arguments = FIELDS[field]
    needed = needed_arguments(arguments)
    chosen = draw(st.sets(st.sampled_from([*arguments]), max_size=5)) if arguments else set()
    given = {
        name: draw(valid_values(arguments[name]) | JSON if any_type else valid_values(arguments[name]))
        for name in arguments
        if name in chosen or name in needed
    }
    return field, PAGE if "limit" in arguments else "{ __typename }", given


def _documents(call: tuple[str, str, dict[str, Any]]) -> tuple[str, str]:
    """Return the call with literals and with variables."""
    field, selection, arguments = call
    return document_with_literals(field, arguments, selection), document_with_variables(
        field, FIELDS[field], arguments, selection
    )


@dataclass
class FuzzTarget:
    """The client and the server under test."""

    runner: asyncio.Runner
    client: GraphQLClient
    server: Server

    def execute(self, query: str, variables: Any = None) -> Any:
        """Execute an operation and check that it causes no internal error."""
        response = self.runner.run(self.client.execute(query, variables))
        _check(response.status, response.body)
        return response

    def post(self, body: bytes) -> None:
        """Send any body over HTTP and check that it causes no internal error."""
        reply = self.server.client.post("/graphql", content=body, headers={"content-type": "application/json"})
        _check(reply.status_code, reply.json())


def _check(status: int, body: Any) -> None:
    assert status < 500, body
    errors = body.get("errors", [])
    assert "data" in body or errors, body
    assert {error["extensions"]["code"] for error in errors} <= CODES, body
    for error in errors:
        assert "Traceback" not in error["message"]
        assert 0 < len(error["message"]) < 10_000


ALL_RECORDS_QUERY = '{ things(orderBy: THING_ID_ASC) { items { thingId } } line(id: "o/1") { num } settings { theme } }'
UNCHANGED = {
    "things": {"items": [{"thingId": "t-1"}, {"thingId": "t-2"}]},
    "line": {"num": "1"},
    "settings": {"theme": "dark"},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzTarget]:
    """A client and a server with a few records. Queries never change the records."""
    path = tmp_path_factory.mktemp("fuzz") / "x.db"
    with (
        asyncio.Runner() as runner,
        start_server(ALL_TYPES, f"sqlite:///{path}", records=RECORDS, limits=LIMITS) as server,
    ):
        store = runner.run(open_sqlite(path))
        client = client_for(Database(ALL_TYPES, store, SEAL), limits=LIMITS)
        yield FuzzTarget(runner, client, server)
        assert runner.run(client.data(ALL_RECORDS_QUERY)) == server.execute(ALL_RECORDS_QUERY) == UNCHANGED
        assert client.counts.writes == 0
        runner.run(store.close())


@examples(40, deep=2_400)
@given(query=DOCUMENTS)
def test_any_valid_document(target: FuzzTarget, query: str) -> None:
    """Each valid document is executed, or refused with a code."""
    response = target.execute(query)
    assert response.executed or response.status == 400
    target.post(json.dumps({"query": query}).encode())


@examples(100)
@given(query=INVALID_DOCUMENTS)
def test_any_invalid_document(target: FuzzTarget, query: str) -> None:
    """Each invalid document is refused with a code, or executed if GraphQL permits it."""
    target.execute(query)
    target.post(json.dumps({"query": query}).encode())


@examples(200, deep=14_000)
@given(call=calls(any_type=False))
def test_any_arguments(target: FuzzTarget, call: tuple[str, str, dict[str, Any]]) -> None:
    """Valid arguments give the same response as literals and as variables."""
    by_literals, by_variables = _documents(call)
    *_, arguments = call
    one, other = target.execute(by_literals), target.execute(by_variables, json.loads(json.dumps(arguments)))
    assert one.executed == other.executed
    assert one.body.get("data") == other.body.get("data")
    if one.executed:
        assert one.codes == other.codes
    target.post(json.dumps({"query": by_variables, "variables": arguments}).encode())


@examples(180, deep=12_000)
@given(call=calls(any_type=True))
def test_arguments_of_any_type(target: FuzzTarget, call: tuple[str, str, dict[str, Any]]) -> None:
    """Arguments of wrong types are refused with a code, as literals and as variables."""
    by_literals, by_variables = _documents(call)
    *_, arguments = call
    target.execute(by_variables, json.loads(json.dumps(arguments)))
    if all(isinstance(name, str) for name in arguments):
        target.execute(by_literals)
    target.post(json.dumps({"query": by_variables, "variables": arguments}).encode())


TWO_OPERATIONS = """query A($n: Int = 2, $c: StringCondition) {
  things(limit: $n, orderBy: NAME_DESC_CREATED_DESC_STATE_DESC) { ...p }
  thingByName(name: $c) @include(if: true) { ...p }
}
fragment p on ThingConnection { items { thingId real state } pageInfo { endCursor } }"""
VALID = [
    TWO_OPERATIONS,
    '{ a: thing(id: "t-1") { name } b: lineById(id: "o/1", prefix: """c/""", num: null) { edges { node { num } } } }',
    "{ thingByReal(real: {between: {from: -1.5e3, to: 2}}, last: 1) { nextToken } __schema { types { name } } }",
]
BYTES = st.binary(max_size=4) | st.sampled_from([b"{", b"}", b"$n", b'"', b"...p"])
CUTS = st.tuples(st.integers(0, 300), st.integers(0, 6), BYTES)


def _mutated(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, instead in cuts:
        data = data[:at] + instead + data[at + length :]
    return data


@examples(300, deep=20_000)
@given(query=st.sampled_from(VALID), cuts=st.lists(CUTS, min_size=1, max_size=3))
def test_mutated_documents(target: FuzzTarget, query: str, cuts: list[tuple[int, int, bytes]]) -> None:
    """A valid document with some bytes replaced is executed, or refused with a code."""
    data = _mutated(query.encode(), cuts)
    target.execute(data.decode(errors="replace"), {"c": {"eq": "jo"}})
    target.execute(data.decode("latin-1"), {"c": {"eq": "jo"}})
    target.post(json.dumps({"query": data.decode(errors="replace"), "operationName": "A"}).encode())


@examples(180, deep=12_000)
@given(query=st.sampled_from(VALID), cuts=st.lists(CUTS, min_size=1, max_size=3), variables=JSON)
def test_mutated_bodies(target: FuzzTarget, query: str, cuts: list[tuple[int, int, bytes]], variables: Any) -> None:
    """A valid request with some bytes replaced, or with any variables, is executed, or refused with a code."""
    body = json.dumps({"query": query, "variables": {"c": {"eq": "jo"}}, "operationName": None}).encode()
    target.post(_mutated(body, cuts))
    target.post(json.dumps({"query": query, "variables": {"n": variables, "c": variables}}).encode())
