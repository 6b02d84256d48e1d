"""Writers that change records of the catalog at random, all constraints and histories included."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from tests.verification.damaged_tables import Diary, Email, Order, Pass, Person, Ticket, Visit

IDS = 12
"""different ids of each entity, so that writers meet"""


@dataclass
class Writer:
    """Writes records of one database at random, until it has written enough."""

    db: Database
    random: Random
    written: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """by error code"""

    async def run(self, writes: int, on_write: Callable[[], None] = lambda: None) -> None:
        """Writes this number of times, refused writes included."""
        operations = [
            self.put_person, self.change_person, self.delete_person, self.put_email, self.delete_email,
            self.put_order, self.delete_order, self.put_visit, self.put_visits, self.delete_visit,
            self.put_diary, self.delete_diary, self.put_pass, self.put_ticket, self.delete_ticket,
        ]  # fmt: skip
        for _ in range(writes):
            operation: Callable[[], Awaitable[object]] = self.random.choice(operations)
            try:
                await operation()
            except ShardQLError as error:
                self.refused[error.code] = self.refused.get(error.code, 0) + 1
            self.written += 1
            on_write()

    def id(self, kind: str) -> str:
        """An id of an entity."""
        return f"{kind}{self.random.randrange(IDS)}"

    def maybe(self, value: str) -> str | None:
        """A value, or none."""
        return value if self.random.random() < 0.7 else None

    async def put_person(self) -> None:
        own, towns = self.id("p"), ("Bern", "Oslo", None)
        created = 5 if int(own[1:]) % 2 else 2_000
        name, mentor = self.id("n"), self.maybe(self.id("p"))
        town, seat = self.random.choice(towns), self.random.randrange(4)
        await self.db.create(
            Person, person_id=own, created=created, name=name, town=town, mentor_id=mentor, row=1, seat=seat
        )

    async def change_person(self) -> None:
        changes: dict[str, Any] = {
            "name": self.id("n"),
            "phone": self.maybe("1"),
            "mentor_id": self.maybe(self.id("p")),
        }
        name = self.random.choice([*changes])
        await self.db.update(Person, self.id("p"), **{name: changes[name]})

    async def delete_person(self) -> None:
        await self.db.delete(Person, self.id("p"))

    async def put_email(self) -> None:
        await self.db.put(Email(email=self.id("e"), person_id=self.id("p"), label=self.maybe(self.id("l"))))

    async def delete_email(self) -> None:
        await self.db.delete(Email, self.id("e"))

    async def put_order(self) -> None:
        person = self.maybe(self.id("p"))
        await self.db.put(
            Order(order_id=self.id("o"), at=self.id("v"), card=self.id("c"), note=self.maybe("n"), person_id=person)
        )

    async def delete_order(self) -> None:
        await self.db.delete(Order, self.id("o"), at=self.id("v"))

    async def put_visit(self) -> None:
        own = self.id("v")
        began = 5 if int(own[1:]) % 2 else 2_000
        await self.db.put(Visit(visit_id=own, at=self.id("a"), began=began, note=self.maybe("n")))

    async def put_visits(self) -> None:
        own = self.id("v")
        began = 5 if int(own[1:]) % 2 else 2_000
        await self.db.put_many([Visit(visit_id=own, at=self.id("a"), began=began) for _ in range(3)])

    async def delete_visit(self) -> None:
        await self.db.delete(Visit, self.id("v"), at=self.id("a"))

    async def put_diary(self) -> None:
        own = self.id("d")
        created = 5 if int(own[1:]) % 2 else 2_000
        at, mood = self.random.randrange(3), self.maybe(self.id("m"))
        await self.db.put(Diary(diary_id=own, at=at, created=created, mood=mood))

    async def delete_diary(self) -> None:
        await self.db.delete(Diary, self.id("d"), at=self.random.randrange(3))

    async def put_pass(self) -> None:
        until = int(time.time()) + self.random.randrange(3) if self.random.random() < 0.5 else None
        await self.db.put(
            Pass(card_id=self.id("c"), code=self.id("k"), person_id=self.maybe(self.id("p")), until=until)
        )

    async def put_ticket(self) -> None:
        await self.db.create(Ticket, ticket_id=self.id("t"), desk=self.id("k"))

    async def delete_ticket(self) -> None:
        await self.db.delete(Ticket, self.id("t"))
