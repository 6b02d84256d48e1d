"""Tabs that are written from a catalog: valid whatever was declared, and with values wherever any are known."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from graphql import OperationDefinitionNode, parse, validate

from graphql_api import (
    Catalog,
    Created,
    Entity,
    HasMany,
    Id,
    Index,
    Int32,
    Ref,
    SubId,
    Timestamp,
    TimestampMs,
    allow,
    desc,
    group,
    open_catalog,
    signed_in,
)
from graphql_api.examples.orders import catalog as orders
from graphql_api.examples.orders import sample as sample_orders
from graphql_api.examples.users import catalog as users
from graphql_api.examples.users import sample
from graphql_api.playground.query_tabs import tabs_of, title_of
from graphql_api.playground.tab_text import COMMENT_WIDTH, Tab
from graphql_api.schema.execution.document_executor import Engine, Operation
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import Graph, build_schema
from graphql_api.schema.request_context import Caller


class State(Enum):
    """Where a thing stands."""

    OPEN = "open"
    DONE = "done"


class Tracking(Entity):
    """Every status that an order went through: nothing is found without knowing something."""

    order_id: Id[str]
    changed_at: SubId[str]
    customer_id: str | None = None
    status: str
    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")


class Thing(Entity):
    """All kinds of values, and names that arguments and generated fields have too."""

    number: Id[int]
    code: Id[UUID]
    part: SubId[str]
    line: SubId[int]
    state: State
    limit: int
    id: str
    day: date
    at: datetime
    ms: TimestampMs
    amount: Decimal
    weight: float
    done: bool
    by_state = Index(hash=["state", "done"], sort=desc("limit"))
    by_limit = Index(hash=["limit", "at", "weight", "ms"], sort="amount")
    by_day = Index(sort=["day", "at"])
    by_own = Index(hash="id", sort="weight")


class Counter(Entity):
    """The only one of its kind."""

    total: int = 0


class Plain(Entity):
    """Found by its number alone."""

    number: Id[Int32]


class Marked(Entity):
    """Its order shows no range."""

    key: Id[UUID]
    done: bool
    by_done = Index(sort="done")


THING = Thing(
    number=7,
    code=UUID(int=3),
    part="a/b",
    line=1,
    state=State.DONE,
    limit=3,
    id='"quoted"',
    day=date(2024, 2, 29),
    at=datetime(2024, 2, 29, 12, tzinfo=UTC),
    ms=1_709_208_000_000,
    amount=Decimal("12.50"),
    weight=1.5,
    done=True,
)
TRACKING = Tracking(order_id="o/1", changed_at="2024-05-01", customer_id="c", status="paid")
CASES: list[tuple[Catalog, Sequence[Entity]]] = [
    (users, [*sample(5)]),
    (orders, [*sample_orders(3)]),
    (Catalog(Tracking), [TRACKING]),
    (Catalog(Thing, namespace="Plugin"), [THING]),
    (Catalog(Counter), [Counter()]),
    (Catalog(Plain), [Plain(number=3)]),
    (Catalog(Counter, Marked), [Counter(), Marked(key=UUID(int=1), done=True)]),
]
NAMES = ["users", "orders", "tracking", "things", "counter", "plain", "marked"]


@pytest.fixture(params=CASES, ids=NAMES)
def case(request: pytest.FixtureRequest) -> tuple[Catalog, Sequence[Entity]]:
    """A catalog, and records of it."""
    found: tuple[Catalog, Sequence[Entity]] = request.param
    return found


@pytest.mark.parametrize("known", [True, False])
def test_tabs_are_valid(case: tuple[Catalog, Sequence[Entity]], known: bool) -> None:
    """Every tab is a valid operation of the catalog's schema under its own title, and titles do not repeat."""
    catalog, records = case
    schema = build_schema(catalog)._schema
    tabs = tabs_of(Graph(catalog), records if known else ())
    assert tabs
    for tab in tabs:
        document = parse(tab.query)
        assert validate(schema, document) == [], tab.query
        (operation,) = document.definitions
        assert isinstance(operation, OperationDefinitionNode)
        assert operation.name is not None
        assert operation.name.value == tab.title
        declared = [variable.variable.name.value for variable in operation.variable_definitions or ()]
        assert declared == [*json.loads(tab.variables or "{}")]
    assert len({tab.title for tab in tabs}) == len(tabs)


def test_comments_fit_beside_the_answer(case: tuple[Catalog, Sequence[Entity]]) -> None:
    """Comments stand at the left, where GraphiQL takes no title out of them, and are no wider than the editor."""
    catalog, records = case
    for tab in tabs_of(Graph(catalog), records):
        comments = [line for line in tab.query.splitlines() if "#" in line and '"' not in line]
        assert comments
        assert all(line.startswith("#") and len(line) <= COMMENT_WIDTH for line in comments)


