"""Random interleaved writes of every kind, including crashes and clock skew, keep all constraints."""

from collections.abc import Awaitable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from graphql_api import Entity
from graphql_api.database import Database
from graphql_api.errors import ShardQLError
from graphql_api.writes.commands import Command, Create, Remove, Replace, Update
from graphql_api.writes.constraints import ABANDONED_AFTER_SECONDS
from graphql_api.writes.item_keys import DELETE_INTENT
from tests.support.fake_clock import FakeClock
from tests.support.run_depth import depth
from tests.writes.conftest import LibraryFactory
from tests.writes.library_catalog import (
    CATALOG,
    NOW,
    Author,
    Book,
    CallScheduler,
    Diary,
    Library,
    Loan,
    Operation,
    Pass,
    Ticket,
    Visit,
)

pytestmark = pytest.mark.usefixtures("no_backoff")

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
"""error codes that a random write may cause; any other error is a defect"""

MAX_ROUNDS = 8
"""series of libraries, while an expected error code has not occurred yet"""


class WriteGenerator:
    """Draws writes of a few records, so that writes conflict."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.generators = [self.author, self.book, self.loan, self.card, self.diary, self.visit, self.ticket]

    def operation(self) -> Operation:
        """A single command, or several in one call."""
        kind = self.random.random()
        if kind < 0.1:
            return self.record_batch()
        if kind < 0.2:
            return self.command_batch()
        command = self.command()
        return lambda db: db.apply(command)

    def command(self) -> Command:
        """A write of any record."""
        return self.deletion() if self.random.random() < 0.2 else self.random.choice(self.generators)()

    def command_batch(self) -> Operation:
        """Several commands in one call."""
        commands = [self.command() for _ in range(self.random.randint(2, 5))]

        async def write(db: Database) -> None:
            for answer in await db.apply_each(commands):
                checked_codes(answer)

        return write

    def record_batch(self) -> Operation:
        """Several records in one call, some with the same key."""
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
                checked_codes(problem)

        return write

    # --- writes of each entity ---------------------------------------------------------------------------------

    def author(self) -> Command:
        """A write of an author with an optional mentor."""
        values = self.values_of(name=["x", "y", "z"], mentor_id=[None, "a", "b", ...], created=[1, 2_000_000, ...])
        return self._write(Author, {"author_id": self.random.choice("ab")}, values)

    def book(self) -> Command:
        """A write of a book with an author and an optional editor."""
        values = self.values_of(
            author_id=["a", "b"], editor_id=["a", "b", None, ...], isbn=["1", "2", None, ...], place=[1, None, ...]
        )
        return self._write(Book, {"book_id": self.random.choice("pq")}, values)

    def loan(self) -> Command:
        """A write of an entry of a history with a current record, a unique value and a foreign key."""
        values = self.values_of(card=["r", "g"], author_id=["a", None])
        return self._write(Loan, self.values_of(loan_id=["l", "m"], at=["1", "2", "3"]), values)

    def card(self) -> Command:
        """A write of a record that has expired, expires later, or never expires."""
        values = self.values_of(code=["x", "y"], author_id=["a", None], until=[None, int(NOW) - 60, int(NOW) + 3_600])
        return self._write(Pass, {"card_id": self.random.choice("cd")}, values)

    def diary(self) -> Command:
        """A write of an entry of a history without current record, over two shard generations."""
        values = self.values_of(mood=["good", "bad", None, ...], created=[1, 5_000, ...])
        return self._write(Diary, self.values_of(diary_id=["d"], at=[1, 2, 3]), values)

    def visit(self) -> Command:
        """A write of an entry of a history with current record, over two shard generations."""
        values = self.values_of(note=["n", None], began=[1, 5_000, ...])
        return self._write(Visit, self.values_of(visit_id=["v"], at=["1", "2"]), values)

    def ticket(self) -> Command:
        """A write of a record with a counter."""
        if self.random.random() < 0.3:
            return self._write(Ticket, {"desk": "north", "num": self.random.choice([1, 4])}, {}, only="put")
        return self._write(Ticket, {"desk": "north"}, {}, only="create")

    def deletion(self) -> Command:
        """A deletion. Authors are the most frequent."""
        every: list[tuple[type[Entity], dict[str, Any]]] = [
            (Author, self.values_of(author_id=["a", "b"])),
            (Author, self.values_of(author_id=["a", "b"])),
            (Book, self.values_of(book_id=["p", "q"])),
            (Loan, self.values_of(loan_id=["l", "m"], at=["1", "2", "3"])),
            (Pass, self.values_of(card_id=["c", "d"])),
            (Diary, self.values_of(diary_id=["d"], at=[1, 2, 3])),
            (Visit, self.values_of(visit_id=["v"], at=["1", "2"])),
        ]
        model, parts = self.random.choice(every)
        return Remove(CATALOG.entity(model), [*parts.values()], None, self._key())

    # --- values ------------------------------------------------------------------------------------------------

    def values_of(self, **choices: list[Any]) -> dict[str, Any]:
        """Draws values of properties. Omitted properties have their default."""
        drawn = {name: self.random.choice(values) for name, values in choices.items()}
        return {name: value for name, value in drawn.items() if value is not ...}

    def _write(
        self, model: type[Entity], parts: dict[str, Any], values: dict[str, Any], only: str | None = None
    ) -> Command:
        entity, key = CATALOG.entity(model), self._key()
        kind = only or self.random.choice(["create", "create", "update", "put"])
        if kind == "update":
            names = self.random.sample(sorted(values), self.random.randint(0, len(values)))
            expected = self.random.choice([None, None, 1]) if entity.version is not None else None
            return Update(entity, [*parts.values()], {name: values[name] for name in names}, expected, key)
        return (Create if kind == "create" else Replace)(entity, {**parts, **values}, idempotency_key=key)

    def _key(self) -> str | None:
        """Draws an idempotency key, sometimes one that another write has too."""
        return self.random.choice([None, None, "one", "two"])


async def outcome(write: Awaitable[Any]) -> Any:
    """Returns the result of a write, or its error."""
    try:
        return await write
    except ShardQLError as problem:
        return problem


async def run_scenario(library: Library, random: Random) -> set[str]:
    """Runs sequential writes, then interleaved ones of which one may crash, and checks the library after each phase.

    Returns the codes of all errors.
    """
    generator, codes = WriteGenerator(random), set[str]()
    for _ in range(random.randint(2, 8)):
        codes |= checked_codes(await outcome(generator.operation()(library.db)))
    operations = {str(number): generator.operation() for number in range(random.randint(2, 4))}
    crash = ("0", random.randint(0, 6)) if random.random() < 0.4 else None
    clocks = {name: FakeClock(NOW + random.choice([0.0, -3.0, 3.0])) for name in operations}
    results = await CallScheduler(random).run(
        library, {name: _with_clock(operation, clocks[name]) for name, operation in operations.items()}, crash=crash
    )
    for answer in results.values():
        codes |= checked_codes(answer)
    await library.check()
    has_delete_intent = any(DELETE_INTENT in item for item in (await library.items()).values())
    assert not has_delete_intent or results["0"] == "crashed", "a delete intent remains"
    library.clock.now += ABANDONED_AFTER_SECONDS + 3.1  # Abandoned delete intents have expired.
    for name, operation in operations.items():
        problem = await outcome(operation(library.db))
        assert not isinstance(problem, ShardQLError) or problem.code != "CONFLICT", (name, problem)
    await library.check()
    return codes


def _with_clock(operation: Operation, clock: FakeClock) -> Operation:
    """Returns the operation with another clock."""
    return lambda db: operation(replace(db, clock=clock))


def checked_codes(answer: Any) -> set[str]:
    """Checks that an error is an expected one, and returns its code."""
    if not isinstance(answer, ShardQLError):
        return set()
    assert answer.code in {*EXPECTED, "IDEMPOTENCY_MISMATCH"}, answer
    return {answer.code}


async def test_random_writes(libraries: LibraryFactory, random: Random) -> None:
    """Interleaved writes, crashes and clock skew cause no duplicates, broken references or permanent delete intents."""
    expected_codes = {"ALREADY_EXISTS", "NOT_UNIQUE", "FOREIGN_KEY", "RECORD_NOT_FOUND"}
    codes = set[str]()
    for _ in range(MAX_ROUNDS):
        async for library in libraries.create(depth(80, 6_000)):
            codes |= await run_scenario(library, random)
        if expected_codes <= codes:
            return
    assert expected_codes <= codes


async def test_random_writes_on_dynamodb(dynamodb_libraries: LibraryFactory, random: Random) -> None:
    """The same holds on DynamoDB Local."""
    async for library in dynamodb_libraries.create(depth(6, 300)):
        await run_scenario(library, random)
