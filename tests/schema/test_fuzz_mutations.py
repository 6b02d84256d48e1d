"""Fuzz tests of mutations: each response is a result or an error with a code, and stored records stay readable."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from graphql import GraphQLNonNull
from hypothesis import event, given
from hypothesis import strategies as st

from graphql_api import Catalog, Created, Entity, Id, Int32, SubId, Timestamp, Unique, Updated, Version, counter
from graphql_api.schema.graph import Graph
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.writes.item_keys import CURRENT_OF
from tests.schema.graphql_client import GraphQLClient, client_for, open_database
from tests.schema.graphql_text import document_with_literals, document_with_variables
from tests.schema.test_fuzz import CODES, JSON, LIMITS, valid_values
from tests.schema.test_nested_values import Address, Nested, Open, Tree
from tests.support.all_types_catalog import Digits, Line, Settings, Thing
from tests.support.run_depth import examples
from tests.support.store_doubles import all_items
from tests.write_guarantees.table_audit import check, classify_items


class Account(Entity):
    """An entity with server-set properties and a unique property."""

    account_id: Id[str]
    mail: Unique[str]
    number: Int32 = counter()
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    note: str | None = None


class Order(Entity, current="~current"):
    """A history with a current record."""

    order_id: Id[str]
    version: SubId[str]
    status: str = "-"


CATALOG = Catalog(Thing, Digits, Line, Settings, Account, Order, Nested)
GRAPH = Graph(CATALOG)
SCHEMA = GRAPH.schema
MUTATION: Any = SCHEMA._schema.mutation_type
FIELDS = {
    name: {word: argument.type for word, argument in field.args.items()} for name, field in MUTATION.fields.items()
}
RECORDS: list[Entity] = [
    Thing(thing_id="t-1", created=1, first_name="Jo", owner="o"),
    Line(order="o", year=1, category="c", num=1),
    Account(account_id="t-1", mail="jo", number=1, created=1, updated=1, version=1),
    Order(order_id="o", version="t-1"),
    Nested.model_validate(
        {
            "key": "t-1",
            "home": Address(street_name="x", number=1),
            "others": [],
            "by_name": {},
            "numbers": {1},
            "levels": [],
            "table": [],
            "chunks": [],
            "wrapped": [],
            "open": Open(),
            "tree": Tree(name="t"),
        }
    ),
]


pytestmark = pytest.mark.xdist_group("fuzz_mutations")
"""the fixture checks what both tests have done, so that they run in one process"""


@st.composite
def calls(draw: st.DrawFn, *, any_type: bool) -> tuple[str, str, dict[str, Any]]:
    """Draw a mutation, its selection, and some arguments. With `any_type`, values may have any type."""
    field = draw(st.sampled_from([*FIELDS]))
    arguments = FIELDS[field]
    given = {
        name: draw(valid_values(of) | JSON if any_type else valid_values(of))
        for name, of in arguments.items()
        if isinstance(of, GraphQLNonNull) or draw(st.integers(0, 5)) == 0
    }
    error = "error { code message argument retryable fields { field message } }"
    return field, f"{{ results {{ __typename {error} }} }}" if "inputs" in arguments else "{ __typename }", given


@dataclass
class FuzzTarget:
    """The client under test, with the successful verbs and the error codes so far."""

    runner: asyncio.Runner
    client: GraphQLClient
    done: set[str]
    """verbs that have succeeded"""
    codes: set[str]

    def execute(self, field: str, query: str, variables: Any = None) -> Any:
        """Execute a mutation and check that it causes no internal error."""
        response = self.runner.run(self.client.execute(query, variables))
        assert response.status < 500, response.body
        result = (response.body.get("data") or {}).get("answer")
        rows = [row["error"] for row in (result or {}).get("results", ()) if row["error"]]
        codes = {*response.codes, *(row["code"] for row in rows)}
        assert codes <= CODES, response.body
        for one in (*response.body.get("errors", ()), *rows):
            assert 0 < len(one["message"]) < 10_000
            assert "Traceback" not in one["message"]
        self.codes |= codes
        if result is not None and not rows:
            self.done.add(field[:3])
        return response

    async def check(self) -> None:
        """Check every stored item: records, keys, unique values and current records."""
        table = classify_items(await all_items(self.client.store), None)
        orders = table.records["order"]
        entries = table.records["order"] = [item for item in orders if CURRENT_OF not in item]
        last = {item["orderId"]: item for item in sorted(entries, key=lambda item: str(item["version"]).encode())}
        assert {item["orderId"]: (item[CURRENT_OF], item["status"]) for item in orders if CURRENT_OF in item} == {
            order_id: (item["version"], item["status"]) for order_id, item in last.items()
        }
        check(CATALOG, table, None)
        assert sum(map(len, table.records.values())) > len(RECORDS)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzTarget]:
    """A client with a few records. At the end every stored item is valid and each verb has succeeded."""
    path = tmp_path_factory.mktemp("fuzz") / "x.db"
    with asyncio.Runner() as runner:
        store = runner.run(open_sqlite(path))
        database_context = open_database(CATALOG, store, *RECORDS)
        db = runner.run(database_context.__aenter__())
        target = FuzzTarget(runner, client_for(db, graph=GRAPH, limits=LIMITS), set(), set())
        yield target
        runner.run(target.check())
        assert target.done >= {"cre", "upd", "put", "del"}
        assert target.codes >= {"INVALID_RECORD", "RECORD_NOT_FOUND", "BAD_USER_INPUT"}
        runner.run(database_context.__aexit__(None, None, None))


@examples(580, deep=14_000)
@given(call=calls(any_type=False))
def test_any_arguments(target: FuzzTarget, call: tuple[str, str, dict[str, Any]]) -> None:
    """Valid arguments are written or refused with a code, as literals and as variables."""
    field, selection, arguments = call
    event(field[:3])
    target.execute(field, document_with_literals(field, arguments, selection, "mutation"))
    by_variables = document_with_variables(field, FIELDS[field], arguments, selection, "mutation")
    target.execute(field, by_variables, json.loads(json.dumps(arguments)))


@examples(330, deep=8_000)
@given(call=calls(any_type=True))
def test_arguments_of_any_type(target: FuzzTarget, call: tuple[str, str, dict[str, Any]]) -> None:
    """Arguments of wrong types are refused with a code."""
    field, selection, arguments = call
    by_variables = document_with_variables(field, FIELDS[field], arguments, selection, "mutation")
    target.execute(field, by_variables, json.loads(json.dumps(arguments)))
    target.execute(field, document_with_literals(field, arguments, selection, "mutation"))
