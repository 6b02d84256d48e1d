"""Whatever is asked, the answer is an answer or an error with a code: never a mistake of the server."""

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
from tests.api.server import Server, served
from tests.depth import examples
from tests.docs.test_errors import error_classes
from tests.schema.asking import SEAL, Asked, asking
from tests.schema.written import Bare, document, inline
from tests.unit.things import CATALOG as THINGS
from tests.unit.things import Line, Settings, Thing

RECORDS = [
    Thing(thing_id="t-1", created=1, first_name="Jo", owner="o"),
    Thing(thing_id="t-2", created=2, first_name="Jo", owner="o"),
    Line(order="o", year=1, category="c", num=1),
    Settings(),
]
LIMITS = Limits(aliases=1_000, root_fields=1_000, tokens=20_000, cost=10**8)
"""wide, so that what is drawn reaches the search"""

SCHEMA = build_schema(THINGS)
SDL = SCHEMA.as_str()
CODES = {error.code for error in error_classes(ShardQLError)} - {"INTERNAL_ERROR"}

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["t-1", "jo", "o", "o/1", "c/1", "", "x" * 3_000]
)
DRAWN: dict[str, st.SearchStrategy[Any]] = {
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

DRAWN |= {
    "JSON": JSON,
    "Bytes": st.binary(max_size=5).map(lambda data: b64encode(data).decode()) | TEXTS,
    "TimestampMs": DRAWN["Timestamp"],
}


def _node(value: Any) -> Any:
    """A literal for the drawn documents."""
    if isinstance(value, int):
        return nodes.Int(value)
    return nodes.Float(value) if isinstance(value, float) else nodes.String(value)


OURS = ("BigInt", "Timestamp", "Decimal", "UUID", "Date", "DateTime", "Duration")
NODES = {name: DRAWN[name].map(_node) for name in OURS}
DOCUMENTS = queries(SDL, custom_scalars=NODES)
WRONG_DOCUMENTS = queries(SDL, custom_scalars=NODES, mode=Mode.NEGATIVE)


def _fields() -> dict[str, dict[str, Any]]:
    query = SCHEMA._schema.query_type
    assert query is not None
    return {name: {word: arg.type for word, arg in field.args.items()} for name, field in query.fields.items()}


FIELDS = _fields()
PAGE = "{ items { __typename } nextToken edges { cursor } pageInfo { startCursor endCursor hasNextPage } }"


def right(of: Any) -> st.SearchStrategy[Any]:
    """Values of a type, as a client writes them."""
    kind = of.of_type if isinstance(of, GraphQLNonNull) else of
    if isinstance(kind, GraphQLList):
        return st.lists(right(kind.of_type), max_size=2)
    if isinstance(kind, GraphQLEnumType):
        return st.sampled_from([Bare(name) for name in kind.values])
    return _input(kind) if isinstance(kind, GraphQLInputObjectType) else DRAWN[kind.name]


def _later(of: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: right(of))


@cache
def _input(kind: GraphQLInputObjectType) -> st.SearchStrategy[Any]:
    """Input objects of a type, with all that they need and little more, since they may hold others of their type."""
    fields = {name: _later(field.type) for name, field in kind.fields.items()}
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
def calls(draw: st.DrawFn, *, anything: bool) -> tuple[str, str, dict[str, Any]]:
    """A field with some of its arguments in their types, some of them maybe of any other; those it needs, mostly."""
    field = draw(st.sampled_from([*FIELDS]))
    arguments = FIELDS[field]
    needed = [name for name, of in arguments.items() if isinstance(of, GraphQLNonNull)]
    chosen = draw(st.sets(st.sampled_from([*arguments]), max_size=5)) if arguments else set()
    given = {
        name: draw(right(arguments[name]) | JSON if anything else right(arguments[name]))
        for name in arguments
        if name in chosen or name in needed
    }
    return field, PAGE if "limit" in arguments else "{ __typename }", given


def _documents(call: tuple[str, str, dict[str, Any]]) -> tuple[str, str]:
    """The call with literals, and with variables."""
    field, selection, given = call
    return inline(field, given, selection), document(field, FIELDS[field], given, selection)


@dataclass
class Fuzzed:
    """A database that is asked for anything."""

    runner: asyncio.Runner
    ask: Asked
    server: Server

    def answer(self, query: str, variables: Any = None) -> Any:
        """The answer, which is never a mistake of the server."""
        found = self.runner.run(self.ask.answer(query, variables))
        _check(found.status, found.body)
        return found

    def post(self, body: bytes) -> None:
        """The same over HTTP, whatever the body."""
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


WHOLE = '{ things(orderBy: THING_ID_ASC) { items { thingId } } line(id: "o/1") { num } settings { theme } }'
UNTOUCHED = {
    "things": {"items": [{"thingId": "t-1"}, {"thingId": "t-2"}]},
    "line": {"num": "1"},
    "settings": {"theme": "dark"},
}


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    """Some records, which are all still there in the end."""
    path = tmp_path_factory.mktemp("fuzz") / "x.db"
    with asyncio.Runner() as runner, served(THINGS, f"sqlite:///{path}", records=RECORDS, limits=LIMITS) as server:
        store = runner.run(open_sqlite(path))
        ask = asking(Database(THINGS, store, SEAL), limits=LIMITS)
        yield Fuzzed(runner, ask, server)
        assert runner.run(ask.data(WHOLE)) == server.ask(WHOLE) == UNTOUCHED
        assert ask.counts.writes == 0
        runner.run(store.close())


@examples(60)
@given(query=DOCUMENTS)
def test_any_valid_document(fuzzed: Fuzzed, query: str) -> None:
    """Any document that the schema admits runs, and each of its fields is answered or refused with a code."""
    answer = fuzzed.answer(query)
    assert answer.executed or answer.status == 400
    fuzzed.post(json.dumps({"query": query}).encode())


@examples(100)
@given(query=WRONG_DOCUMENTS)
def test_any_invalid_document(fuzzed: Fuzzed, query: str) -> None:
    """Any document that breaks the schema somewhere is refused with a code, or runs where GraphQL lets it."""
    fuzzed.answer(query)
    fuzzed.post(json.dumps({"query": query}).encode())


@examples(350)
@given(call=calls(anything=False))
def test_any_arguments(fuzzed: Fuzzed, call: tuple[str, str, dict[str, Any]]) -> None:
    """Any values in their types are answered alike as literals and as variables."""
    by_literals, by_variables = _documents(call)
    *_, given = call
    one, other = fuzzed.answer(by_literals), fuzzed.answer(by_variables, json.loads(json.dumps(given)))
    assert one.executed == other.executed
    assert one.body.get("data") == other.body.get("data")
    if one.executed:
        assert one.codes == other.codes
    fuzzed.post(json.dumps({"query": by_variables, "variables": given}).encode())


@examples(300)
@given(call=calls(anything=True))
def test_arguments_of_any_type(fuzzed: Fuzzed, call: tuple[str, str, dict[str, Any]]) -> None:
    """Values of any other type are refused with a code, as literals and as variables."""
    by_literals, by_variables = _documents(call)
    *_, given = call
    fuzzed.answer(by_variables, json.loads(json.dumps(given)))
    if all(isinstance(name, str) for name in given):
        fuzzed.answer(by_literals)
    fuzzed.post(json.dumps({"query": by_variables, "variables": given}).encode())


BOTH = """query A($n: Int = 2, $c: StringCondition) {
  things(limit: $n, orderBy: NAME_DESC_CREATED_DESC_STATE_DESC) { ...p }
  thingByName(name: $c) @include(if: true) { ...p }
}
fragment p on ThingConnection { items { thingId real state } pageInfo { endCursor } }"""
VALID = [
    BOTH,
    '{ a: thing(id: "t-1") { name } b: lineById(id: "o/1", prefix: """c/""", num: null) { edges { node { num } } } }',
    "{ thingByReal(real: {between: {from: -1.5e3, to: 2}}, last: 1) { nextToken } __schema { types { name } } }",
]
BYTES = st.binary(max_size=4) | st.sampled_from([b"{", b"}", b"$n", b'"', b"...p"])
CUTS = st.tuples(st.integers(0, 300), st.integers(0, 6), BYTES)


def _mutated(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, instead in cuts:
        data = data[:at] + instead + data[at + length :]
    return data


@examples(500)
@given(query=st.sampled_from(VALID), cuts=st.lists(CUTS, min_size=1, max_size=3))
def test_mutated_documents(fuzzed: Fuzzed, query: str, cuts: list[tuple[int, int, bytes]]) -> None:
    """A valid document with some of its bytes replaced is answered, or refused with a code."""
    data = _mutated(query.encode(), cuts)
    fuzzed.answer(data.decode(errors="replace"), {"c": {"eq": "jo"}})
    fuzzed.answer(data.decode("latin-1"), {"c": {"eq": "jo"}})
    fuzzed.post(json.dumps({"query": data.decode(errors="replace"), "operationName": "A"}).encode())


@examples(300)
@given(query=st.sampled_from(VALID), cuts=st.lists(CUTS, min_size=1, max_size=3), variables=JSON)
def test_mutated_bodies(fuzzed: Fuzzed, query: str, cuts: list[tuple[int, int, bytes]], variables: Any) -> None:
    """A valid request with some of its bytes replaced, or with any variables, is answered, or refused with a code."""
    body = json.dumps({"query": query, "variables": {"c": {"eq": "jo"}}, "operationName": None}).encode()
    fuzzed.post(_mutated(body, cuts))
    fuzzed.post(json.dumps({"query": query, "variables": {"n": variables, "c": variables}}).encode())
