"""Whatever is to be written, the answer is an answer or an error with a code, and what is stored can always be read."""

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
from tests.depth import examples
from tests.schema.asking import Asked, asking, opened
from tests.schema.test_fuzz import CODES, JSON, LIMITS, right
from tests.schema.test_nested_values import Address, Nested, Open, Tree
from tests.schema.written import document, inline
from tests.stores import all_items
from tests.unit.things import Digits, Line, Settings, Thing
from tests.writes.audit import check, sorted_out


class Account(Entity):
    """Has whatever a server sets, and what has to be unique."""

    account_id: Id[str]
    mail: Unique[str]
    number: Int32 = counter()
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    note: str | None = None


class Order(Entity, current="~current"):
    """A history beside its latest state."""

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


@st.composite
def calls(draw: st.DrawFn, *, anything: bool) -> tuple[str, str, dict[str, Any]]:
    """A mutation with some of its arguments in their types, some of them maybe of any other; those it needs, mostly."""
    field = draw(st.sampled_from([*FIELDS]))
    arguments = FIELDS[field]
    given = {
        name: draw(right(of) | JSON if anything else right(of))
        for name, of in arguments.items()
        if isinstance(of, GraphQLNonNull) or draw(st.integers(0, 5)) == 0
    }
    error = "error { code message argument retryable fields { field message } }"
    return field, f"{{ results {{ __typename {error} }} }}" if "inputs" in arguments else "{ __typename }", given


@dataclass
class Fuzzed:
    """A database to which anything is written."""

    runner: asyncio.Runner
    ask: Asked
    done: set[str]
    """verbs that have succeeded"""
    codes: set[str]

    def answer(self, field: str, query: str, variables: Any = None) -> Any:
        """The answer, which is never a mistake of the server."""
        found = self.runner.run(self.ask.answer(query, variables))
        assert found.status < 500, found.body
        answer = (found.body.get("data") or {}).get("answer")
        rows = [row["error"] for row in (answer or {}).get("results", ()) if row["error"]]
        codes = {*found.codes, *(row["code"] for row in rows)}
        assert codes <= CODES, found.body
        for one in (*found.body.get("errors", ()), *rows):
            assert 0 < len(one["message"]) < 10_000
            assert "Traceback" not in one["message"]
        self.codes |= codes
        if answer is not None and not rows:
            self.done.add(field[:3])
        return found

    async def check(self) -> None:
        """Whatever was stored is a record, with the keys and the unique values that it has."""
        table = sorted_out(await all_items(self.ask.store), None)
        orders = table.records["order"]
        entries = table.records["order"] = [item for item in orders if CURRENT_OF not in item]
        last = {item["orderId"]: item for item in sorted(entries, key=lambda item: str(item["version"]).encode())}
        assert {item["orderId"]: (item[CURRENT_OF], item["status"]) for item in orders if CURRENT_OF in item} == {
            order_id: (item["version"], item["status"]) for order_id, item in last.items()
        }
        check(CATALOG, table, None)
        assert sum(map(len, table.records.values())) > len(RECORDS)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    """A few records to begin with; in the end everything that is stored can be read, and each verb has succeeded."""
    path = tmp_path_factory.mktemp("fuzz") / "x.db"
    with asyncio.Runner() as runner:
        store = runner.run(open_sqlite(path))
        opening = opened(CATALOG, store, *RECORDS)
        db = runner.run(opening.__aenter__())
        fuzzed = Fuzzed(runner, asking(db, graph=GRAPH, limits=LIMITS), set(), set())
        yield fuzzed
        runner.run(fuzzed.check())
        assert fuzzed.done == {"cre", "upd", "put", "del"}
        assert fuzzed.codes >= {"INVALID_RECORD", "RECORD_NOT_FOUND", "BAD_USER_INPUT"}
        runner.run(opening.__aexit__(None, None, None))


@examples(350)
@given(call=calls(anything=False))
def test_any_arguments(fuzzed: Fuzzed, call: tuple[str, str, dict[str, Any]]) -> None:
    """Any values in their types are written or refused with a code, as literals and as variables."""
    field, selection, given = call
    event(field[:3])
    fuzzed.answer(field, inline(field, given, selection, "mutation"))
    by_variables = document(field, FIELDS[field], given, selection, "mutation")
    fuzzed.answer(field, by_variables, json.loads(json.dumps(given)))


@examples(200)
@given(call=calls(anything=True))
def test_arguments_of_any_type(fuzzed: Fuzzed, call: tuple[str, str, dict[str, Any]]) -> None:
    """Values of any other type are refused with a code."""
    field, selection, given = call
    by_variables = document(field, FIELDS[field], given, selection, "mutation")
    fuzzed.answer(field, by_variables, json.loads(json.dumps(given)))
    fuzzed.answer(field, inline(field, given, selection, "mutation"))
