"""Clients of two releases that run during a migration from the older to the newer one, and know what is stored."""

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from random import Random
from typing import Any

from graphql_api.database import Database
from graphql_api.errors import NotReady
from tests.evolution.migration_process import values_of

BATCH = 5_000
PAGE = 50
ADDED = 20
"""users that clients may create"""


@dataclass
class Clients:
    """A writer, a reader and a walker, which send one request after the other."""

    old: Database
    new: Database
    random: Random
    towns: int
    town_of: dict[str, str] = field(default_factory=dict)
    """the towns of all users"""
    users_of: dict[str, list[str]] = field(default_factory=dict)
    """the sorted users of each town"""
    order: list[str] = field(default_factory=list)
    """the sorted users"""
    answers: int = 0
    refusals: int = 0
    walks: int = 0
    is_over: bool = False
    _at: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """the last user and the page token of each walk"""

    async def load(self, count: int) -> None:
        """Stores users through the older release."""
        model = self.old.catalog.entity("User").model
        for start in range(0, count, BATCH):
            rows = [values_of(number, number % self.towns) for number in range(start, min(count, start + BATCH))]
            await self.old.put_many([model(**row) for row in rows])
            for row in rows:
                self._note(row["user_id"], row["town"])

    def _note(self, user_id: str, town: str) -> None:
        before = self.town_of.get(user_id)
        if before is None:
            insort(self.order, user_id)
        elif before != town:
            self.users_of[before].remove(user_id)
        if before != town:
            self.town_of[user_id] = town
            insort(self.users_of.setdefault(town, []), user_id)

    def row(self, user_id: str) -> dict[str, str]:
        """The properties of a user."""
        return values_of(int(user_id[1:]), int(self.town_of[user_id][1:]))

    async def run(self) -> None:
        """Writes, searches and walks until the migration is over."""
        while not self.is_over:
            await self.write()
            await self.search()
            await self.walk("by_name", self.random.choice([self.old, self.new]))
            await self.walk("by_mail", self.new)

    async def write(self) -> None:
        """Lets one of the releases write a user."""
        db, number = self.random.choice([self.old, self.new]), self.random.randrange(len(self.order) + ADDED)
        row = values_of(number, self.random.randrange(self.towns))
        model = db.catalog.entity("User").model
        if self.random.random() < 0.5 and row["user_id"] in self.town_of:
            await db.update(model, row["user_id"], town=row["town"])
        else:
            await db.put(model(**row))
        self._note(row["user_id"], row["town"])

    async def search(self) -> None:
        """Compares a search by a new index with what is stored."""
        town = f"t{self.random.randrange(self.towns):05}"
        user: Any = self.new.catalog.entity("User").model
        index = self.random.choice([user.by_town, user.by_town_and_id])
        try:
            page = await self.new.search(index, town=town, limit=100)
        except NotReady:
            self.refusals += 1
            return
        assert page.next_token is None, "a town has fewer users"
        self.answers += 1
        assert [record.user_id for record in page.items] == self.users_of.get(town, [])

    async def walk(self, index: str, db: Database) -> None:
        """Compares the next page of a walk over all users with what is stored. Both orders are those of the ids."""
        last, token = self._at.get(index, ("", None))
        user: Any = db.catalog.entity("User").model
        try:
            page = await db.search(getattr(user, index), limit=PAGE, next_token=token)
        except NotReady:
            self.refusals += 1
            return
        start = bisect_right(self.order, last)
        expected = self.order[start : start + PAGE]
        found = [(record.user_id, record.town) for record in page.items]
        assert found == [(user_id, self.town_of[user_id]) for user_id in expected], (index, last)
        self.answers += 1
        self.walks += page.next_token is None
        self._at[index] = ("", None) if page.next_token is None else (expected[-1], page.next_token)
