"""Tabs that write: what they create, change and remove is one record that was not there, whatever was declared."""

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
from graphql_api.playground.query_tabs import tabs_of
from graphql_api.playground.tab_text import Tab
from graphql_api.schema.execution.document_executor import Engine, Operation
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.request_context import Caller


class Colour(Enum):
    """Of a thing."""

    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """Where something is."""

    street: str
    house_number: int
    floor: int | None = None
    seen_at: list[datetime]


class Everything(Entity):
    """Needs a value of every kind."""

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
    """Of members."""

    club_id: Id[UUID] = Field(default_factory=lambda: UUID(int=1))
    name: str


class Member(Entity):
    """Held by everything that can hold a record."""

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
    """Takes ids of one form alone."""

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
    """A catalog, and records of it."""
    found: Case = request.param
    return found


def edits(catalog: Catalog | Graph, records: Sequence[Entity] = (), **how: Any) -> list[Tab]:
    """The tabs that write."""
    graph = catalog if isinstance(catalog, Graph) else Graph(catalog)
    return [tab for tab in tabs_of(graph, records, **how) if "\nmutation " in tab.query]


def fields(catalog: Catalog, records: Sequence[Entity] = ()) -> list[str]:
    """The mutations that they run."""
    found = []
    for tab in edits(catalog, records):
        (operation,) = parse(tab.query).definitions
        assert isinstance(operation, OperationDefinitionNode)
        found += [field.name.value for field in operation.selection_set.selections if isinstance(field, FieldNode)]
    return found


@dataclass(frozen=True, slots=True)
class Site:
    """A server without HTTP."""

    engine: Engine
    database: Database

    async def run(self, query: str, caller: Caller | None = None) -> Any:
        """The answer to an operation."""
        return (await self.engine.run(Operation(query), self.database, caller or Caller("test"))).body

    async def items(self) -> dict[Any, Any]:
        """All that is stored, but for counters, which never go back."""
        page = await self.database.store.scan(0, 1, None)
        assert page.after is None
        kept = [item for item in page.items if not str(item["rangeKey"]).startswith("counter#")]
        return {(item["hashKey"], item["rangeKey"]): item for item in kept}


@asynccontextmanager
async def site(catalog: Catalog, records: Sequence[Entity], folder: Path) -> AsyncIterator[Site]:
    """A server that holds these records."""
    async with open_catalog(catalog, f"sqlite:///{folder}/data.db") as database:
        for record in records:
            await database.put(record)
        yield Site(Engine(Graph(catalog).schema, Limits()), database)


def code(body: Any) -> str:
    """The code of the one error of an answer."""
    (error,) = body["errors"]
    return str(error["extensions"]["code"])


async def test_one_record_comes_changes_and_goes(case: Case, tmp_path: Path) -> None:
    """Run as they are, the tabs write a record that was not there, change one thing of it, remove it, and no other."""
    catalog, records = case
    create, update, delete = edits(catalog, records)
    async with site(catalog, records, tmp_path) as server:
        before = await server.items()
        made = await server.run(create.query)
        assert "errors" not in made, made
        held = await server.items()
        assert held.keys() > before.keys()
        assert code(await server.run(create.query)) == "ALREADY_EXISTS"
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


async def test_out_of_turn_nothing_happens(case: Case, tmp_path: Path) -> None:
    """Where nothing was created a change is refused, a removal finds nothing, and no record is touched."""
    catalog, records = case
    _, update, delete = edits(catalog, records)
    async with site(catalog, records, tmp_path) as server:
        before = await server.items()
        assert code(await server.run(update.query)) == "RECORD_NOT_FOUND"
        (gone,) = (await server.run(delete.query))["data"].values()
        assert gone == {"deletedId": None}
        assert await server.items() == before


@pytest.mark.parametrize("name", ["users", "orders", "issues", "everything", "history"])
async def test_nothing_known(name: str, tmp_path: Path) -> None:
    """With no record at hand values are made up by type, which the server takes."""
    catalog, _ = CASES[name]
    async with site(catalog, [], tmp_path) as server:
        for tab in edits(catalog):
            body = await server.run(tab.query)
            assert "errors" not in body, (tab.query, body)
            assert "Put a value" not in tab.query


async def test_created_record_is_found(tmp_path: Path) -> None:
    """A created user stands in the search of the first tab, under the names that a known user has."""
    records = [*sample_users(5)]
    create, *_ = edits(users, records)
    async with site(users, records, tmp_path) as server:
        await server.run(create.query)
        found = (await server.run('{ userByFirstName(prefix: "Jason") { items { userId } } }'))["data"]
    assert {"userId": "example-user"} in found["userByFirstName"]["items"]


def test_order() -> None:
    """Tabs that write come last, in the order in which they are to be run."""
    assert [tab.title for tab in tabs_of(Graph(users))][-3:] == ["Create", "Update", "Delete"]
    assert fields(orders) == ["Plugin_createCustomer", "Plugin_updateCustomer", "Plugin_deleteCustomer"]


