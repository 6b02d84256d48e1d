"""Writes of every kind, drawn at random, several of them in turns: whatever comes of it, everything is in order."""

from collections.abc import Awaitable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from graphql_api import Entity
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.constraints.delete_intent import DELETE_INTENT, ABANDONED_AFTER_SECONDS
from tests.clocks import Clock
from tests.depth import depth
from tests.unit.conftest import Worlds
from tests.unit.shelf import (
    CATALOG,
    NOW,
    Author,
    Book,
    Diary,
    Loan,
    Operation,
    Pass,
    Shelf,
    Ticket,
    Turns,
    Visit,
)

pytestmark = pytest.mark.usefixtures("no_pauses")

EXPECTED = {
    "ALREADY_EXISTS",
    "NOT_UNIQUE",
    "FOREIGN_KEY",
    "RECORD_NOT_FOUND",
    "CREATION_CHANGED",
    "CONFLICT",
    "IMMUTABLE",
    "VERSION_CONFLICT",
}
"""codes of what a write may come to; everything else would be a mistake"""

MAX_ROUNDS = 8
"""of as many libraries as are asked for, where by chance one of the usual refusals is still missing"""


class Draw:
    """Draws writes of a few records, so that they meet."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.kinds = [self.author, self.book, self.loan, self.card, self.diary, self.visit, self.ticket]

    def one(self) -> Operation:
        """Any write, or several at once."""
        how = self.random.random()
        if how < 0.1:
            return self.batch()
        if how < 0.2:
            return self.several()
        command = self.command()
        return lambda db: db.apply(command)

    def command(self) -> Command:
        """A write of any record."""
        return self.removal() if self.random.random() < 0.2 else self.random.choice(self.kinds)()

    def several(self) -> Operation:
        """Some writes in one call."""
        commands = [self.command() for _ in range(self.random.randint(2, 5))]

        async def write(db: Database) -> None:
            for answer in await db.apply_each(commands):
                checked(answer)

        return write

    def batch(self) -> Operation:
        """Several records at once, some of them twice."""
        choose = self.random.choice
        records: list[Any] = self.random.choice(
            [
                [Book(book_id=choose("pq"), author_id=choose("ab"), isbn=choose(["1", None])) for _ in range(3)],
                [Loan(loan_id=choose("lm"), at=choose("123"), card=choose("rg")) for _ in range(4)],
                [Visit(visit_id="v", at=choose("12"), began=choose([1, 5_000])) for _ in range(3)],
            ]
        )
        restoring = self.random.random() < 0.3

        async def write(db: Database) -> None:
            for problem in await (db.restore_many if restoring else db.put_many)(records):
                checked(problem)

        return write

    # --- writes of each entity ---------------------------------------------------------------------------------

    def author(self) -> Command:
        """A write of an author, who may have a mentor."""
        given = self.some(name=["x", "y", "z"], mentor_id=[None, "a", "b", ...], created=[1, 2_000_000, ...])
        return self._written(Author, {"author_id": self.random.choice("ab")}, given)

    def book(self) -> Command:
        """A write of a book, which names one author or two."""
        given = self.some(
            author_id=["a", "b"], editor_id=["a", "b", None, ...], isbn=["1", "2", None, ...], place=[1, None, ...]
        )
        return self._written(Book, {"book_id": self.random.choice("pq")}, given)

    def loan(self) -> Command:
        """A write of an entry beside a current record, which is unique and names an author."""
        given = self.some(card=["r", "g"], author_id=["a", None])
        return self._written(Loan, self.some(loan_id=["l", "m"], at=["1", "2", "3"]), given)

    def card(self) -> Command:
        """A write of what expires, has expired, or never does."""
        given = self.some(code=["x", "y"], author_id=["a", None], until=[None, int(NOW) - 60, int(NOW) + 3_600])
        return self._written(Pass, {"card_id": self.random.choice("cd")}, given)

    def diary(self) -> Command:
        """A write of an entry without a current record, over generations of shards."""
        given = self.some(mood=["good", "bad", None, ...], created=[1, 5_000, ...])
        return self._written(Diary, self.some(diary_id=["d"], at=[1, 2, 3]), given)

    def visit(self) -> Command:
        """A write of an entry beside a current record, over generations of shards."""
        given = self.some(note=["n", None], began=[1, 5_000, ...])
        return self._written(Visit, self.some(visit_id=["v"], at=["1", "2"]), given)

    def ticket(self) -> Command:
        """A write of what is numbered."""
        if self.random.random() < 0.3:
            return self._written(Ticket, {"desk": "north", "num": self.random.choice([1, 4])}, {}, only="put")
        return self._written(Ticket, {"desk": "north"}, {}, only="create")

    def removal(self) -> Command:
        """A removal, of authors most of all."""
        every: list[tuple[type[Entity], dict[str, Any]]] = [
            (Author, self.some(author_id=["a", "b"])),
            (Author, self.some(author_id=["a", "b"])),
            (Book, self.some(book_id=["p", "q"])),
            (Loan, self.some(loan_id=["l", "m"], at=["1", "2", "3"])),
            (Pass, self.some(card_id=["c", "d"])),
            (Diary, self.some(diary_id=["d"], at=[1, 2, 3])),
            (Visit, self.some(visit_id=["v"], at=["1", "2"])),
        ]
        model, parts = self.random.choice(every)
        return Remove(CATALOG.entity(model), [*parts.values()], None, self._key())

    # --- how ---------------------------------------------------------------------------------------------------

    def some(self, **choices: list[Any]) -> dict[str, Any]:
        """Values of some properties; those that are left out have their default."""
        drawn = {name: self.random.choice(values) for name, values in choices.items()}
        return {name: value for name, value in drawn.items() if value is not ...}

    def _written(
        self, model: type[Entity], parts: dict[str, Any], given: dict[str, Any], only: str | None = None
    ) -> Command:
        entity, key = CATALOG.entity(model), self._key()
        how = only or self.random.choice(["create", "create", "update", "put"])
        if how == "update":
            names = self.random.sample(sorted(given), self.random.randint(0, len(given)))
            expected = self.random.choice([None, None, 1]) if entity.version is not None else None
            return Update(entity, [*parts.values()], {name: given[name] for name in names}, expected, key)
        return (Create if how == "create" else Replace)(entity, {**parts, **given}, idempotency_key=key)

    def _key(self) -> str | None:
        """An idempotency key, now and then one that another write has as well."""
        return self.random.choice([None, None, "one", "two"])


async def outcome(write: Awaitable[Any]) -> Any:
    """What a write gives, or its error."""
    try:
        return await write
    except ShardQLError as problem:
        return problem


async def play(shelf: Shelf, random: Random) -> set[str]:
    """Some writes one after the other, then some in turns, of which one may end in the middle; all is in order.

    Gives the codes of what was refused.
    """
    draw, codes = Draw(random), set[str]()
    for _ in range(random.randint(2, 8)):
        codes |= checked(await outcome(draw.one()(shelf.db)))
    operations = {str(number): draw.one() for number in range(random.randint(2, 4))}
    crash = ("0", random.randint(0, 6)) if random.random() < 0.4 else None
    skewed = {name: Clock(NOW + random.choice([0.0, -3.0, 3.0])) for name in operations}
    told = await Turns(random).run(
        shelf, {name: _at(operation, skewed[name]) for name, operation in operations.items()}, crash=crash
    )
    for answer in told.values():
        codes |= checked(answer)
    await shelf.check()
    marked = any(DELETE_INTENT in item for item in (await shelf.items()).values())
    assert not marked or told["0"] == "crashed", "a mark was left behind"
    shelf.clock.now += ABANDONED_AFTER_SECONDS + 3.1  # Whatever somebody has left behind keeps nobody any more.
    for name, operation in operations.items():
        problem = await outcome(operation(shelf.db))
        assert not isinstance(problem, ShardQLError) or problem.code != "CONFLICT", (name, problem)
    await shelf.check()
    return codes


def _at(operation: Operation, clock: Clock) -> Operation:
    """The same by another clock."""
    return lambda db: operation(replace(db, clock=clock))


def checked(answer: Any) -> set[str]:
    """The code of what was refused, if it was; nothing but what may be."""
    if not isinstance(answer, ShardQLError):
        return set()
    assert answer.code in {*EXPECTED, "IDEMPOTENCY_MISMATCH"}, answer
    return {answer.code}


async def test_writes_at_random(worlds: Worlds, random: Random) -> None:
    """No order of calls, no end in the middle and no clock leaves a double, a dangling name or a stuck mark."""
    wanted = {"ALREADY_EXISTS", "NOT_UNIQUE", "FOREIGN_KEY", "RECORD_NOT_FOUND"}
    codes = set[str]()
    for _ in range(MAX_ROUNDS):
        async for world in worlds.some(depth(80, 6_000)):
            codes |= await play(world, random)
        if wanted <= codes:
            return
    assert wanted <= codes


async def test_writes_at_random_on_dynamodb(remote_worlds: Worlds, random: Random) -> None:
    """Nor does any on the other engine."""
    async for world in remote_worlds.some(depth(6, 300)):
        await play(world, random)
