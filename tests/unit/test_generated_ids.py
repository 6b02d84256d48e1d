"""Ids that are made where none is given, of each type that an id can have."""

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
from tests.schema.asking import Asked, asked

NUMBERS = count(1)
WRONG: Any = "no uuid"


class Parcel(Entity):
    """Known by a UUID."""

    parcel_id: Id[UUID] = generated()
    weight: Int32 = 0

    by_weight = Index(sort="weight")


class Letter(Entity):
    """Known by a UUID that its author makes, and a text in capitals."""

    letter_id: Id[UUID] = Field(default_factory=uuid4)
    page: SubId[Annotated[str, AfterValidator(str.upper)]] = generated()


class Ticket(Entity):
    """Known by a number that its author makes."""

    ticket_id: Id[int] = Field(default_factory=lambda: next(NUMBERS))


class Stamp(Entity):
    """Known by what is not known yet."""

    stamp_id: Id["Later"] = generated()


Later = UUID


class Day(Entity):
    """Known by a day, which its author makes of it; the other one is made wrongly."""

    day: Id[date] = Field(default_factory=lambda: date(2026, 1, 31))
    other: UUID = Field(default_factory=lambda: WRONG)


CATALOG = Catalog(Parcel, Letter, Ticket, Stamp, Day)


async def made(ask: Asked, kind: type[Entity], **values: Any) -> Any:
    """A record as it was created, which is read as it was written."""
    spec = CATALOG.entity(kind)
    record = await ask.db.apply(Create(spec, values))
    assert record is not None
    assert await ask.db.get(kind, **{part.name: getattr(record, part.name) for part in spec.primary_key}) == record
    return record


async def test_ids_of_every_type(tmp_path: Path) -> None:
    """A text or UUID is made by `generated`, everything else by a factory of one's own; each one is another."""
    async with asked(CATALOG, tmp_path) as ask:
        parcels = [await made(ask, Parcel) for _ in range(3)]
        assert all(isinstance(one.parcel_id, UUID) and one.parcel_id.version == 4 for one in parcels)
        assert len({one.parcel_id for one in parcels}) == 3
        letter = await made(ask, Letter)
        assert (type(letter.letter_id), len(letter.page), letter.page) == (UUID, 22, letter.page.upper())
        assert [(await made(ask, Ticket)).ticket_id for _ in range(2)] == [1, 2]
        assert isinstance((await made(ask, Stamp)).stamp_id, UUID)
        given = uuid4()
        assert (await made(ask, Parcel, parcel_id=given)).parcel_id == given
        assert Parcel().parcel_id != Parcel().parcel_id


async def test_ids_through_graphql(tmp_path: Path) -> None:
    """A client may leave out every id that is made, and is told it; a retry under a key makes no other."""
    async with asked(CATALOG, tmp_path) as ask:
        create = """mutation { createParcel(input: {weight: 2}, idempotencyKey: "p") { parcel { parcelId weight } }
          createLetter(input: {}, idempotencyKey: "l") { letter { letterId page } }
          createTickets(inputs: [{}, {}], idempotencyKey: "t") { results { ticket { ticketId } } } }"""
        first = await ask.data(create)
        assert await ask.data(create) == first
        parcel = first["createParcel"]["parcel"]
        assert UUID(parcel["parcelId"]).version == 4
        found = await ask.data("query ($id: ID!) { parcel(id: $id) { weight } }", {"id": parcel["parcelId"]})
        assert found == {"parcel": {"weight": 2}}
        assert len({row["ticket"]["ticketId"] for row in first["createTickets"]["results"]}) == 2


async def test_a_factory_that_makes_something_else(tmp_path: Path) -> None:
    """What a factory of one's own makes wrongly is refused when it is written, and names the property."""
    async with asked(CATALOG, tmp_path) as ask:
        with pytest.raises((InvalidRecord, InvalidValue), match="other") as refused:
            await ask.db.apply(Create(CATALOG.entity(Day), {}))
        assert refused.value.argument == "other"


@pytest.mark.parametrize("kind", [int, date, bytes, str | int])
def test_what_cannot_be_generated(kind: Any) -> None:
    """What is neither a text nor a UUID cannot be generated: the catalog says so, and what to do."""

    class Thing(Entity):
        """Of a type for which nothing is made."""

        thing_id: Id[str]
        code: kind = generated()

    with pytest.raises(InvalidCatalog) as refused:
        Catalog(Thing)
    (violation,) = refused.value.violations
    assert (violation.entity, violation.property) == ("Thing", "code")
    assert violation.problem == "is generated, and is neither a str nor a UUID."
    assert violation.remedy == "Make it a str or UUID, or declare a Field(default_factory=…)."