async def answers(catalog: Catalog, records: Sequence[Entity], tabs: Sequence[Tab], file: Path) -> dict[str, Any]:
    """What each tab gives, by its title."""
    engine = Engine(build_schema(catalog), Limits())
    found = {}
    async with open_catalog(catalog, f"sqlite:///{file}") as database:
        for record in records:
            await database.put(record)
        for tab in tabs:
            asked = Operation(tab.query, variables=json.loads(tab.variables or "{}"))
            body = (await engine.run(asked, database, Caller("test"))).body
            assert "errors" not in body, (tab, body)
            (found[tab.title],) = body["data"].values()
    return found


async def test_tabs_find_the_records_that_are_known(case: tuple[Catalog, Sequence[Entity]], tmp_path: Path) -> None:
    """With records of the store at hand each tab gives some of them, as it is."""
    catalog, records = case
    tabs = tabs_of(Graph(catalog), records, read_only=True)
    found = await answers(catalog, records, tabs, tmp_path / "data.db")
    assert [title for title, answer in found.items() if not answer.get("items", answer.get("edges", answer))] == []
    assert not any("Put a value" in tab.query for tab in tabs)


async def test_first_tab_shows_pages(tmp_path: Path) -> None:
    """The first tab runs with nothing known, takes a search by names, and has a page behind its first one."""
    records = [*sample(20)]
    first, *others = tabs_of(Graph(users), read_only=True)
    found = await answers(users, records, [first], tmp_path / "data.db")
    assert first.title == "UserByFirstName"
    assert first.variables == '{\n  "nextToken": null\n}'
    assert found[first.title]["nextToken"]
    assert [tab.title for tab in others] == ["User", "Newest", "Range", "Users", "LastPage", "EmailByUser"]


def test_gaps_are_named() -> None:
    """Where nothing is known the comment says which arguments want a value, and no other tab says so."""
    asked = {
        tab.title: [line for line in tab.query.splitlines() if "Put a value" in line] for tab in tabs_of(Graph(users))
    }
    assert {title: lines for title, lines in asked.items() if lines} == {
        "User": ["# Put a value that is in your data for id."],
        "EmailByUser": ["# Put a value that is in your data for userId."],
    }


def test_a_record_shows_others() -> None:
    """The tab of one record has its `id`, and one join of each kind, with the beginning of what it shows."""
    tab = next(tab for tab in tabs_of(Graph(orders), [*sample_orders(3)]) if tab.title == "Plugin_Order")
    selection = tab.query.partition('id: "order-123") {')[2].split()
    assert selection[0] == "id"
    assert " ".join(selection).endswith(
        "customer { customerId name email } products { productId name price } "
        "lines(limit: 5) { items { orderId category productId } } } }"
    )


class Paper(Entity, allow=group("Clerk")):
    """For clerks."""

    paper_id: Id[str]
    created: Created[Timestamp]
    title: str
    by_title = Index(sort="title")


class Note(Entity):
    """For everybody, but for its price and its paper; found by what is not for everybody, or by a day."""

    note_id: Id[str]
    price: Annotated[int, allow(signed_in)]
    paper_id: str
    text: str
    day: date
    by_text = Index(sort="text", allow=signed_in)
    by_day = Index(sort="day")
    paper = Ref("Paper", by="paper_id")
    same = HasMany("Note", via="by_paper")
    by_paper = Index(hash="paper_id", sort="day")


async def test_what_is_not_for_everybody(tmp_path: Path) -> None:
    """Tabs ask for what everybody may see; where there is nothing such they say that somebody has to be known."""
    note = Note(note_id="n", price=1, paper_id="p", text="t", day=date(2024, 5, 1))
    catalog = Catalog(Paper, Note)
    tabs = tabs_of(Graph(catalog), [Paper(paper_id="p", created=1, title="t"), note], read_only=True)
    found = await answers(catalog, [note], tabs, tmp_path / "data.db")
    assert [title for title in found if title.startswith("Paper")] == []
    assert found["Note"]["same"]["items"] == [{"noteId": "n", "paperId": "p", "text": "t"}]
    assert not any("price" in tab.query or "paper {" in tab.query for tab in tabs)
    assert all("# Not for everybody" in tab.query for tab in tabs_of(Graph(Catalog(Paper))))


def test_titles_name_the_catalog() -> None:
    """A catalog is called by its namespace, else by its entities, of which the first three are named."""
    assert title_of(users) == "User, Email"
    assert title_of(Catalog(Thing, namespace="Plugin")) == "Plugin"
    assert title_of(Catalog(Counter, Plain, Marked)) == "Counter, Plain, Marked"
    assert title_of(Catalog(Counter, Plain, Marked, Tracking)) == "Counter, Plain, Marked and 1 more"
