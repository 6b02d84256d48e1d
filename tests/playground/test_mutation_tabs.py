"""Mutation tabs create, update and delete one new record, for any catalog."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from graphql import FieldNode, OperationDefinitionNode, parse
from pydantic import UUID4, BaseModel, Field, field_validator

from graphql_api import (
    Catalog,
    Created,
    Entity,
    ForeignKey,
    Graph,
    Id,
    Immutable,
    Index,
    Int32,
    SubId,
    Timestamp,
    TimestampMs,
    Ttl,
    Unique,
    UniqueTogether,
    Updated,
    Version,
    allow,
    canonical,
    counter,
    derived,
    generated,
    group,
    open_catalog,
    owner,
    owner_through,
    signed_in,
)
from graphql_api.database import Database
from graphql_api.examples.issues import catalog as issues
from graphql_api.examples.issues import sample as sample_issues
from graphql_api.examples.orders import catalog as orders
from graphql_api.examples.orders import sample as sample_orders
from graphql_api.examples.users import catalog as users
from graphql_api.examples.users import sample as sample_users
from graphql_api.playground.query_tabs import sample_tabs
from graphql_api.playground.tab_text import Tab
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import Operation
from graphql_api.schema.request_context import Caller


class Colour(Enum):
    """An enum property."""

    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """A nested model."""

    street: str
    house_number: int
    floor: int | None = None
    seen_at: list[datetime]


class Everything(Entity):
    """Has a required property of every type."""

    number: Id[int]
    code: Id[UUID4]
    day: Id[date]
    part: SubId[str]
    line: SubId[Int32]
    expires: Ttl[Timestamp]
    colour: Colour
    amount: Decimal
    weight: float
    done: bool
    at: datetime
    ms: TimestampMs
    lasted: timedelta
    picture: bytes
    place: Place
    places: list[Place]
    colours: set[Colour]
    notes: dict[str, str]
    anything: list[Any]
    maybe: list[str] | None


EVERYTHING = Everything(
    number=7,
    code=UUID("9f2c4f83-1c3e-4a51-9d0f-0a5bb1f3c111"),
    day=date(2024, 2, 29),
    part="a/b",
    line=3,
    expires=4_000_000_000,
    colour=Colour.BLUE,
    amount=Decimal("12.50"),
    weight=1.5,
    done=True,
    at=datetime(2024, 2, 29, 12, tzinfo=UTC),
    ms=1_709_208_000_000,
    lasted=timedelta(minutes=5),
    picture=b"\x00\xff",
    place=Place(street='The "Mews"', house_number=1, seen_at=[datetime(2024, 2, 29, tzinfo=UTC)]),
    places=[],
    colours={Colour.RED, Colour.BLUE},
    notes={"some": "text"},
    anything=[1, {"a": [True, None]}],
    maybe=None,
)


class Club(Entity):
    """The parent of members."""

    club_id: Id[UUID] = Field(default_factory=lambda: UUID(int=1))
    name: str


class Member(Entity):
    """Has every kind of constraint and managed property."""

    member_id: Id[str] = generated()
    created: Created[Timestamp]
    updated: Updated[Timestamp]
    version: Version[Int32]
    club_id: Immutable[UUID]
    num: Int32 = counter("club_id")
    mail: Unique[str]
    name: str
    name_canonical: Unique[str] = derived(canonical, "name")
    shelf: int
    place: int
    fee: Decimal | None = None
    by_name = Index(hash="club_id", sort="name")
    unique_place = UniqueTogether("shelf", "place")
    unique_num = UniqueTogether("club_id", "num")
    of_club = ForeignKey("Club", by="club_id")

    @field_validator("mail")
    @classmethod
    def _is_mail(cls, value: str) -> str:
        if "@" not in value:
            raise ValueError("is no address")
        return value


CLUB = Club(club_id=UUID(int=7), name="Chess")
MEMBER = Member(
    member_id="m",
    created=1,
    updated=1,
    version=1,
    club_id=CLUB.club_id,
    num=1,
    mail="a@b.c",
    name="Ann",
    shelf=1,
    place=1,
)


class State(Entity, current="~current"):
    """A history."""

    thing: Id[str]
    version: SubId[str]
    status: str


class Particular(Entity):
    """Its ids must match a pattern."""

    code: Id[Annotated[str, Field(pattern=r"^[a-z]*-?[A-Z]{2}[0-9]+$")]]
    size: Annotated[int, Field(ge=10)]


Case = tuple[Catalog, Sequence[Entity]]
CASES: dict[str, Case] = {
    "users": (users, [*sample_users(5)]),
    "orders": (orders, [*sample_orders(3)]),
    "issues": (issues, [*sample_issues(3)]),
    "everything": (Catalog(Everything, namespace="Plugin"), [EVERYTHING]),
    "members": (Catalog(Member, Club), [CLUB, MEMBER]),
    "history": (Catalog(State), [State(thing="t", version="v1", status="new")]),
    "particular": (Catalog(Particular), [Particular(code="AB1", size=11), Particular(code="AB2", size=12)]),
}


@pytest.fixture(params=[*CASES.values()], ids=[*CASES])
def case(request: pytest.FixtureRequest) -> Case:
    """Return a catalog, and records of it."""
    case: Case = request.param
    return case


def mutation_tabs(catalog: Catalog | Graph, records: Sequence[Entity] = (), **how: Any) -> list[Tab]:
    """Return the mutation tabs."""
    graph = catalog if isinstance(catalog, Graph) else Graph(catalog)
    return [tab for tab in sample_tabs(graph, records, **how) if "\nmutation " in tab.query]


def mutation_names(catalog: Catalog, records: Sequence[Entity] = ()) -> list[str]:
    """Return the mutation fields of these tabs."""
    names = []
    for tab in mutation_tabs(catalog, records):
        (operation,) = parse(tab.query).definitions
        assert isinstance(operation, OperationDefinitionNode)
        names += [field.name.value for field in operation.selection_set.selections if isinstance(field, FieldNode)]
    return names


@dataclass(frozen=True, slots=True)
class InProcessServer:
    """An executor and a database, without HTTP."""

    executor: DocumentExecutor
    database: Database

    async def run(self, query: str, caller: Caller | None = None) -> Any:
        """Return the response to an operation."""
        return (await self.executor.run(Operation(query), self.database, caller or Caller("test"))).body

    async def items(self) -> dict[Any, Any]:
        """Return all stored items except counters, which are never reset."""
        page = await self.database.store.scan(0, 1, None)
        assert page.after is None
        items = [item for item in page.items if not str(item["rangeKey"]).startswith("counter#")]
        return {(item["hashKey"], item["rangeKey"]): item for item in items}


@asynccontextmanager
async def open_server(catalog: Catalog, records: Sequence[Entity], folder: Path) -> AsyncIterator[InProcessServer]:
    """Open a database with these records."""
    async with open_catalog(catalog, f"sqlite:///{folder}/data.db") as database:
        for record in records:
            await database.put(record)
        yield InProcessServer(DocumentExecutor(Graph(catalog).schema, Limits()), database)


def error_code(body: Any) -> str:
    """Return the code of the only error of a response."""
    (error,) = body["errors"]
    return str(error["extensions"]["code"])


async def test_tabs_create_update_and_delete_one_record(case: Case, tmp_path: Path) -> None:
    """Run unchanged, the tabs create a new record, change one property, delete it, and touch no other record."""
    catalog, records = case
    create, update, delete = mutation_tabs(catalog, records)
    async with open_server(catalog, records, tmp_path) as server:
        before = await server.items()
        made = await server.run(create.query)
        assert "errors" not in made, made
        held = await server.items()
        assert held.keys() > before.keys()
        assert error_code(await server.run(create.query)) == "ALREADY_EXISTS"
        assert await server.items() == held
        changed = await server.run(update.query)
        assert "errors" not in changed, changed
        (((_, old),),) = [answer.items() for answer in made["data"].values()]
        (((_, new),),) = [answer.items() for answer in changed["data"].values()]
        assert len({name for name in new if new[name] != old.get(name)} - {"version", "updated"}) == 1
        assert {key: item for key, item in (await server.items()).items() if key in before} == before
        (gone,) = (await server.run(delete.query))["data"].values()
        assert gone["deletedId"]
        assert await server.items() == before


async def test_update_and_delete_without_create_change_nothing(case: Case, tmp_path: Path) -> None:
    """Without the created record, Update is an error, Delete has no effect, and no other record changes."""
    catalog, records = case
    _, update, delete = mutation_tabs(catalog, records)
    async with open_server(catalog, records, tmp_path) as server:
        before = await server.items()
        assert error_code(await server.run(update.query)) == "RECORD_NOT_FOUND"
        (gone,) = (await server.run(delete.query))["data"].values()
        assert gone == {"deletedId": None}
        assert await server.items() == before


@pytest.mark.parametrize("name", ["users", "orders", "issues", "everything", "history"])
async def test_tabs_without_stored_records(name: str, tmp_path: Path) -> None:
    """Without stored records, values are generated by type, and the server accepts them."""
    catalog, _ = CASES[name]
    async with open_server(catalog, [], tmp_path) as server:
        for tab in mutation_tabs(catalog):
            body = await server.run(tab.query)
            assert "errors" not in body, (tab.query, body)
            assert "# Replace " not in tab.query


async def test_search_finds_the_created_record(tmp_path: Path) -> None:
    """The search of the first tab finds the created user, under the names of a stored user."""
    records = [*sample_users(5)]
    create, *_ = mutation_tabs(users, records)
    async with open_server(users, records, tmp_path) as server:
        await server.run(create.query)
        found = (await server.run('{ userByFirstName(prefix: "Jason") { items { userId } } }'))["data"]
    assert {"userId": "example-user"} in found["userByFirstName"]["items"]


def test_order() -> None:
    """Mutation tabs come last, in the order in which they are run."""
    assert [tab.title for tab in sample_tabs(Graph(users))][-3:] == ["Create", "Update", "Delete"]
    assert mutation_names(orders) == ["Plugin_createCustomer", "Plugin_updateCustomer", "Plugin_deleteCustomer"]


def test_read_only() -> None:
    """A read-only schema has only query tabs."""
    graph = Graph(users)
    assert sample_tabs(graph, read_only=True) == sample_tabs(graph)[:-3]


class Vote(Entity, write=[]):
    """Not writable."""

    vote_id: Id[str]
    choice: str


class Total(Entity):
    """An entity with a single record."""

    count: int


class Switch(Entity):
    """Has so few ids that all may be taken."""

    colour: Id[Colour]
    words: str


def test_entities_without_mutation_tabs() -> None:
    """No tab writes an entity that is not writable, has a single record, or has so few ids that all may be taken."""
    assert mutation_tabs(Catalog(Vote, Total, Switch)) == []


class Paper(Entity, allow=group("Clerk")):
    """For clerks."""

    paper_id: Id[str]
    title: str


class Note(Entity, allow=owner("author")):
    """Only for its author."""

    note_id: Id[str]
    author: str
    text: str


class Wish(Entity, allow=[], write=signed_in):
    """Writable by authenticated callers, readable by no one."""

    wish_id: Id[str]
    text: str


class Price(Entity):
    """Open to everyone, except for one required property."""

    price_id: Id[str]
    amount: Annotated[int, allow(signed_in)]


class Open(Entity):
    """Readable and writable by anyone."""

    open_id: Id[str]
    text: str


def test_open_entities_are_preferred() -> None:
    """An entity that everyone may write is preferred, whatever the order of declaration."""
    assert mutation_names(Catalog(Paper, Note, Price, Open)) == ["createOpen", "updateOpen", "deleteOpen"]
    assert ["# Requires authorization: add" in tab.query for tab in mutation_tabs(Catalog(Paper))] == [True, True, True]
    assert ["# Requires authorization: add" in tab.query for tab in mutation_tabs(Catalog(Price))] == [True, False]


@pytest.mark.parametrize(
    ("entity", "caller"),
    [
        (Paper, Caller("1", subject="eve", groups=frozenset({"Clerk"}))),
        (Wish, Caller("1", subject="eve")),
        (Price, Caller("1", subject="eve")),
    ],
)
async def test_tabs_of_protected_entities(entity: type[Entity], caller: Caller, tmp_path: Path) -> None:
    """Callers that may write run the tabs unchanged, even if they may not read. Others get FORBIDDEN."""
    catalog = Catalog(entity)
    async with open_server(catalog, [], tmp_path) as server:
        for tab in mutation_tabs(catalog):
            if "# Requires authorization" in tab.query:
                assert error_code(await server.run(tab.query)) == "FORBIDDEN"
            body = await server.run(tab.query, caller)
            assert "errors" not in body, (tab.query, body)


def test_placeholders_are_named() -> None:
    """A comment names properties with a placeholder: the owner, and the id of an unknown parent."""
    create, update, delete = mutation_tabs(Catalog(Note))
    assert "# Replace author with a value from your data." in create.query
    assert "text:" in update.query
    assert "author:" not in update.query
    assert "# Replace " not in delete.query

    class Child(Entity):
        """Its parent has no stored record."""

        child_id: Id[str]
        club_id: UUID
        of_club = ForeignKey("Club", by="club_id")

    closed = Catalog(type("Club", (Club,), {"__module__": __name__, "__doc__": "Of members."}, write=[]), Child)
    create, *_ = mutation_tabs(closed)
    assert "createChild(" in create.query
    assert "# Replace clubId with a value from your data." in create.query


class Share(Entity, allow=[]):
    """The members of a folder."""

    folder_id: Id[str]
    holder: SubId[str]


SHARED = owner_through("Share", of="folder_id", owner="holder")


def test_ownership_through_a_parent() -> None:
    """The property that decides ownership is a placeholder. No tab changes it. If it is the id, all tabs name it."""

    class Sheet(Entity, allow=SHARED):
        sheet_id: Id[str]
        folder_id: str
        text: str = ""

    class Page(Entity, allow=SHARED):
        folder_id: Id[str]
        number: SubId[int]
        text: str = ""

    create, update, delete = mutation_tabs(Catalog(Share, Sheet))
    assert "# Replace folderId with a value from your data." in create.query
    assert "text:" in update.query
    assert not any("folderId:" in tab.query or "# Replace " in tab.query for tab in (update, delete))
    create, update, delete = mutation_tabs(Catalog(Share, Page))
    assert "# Replace folderId with a value from your data." in create.query
    assert all("# Replace id with a value from your data." in tab.query for tab in (update, delete))
    assert mutation_names(Catalog(Share, Page, Wish)) == ["createWish", "updateWish", "deleteWish"]


class Labelled(Entity):
    """Has a map with arbitrary keys."""

    labelled_id: Id[str]
    labels: dict[str, str]


def test_values_without_a_graphql_literal() -> None:
    """Map keys that are not GraphQL names have no literal, so another entity is used, or none."""
    odd = Labelled(labelled_id="l", labels={"not a name": "x"})
    assert mutation_tabs(Catalog(Labelled), [odd]) == []
    assert mutation_names(Catalog(Labelled, Open), [odd])[0] == "createOpen"


class Parsed(Entity):
    """Its derived property rejects sample values."""

    parsed_id: Id[str]
    digits: str
    number: int = derived(int, "digits")


def test_derived_property_that_rejects_sample_values() -> None:
    """An entity whose derived property cannot be computed from sample values has no tabs."""
    assert mutation_tabs(Catalog(Parsed)) == []
