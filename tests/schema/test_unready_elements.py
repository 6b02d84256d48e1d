"""Fields that need an element which the table does not have yet: refused, and never answered in part."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, HasMany, Id, Index, Ref, SubId, Union, open_catalog
from tests.schema.graphql_client import GraphQLClient, client_for

TOWN, STREET = "Bern", "Main Street"


class OldHome(Entity, name="home"):
    """The entity of the release before."""

    home_id: Id[str]
    street: str = ""
    town: str = ""
    by_street = Index(hash="town", sort="street")


class OldStep(Entity, name="step"):
    """A history without current records."""

    home_id: Id[str]
    number: SubId[str]
    note: str = ""
    by_note = Index(sort="note")


class Home(Entity):
    """An entity with a new index, which a union and joins use."""

    home_id: Id[str]
    street: str = ""
    town: str = ""
    by_street = Index(hash="town", sort="street")
    by_town = Index(hash="town", sort="home_id")
    by_any = Union("by_street", "by_town")
    neighbours = HasMany("Home", via="by_town")
    first_in_town = Ref("Home", by="town", via="by_town")
    somewhere = HasMany("Home", via="by_any")
    step = Ref("Step", by="home_id")


class Step(Entity, current="latest"):
    """A history with current records."""

    home_id: Id[str]
    number: SubId[str]
    note: str = ""
    by_note = Index(sort="note")


CATALOG = Catalog(Home, Step)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GraphQLClient]:
    """A client of the new release, whose table holds the records of the release before and was not migrated."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with open_catalog(Catalog(OldHome, OldStep), url) as db:
        await db.put_many([OldHome(home_id=f"h{number}", street=STREET, town=TOWN) for number in range(3)])
        await db.put_many([OldStep(home_id="h1", number=number, note=f"note {number}") for number in "123"])
    async with open_catalog(CATALOG, url, migrate=False) as db:
        yield client_for(db)


@pytest.mark.parametrize(
    ("field", "element"),
    [
        ('homeByTown(town: "Bern") { items { homeId } }', "index home.town"),
        ('homeByTown(town: "Bern") { totalCount { value } }', "index home.town"),
        ('homeByAny(town: "Bern") { items { homeId } }', "index home.town"),
        ('homeByAny(town: "Bern", orderBy: STREET_ASC) { items { homeId } }', "index home.town"),
        ('homes(town: "Bern", orderBy: HOME_ID_ASC) { items { homeId } }', "index home.town"),
        ('home(id: "h1") { neighbours { items { homeId } } }', "index home.town"),
        ('home(id: "h1") { firstInTown { homeId } }', "index home.town"),
        ('home(id: "h1") { somewhere { items { homeId } } }', "index home.town"),
        ('stepById(id: "h1", history: CURRENT) { items { note } }', "current record step.current"),
        ("stepByNote(history: CURRENT) { items { note } }", "current record step.current"),
    ],
)
async def test_fields_are_refused_wherever_they_reach_an_element(
    client: GraphQLClient, field: str, element: str
) -> None:
    """Searches, counts, unions, sorted unions and joins are refused with code, element, state and command."""
    (error,) = await client.errors(f"{{ {field} }}")
    assert error["extensions"]["code"] == "NOT_READY"
    assert error["extensions"]["element"] == element
    assert error["extensions"]["state"] == "announced"
    assert "shardql migrate" in error["message"]


async def test_other_fields_are_answered_in_full(client: GraphQLClient) -> None:
    """What does not need the element is answered, also for the same entity; a history without sub id by its entry."""
    data = await client.data(
        """{
            home(id: "h1") { street step { note } }
            homeByStreet(town: "Bern") { items { homeId } totalCount { value exact } }
            step(id: "h1") { number note }
            stepById(id: "h1") { items { number } totalCount { value } }
            stepByNote(history: PAST) { items { number } }
        }"""
    )
    assert data == {
        "home": {"street": STREET, "step": {"note": "note 3"}},
        "homeByStreet": {
            "items": [{"homeId": "h0"}, {"homeId": "h1"}, {"homeId": "h2"}],
            "totalCount": {"value": 3, "exact": True},
        },
        "step": {"number": "3", "note": "note 3"},
        "stepById": {"items": [{"number": "1"}, {"number": "2"}, {"number": "3"}], "totalCount": {"value": 3}},
        "stepByNote": {"items": [{"number": "1"}, {"number": "2"}, {"number": "3"}]},
    }


async def test_current_records_of_a_newer_release_do_not_exist_for_the_older_one(tmp_path: Path) -> None:
    """A server without current records finds them neither in searches and counts nor by their ids."""
    url = f"sqlite:///{tmp_path / 'x.db'}"
    async with open_catalog(CATALOG, url) as new, open_catalog(Catalog(OldHome, OldStep), url) as old:
        await new.put(Step(home_id="h1", number="1", note="a"))
        await old.put(OldStep(home_id="h1", number="2", note="b"))
        assert await old.get(OldStep, "h1", number="latest") is None
        assert await old.get(OldStep, "h1") == OldStep(home_id="h1", number="2", note="b")
        page = await old.search(OldStep.by_id, home_id="h1")
        assert [step.number for step in page.items] == ["1", "2"]
        assert (await old.count(OldStep.by_note)).value == 2
        assert await new.get(Step, "h1") == Step(home_id="h1", number="latest", note="b")
        assert (await new.count(Step.by_note)).value == 3


async def test_the_same_fields_answer_after_the_migration(tmp_path: Path, client: GraphQLClient) -> None:
    """Once another process has migrated the table, the same server answers, without a restart."""
    async with open_catalog(CATALOG, f"sqlite:///{tmp_path / 'x.db'}", migrate=True):
        pass
    data = await client.data(
        '{ homeByTown(town: "Bern") { items { homeId } } stepByNote(history: CURRENT) { items { note } } '
        'step(id: "h1") { number } }'
    )
    assert [home["homeId"] for home in data["homeByTown"]["items"]] == ["h0", "h1", "h2"]
    assert data["stepByNote"] == {"items": [{"note": "note 3"}]}
    assert data["step"] == {"number": "latest"}
