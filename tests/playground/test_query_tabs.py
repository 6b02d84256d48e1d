"""Query tabs are valid for any catalog, and take values from stored records."""

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
from graphql_api.playground.query_tabs import catalog_title, sample_tabs
from graphql_api.playground.tab_text import COMMENT_WIDTH, Tab
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import Operation
from graphql_api.schema.graph import Graph, build_schema
from graphql_api.schema.request_context import Caller


class State(Enum):
    """An enum property."""

    OPEN = "open"
    DONE = "done"


class Tracking(Entity):
    """A history of order states. Each search requires a value."""

    order_id: Id[str]
    changed_at: SubId[str]
    customer_id: str | None = None
    status: str
    by_customer_id = Index(hash="customer_id")
    by_status = Index(hash="status", sort="changed_at")


class Thing(Entity):
    """Has properties of all types, and property names that collide with arguments and generated fields."""

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
    """An entity with a single record."""

    total: int = 0


class Plain(Entity):
    """Has an id and no index."""

    number: Id[Int32]


class Marked(Entity):
    """Sorted by a type without an example range."""

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
    """Return a catalog, and records of it."""
    case: tuple[Catalog, Sequence[Entity]] = request.param
    return case


@pytest.mark.parametrize("known", [True, False])
def test_tabs_are_valid(case: tuple[Catalog, Sequence[Entity]], known: bool) -> None:
    """Each tab is a valid operation of the schema. Its operation name is its title, and titles are unique."""
    catalog, records = case
    schema = build_schema(catalog)._schema
    tabs = sample_tabs(Graph(catalog), records if known else ())
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


def test_comments_fit_into_the_editor(case: tuple[Catalog, Sequence[Entity]]) -> None:
    """Comments are not indented, so that GraphiQL takes no title from them, and not wider than the editor."""
    catalog, records = case
    for tab in sample_tabs(Graph(catalog), records):
        comments = [line for line in tab.query.splitlines() if "#" in line and '"' not in line]
        assert comments
        assert all(line.startswith("#") and len(line) <= COMMENT_WIDTH for line in comments)


async def results(catalog: Catalog, records: Sequence[Entity], tabs: Sequence[Tab], file: Path) -> dict[str, Any]:
    """Return the value of the root field of each tab, by title."""
    executor = DocumentExecutor(build_schema(catalog), Limits())
    found = {}
    async with open_catalog(catalog, f"sqlite:///{file}") as database:
        for record in records:
            await database.put(record)
        for tab in tabs:
            operation = Operation(tab.query, variables=json.loads(tab.variables or "{}"))
            body = (await executor.run(operation, database, Caller("test"))).body
            assert "errors" not in body, (tab, body)
            (found[tab.title],) = body["data"].values()
    return found


async def test_tabs_return_stored_records(case: tuple[Catalog, Sequence[Entity]], tmp_path: Path) -> None:
    """With stored records, each tab returns some of them unchanged."""
    catalog, records = case
    tabs = sample_tabs(Graph(catalog), records, read_only=True)
    found = await results(catalog, records, tabs, tmp_path / "data.db")
    assert [title for title, answer in found.items() if not answer.get("items", answer.get("edges", answer))] == []
    assert not any("# Replace " in tab.query for tab in tabs)


async def test_first_tab_has_several_pages(tmp_path: Path) -> None:
    """The first tab needs no stored record, is a search by names, and has a second page."""
    records = [*sample(20)]
    first, *others = sample_tabs(Graph(users), read_only=True)
    found = await results(users, records, [first], tmp_path / "data.db")
    assert first.title == "UserByFirstName"
    assert first.variables == '{\n  "nextToken": null\n}'
    assert found[first.title]["nextToken"]
    assert [tab.title for tab in others] == ["User", "Newest", "Range", "Users", "LastPage", "EmailByUser"]


def test_placeholders_are_named() -> None:
    """Without stored records, a comment names the arguments with a placeholder. Other tabs have no such comment."""
    comments = {
        tab.title: [line for line in tab.query.splitlines() if "# Replace " in line]
        for tab in sample_tabs(Graph(users))
    }
    assert {title: lines for title, lines in comments.items() if lines} == {
        "User": ["# Replace id with a value from your data."],
        "EmailByUser": ["# Replace userId with a value from your data."],
    }


def test_record_tab_selects_joins() -> None:
    """The tab of one record selects its `id`, and one join of each kind with the first fields of its records."""
    tab = next(tab for tab in sample_tabs(Graph(orders), [*sample_orders(3)]) if tab.title == "Plugin_Order")
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
    """Open to everyone, except for its price, its paper, and the search by text."""

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


async def test_protected_properties_are_omitted(tmp_path: Path) -> None:
    """Tabs select what everyone may read. If there is nothing open, a comment asks for credentials."""
    note = Note(note_id="n", price=1, paper_id="p", text="t", day=date(2024, 5, 1))
    catalog = Catalog(Paper, Note)
    tabs = sample_tabs(Graph(catalog), [Paper(paper_id="p", created=1, title="t"), note], read_only=True)
    found = await results(catalog, [note], tabs, tmp_path / "data.db")
    assert [title for title in found if title.startswith("Paper")] == []
    assert found["Note"]["same"]["items"] == [{"noteId": "n", "paperId": "p", "text": "t"}]
    assert not any("price" in tab.query or "paper {" in tab.query for tab in tabs)
    assert all("# Requires authorization" in tab.query for tab in sample_tabs(Graph(Catalog(Paper))))


def test_titles_name_the_catalog() -> None:
    """The title is the namespace of the catalog, or else the names of its first three entities."""
    assert catalog_title(users) == "User, Email"
    assert catalog_title(Catalog(Thing, namespace="Plugin")) == "Plugin"
    assert catalog_title(Catalog(Counter, Plain, Marked)) == "Counter, Plain, Marked"
    assert catalog_title(Catalog(Counter, Plain, Marked, Tracking)) == "Counter, Plain, Marked and 1 more"