def test_read_only() -> None:
    """Where only reading is allowed there are the other tabs alone."""
    graph = Graph(users)
    assert tabs_of(graph, read_only=True) == tabs_of(graph)[:-3]


class Vote(Entity, write=[]):
    """Nobody writes it."""

    vote_id: Id[str]
    choice: str


class Total(Entity):
    """There is one, which is somebody's."""

    count: int


class Switch(Entity):
    """Any of its ids may be in use."""

    colour: Id[Colour]
    words: str


def test_what_is_left_alone() -> None:
    """No tab writes what nobody may write, what there is one of, or what has so few ids that each may be somebody's."""
    assert edits(Catalog(Vote, Total, Switch)) == []


class Paper(Entity, allow=group("Clerk")):
    """For clerks."""

    paper_id: Id[str]
    title: str


class Note(Entity, allow=owner("author")):
    """For whoever wrote it."""

    note_id: Id[str]
    author: str
    text: str


class Wish(Entity, allow=[], write=signed_in):
    """Read by nobody."""

    wish_id: Id[str]
    text: str


class Price(Entity):
    """With something that only some may say."""

    price_id: Id[str]
    amount: Annotated[int, allow(signed_in)]


class Open(Entity):
    """For everybody."""

    open_id: Id[str]
    text: str


def test_whom_they_are_for() -> None:
    """What everybody may write comes before what only some may, wherever it is declared."""
    assert fields(Catalog(Paper, Note, Price, Open)) == ["createOpen", "updateOpen", "deleteOpen"]
    assert ["# Not for everybody: say" in tab.query for tab in edits(Catalog(Paper))] == [True, True, True]
    assert ["# Not for everybody: say" in tab.query for tab in edits(Catalog(Price))] == [True, False]


@pytest.mark.parametrize(
    ("entity", "caller"),
    [
        (Paper, Caller("1", subject="eve", groups=frozenset({"Clerk"}))),
        (Wish, Caller("1", subject="eve")),
        (Price, Caller("1", subject="eve")),
    ],
)
async def test_for_those_who_may(entity: type[Entity], caller: Caller, tmp_path: Path) -> None:
    """Whoever may write runs them as they are, whether they may read or not; others are refused."""
    catalog = Catalog(entity)
    async with site(catalog, [], tmp_path) as server:
        for tab in edits(catalog):
            if "# Not for everybody" in tab.query:
                assert code(await server.run(tab.query)) == "FORBIDDEN"
            body = await server.run(tab.query, caller)
            assert "errors" not in body, (tab.query, body)


def test_gaps() -> None:
    """A comment names what only somebody else knows: whose record it is, and which record it belongs to."""
    create, update, delete = edits(Catalog(Note))
    assert "# Put a value that is in your data for author." in create.query
    assert "text:" in update.query
    assert "author:" not in update.query
    assert "Put a value" not in delete.query

    class Child(Entity):
        """Of a parent that is nowhere to be seen."""

        child_id: Id[str]
        club_id: UUID
        of_club = ForeignKey("Club", by="club_id")

    closed = Catalog(type("Club", (Club,), {"__module__": __name__, "__doc__": "Of members."}, write=[]), Child)
    create, *_ = edits(closed)
    assert "createChild(" in create.query
    assert "# Put a value that is in your data for clubId." in create.query


class Share(Entity, allow=[]):
    """Who shares a folder."""

    folder_id: Id[str]
    holder: SubId[str]


SHARED = owner_through("Share", of="folder_id", owner="holder")


def test_what_belongs_to_others() -> None:
    """What decides who may write a record is for them to say, and stays; where it is the id, in each of the tabs."""

    class Sheet(Entity, allow=SHARED):
        sheet_id: Id[str]
        folder_id: str
        text: str = ""

    class Page(Entity, allow=SHARED):
        folder_id: Id[str]
        number: SubId[int]
        text: str = ""

    create, update, delete = edits(Catalog(Share, Sheet))
    assert "# Put a value that is in your data for folderId." in create.query
    assert "text:" in update.query
    assert not any("folderId:" in tab.query or "Put a value" in tab.query for tab in (update, delete))
    create, update, delete = edits(Catalog(Share, Page))
    assert "# Put a value that is in your data for folderId." in create.query
    assert all("# Put a value that is in your data for id." in tab.query for tab in (update, delete))
    assert fields(Catalog(Share, Page, Wish)) == ["createWish", "updateWish", "deleteWish"]


class Labelled(Entity):
    """Its labels may be anything."""

    labelled_id: Id[str]
    labels: dict[str, str]


def test_what_no_document_can_say() -> None:
    """Keys that are no names of GraphQL cannot be written down, so another entity is taken, or none."""
    odd = Labelled(labelled_id="l", labels={"not a name": "x"})
    assert edits(Catalog(Labelled), [odd]) == []
    assert fields(Catalog(Labelled, Open), [odd])[0] == "createOpen"
