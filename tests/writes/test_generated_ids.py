"""Generated ids, of each type that an id can have."""

from datetime import date
from itertools import count
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from pydantic import AfterValidator, Field

from graphql_api import Catalog, Entity, Id, Index, Int32, SubId, generated
from graphql_api.errors import InvalidCatalog, InvalidRecord, InvalidValue
from graphql_api.writes.commands import Create
from tests.schema.graphql_client import GraphQLClient, open_client

NUMBERS = count(1)
WRONG: Any = "no uuid"


class Parcel(Entity):
    """An entity with a generated UUID."""

    parcel_id: Id[UUID] = generated()
    weight: Int32 = 0

    by_weight = Index(sort="weight")


class Letter(Entity):
    """An entity with a UUID factory and a generated sub id in capitals."""

    letter_id: Id[UUID] = Field(default_factory=uuid4)
    page: SubId[Annotated[str, AfterValidator(str.upper)]] = generated()


class Ticket(Entity):
    """An entity with an integer factory."""

    ticket_id: Id[int] = Field(default_factory=lambda: next(NUMBERS))


class Stamp(Entity):
    """An entity whose id type is declared later."""

    stamp_id: Id["LaterType"] = generated()


LaterType = UUID


class Day(Entity):
    """An entity with a date factory, and a factory that returns a wrong type."""

    day: Id[date] = Field(default_factory=lambda: date(2026, 1, 31))
    other: UUID = Field(default_factory=lambda: WRONG)


CATALOG = Catalog(Parcel, Letter, Ticket, Stamp, Day)


async def create(client: GraphQLClient, kind: type[Entity], **values: Any) -> Any:
    """Creates a record, checks that it is stored, and returns it."""
    spec = CATALOG.entity(kind)
    record = await client.db.apply(Create(spec, values))
    assert record is not None
    assert await client.db.get(kind, **{part.name: getattr(record, part.name) for part in spec.primary_key}) == record
    return record


async def test_ids_of_every_type(tmp_path: Path) -> None:
    """`generated` creates texts and UUIDs, and a default factory creates other types. Generated ids are distinct."""
    async with open_client(CATALOG, tmp_path) as client:
        parcels = [await create(client, Parcel) for _ in range(3)]
        assert all(isinstance(one.parcel_id, UUID) and one.parcel_id.version == 4 for one in parcels)
        assert len({one.parcel_id for one in parcels}) == 3
        letter = await create(client, Letter)
        assert (type(letter.letter_id), len(letter.page), letter.page) == (UUID, 22, letter.page.upper())
        assert [(await create(client, Ticket)).ticket_id for _ in range(2)] == [1, 2]
        assert isinstance((await create(client, Stamp)).stamp_id, UUID)
        provided_id = uuid4()
        assert (await create(client, Parcel, parcel_id=provided_id)).parcel_id == provided_id
        assert Parcel().parcel_id != Parcel().parcel_id


async def test_ids_through_graphql(tmp_path: Path) -> None:
    """A client may omit generated ids. A retry with the same idempotency key returns the same ids."""
    async with open_client(CATALOG, tmp_path) as client:
        mutation = """mutation { createParcel(input: {weight: 2}, idempotencyKey: "p") { parcel { parcelId weight } }
          createLetter(input: {}, idempotencyKey: "l") { letter { letterId page } }
          createTickets(inputs: [{}, {}], idempotencyKey: "t") { results { ticket { ticketId } } } }"""
        first = await client.data(mutation)
        assert await client.data(mutation) == first
        parcel = first["createParcel"]["parcel"]
        assert UUID(parcel["parcelId"]).version == 4
        found = await client.data("query ($id: ID!) { parcel(id: $id) { weight } }", {"id": parcel["parcelId"]})
        assert found == {"parcel": {"weight": 2}}
        assert len({row["ticket"]["ticketId"] for row in first["createTickets"]["results"]}) == 2


async def test_a_wrong_factory_value_is_refused(tmp_path: Path) -> None:
    """A wrong value of a default factory is refused on write with its property."""
    async with open_client(CATALOG, tmp_path) as client:
        with pytest.raises((InvalidRecord, InvalidValue), match="other") as caught:
            await client.db.apply(Create(CATALOG.entity(Day), {}))
        assert caught.value.argument == "other"


@pytest.mark.parametrize("kind", [int, date, bytes, str | int])
def test_other_types_cannot_be_generated(kind: Any) -> None:
    """Only texts and UUIDs can be generated. A catalog with another generated type is refused with a remedy."""

    class Thing(Entity):
        """An entity with a generated property of another type."""

        thing_id: Id[str]
        code: kind = generated()

    with pytest.raises(InvalidCatalog) as caught:
        Catalog(Thing)
    (violation,) = caught.value.violations
    assert (violation.entity, violation.property) == ("Thing", "code")
    assert violation.problem == "is generated, and is neither a str nor a UUID."
    assert violation.remedy == "Make it a str or UUID, or declare a Field(default_factory=…)."
