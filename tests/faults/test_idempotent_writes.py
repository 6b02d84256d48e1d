"""Writes under idempotency keys whose answers are lost: no false failure, no double effect, one answer for ever."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from graphql_api import Catalog, Entity, Id, Int32, Unique, Version, counter
from graphql_api.database import Database
from graphql_api.errors import AlreadyExists, NotUnique, ShardQLError, StoreError, StoreUnavailable, VersionConflict
from graphql_api.query.token_seal import TokenSeal
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from graphql_api.storage.values import TransactionWrite, Write
from graphql_api.writes.commands import Command, Create, Remove, Update
from tests.depth import depth
from tests.dynamodb_local import ROOT
from tests.faults.conftest import Behind
from tests.faults.faults import AppliedThenReset, MeetsOthers
from tests.faults.proxy import no_fault
from tests.faults.rules import is_write, now_and_then
from tests.faults.troubles import CALM
from tests.stores import WrappedStore, all_items

WORKERS = 8
BOARDS = ("a", "b", "c")


class Card(Entity):
    """Something with a number of its own on its board, and a count of its changes."""

    card_id: Id[str]
    name: Unique[str]
    board: str
    num: Int32 = counter("board")
    steps: int = 0
    version: Version[Int32]


CATALOG = Catalog(Card)
CARD = CATALOG.entity(Card)


class Lossy(WrappedStore):
    """Loses the answers of half of the writes that it has carried out."""

    def __init__(self, inner: Store, random: Random) -> None:
        super().__init__(inner)
        self.random = random
        self.lost = 0
        self.losing = False

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        answers = await super().write(writes)
        self._lose()
        return answers

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await super().write_together(writes, token)
        self._lose()

    def _lose(self) -> None:
        if self.losing and self.random.random() < 0.5:
            self.lost += 1
            raise StoreUnavailable("The answer is lost.")


def database(store: Store, tenant: str) -> Database:
    """The cards as they are seen through a store."""
    return Database(CATALOG, store, TokenSeal([b"a secret of thirty-two bytes only"]), tenant=tenant, principal="somebody")


# --- half of the answers lost ----------------------------------------------------------------------------------


@dataclass
class Client:
    """Asks again under the same key while it may; what it was answered once it must be answered again."""

    db: Database
    random: Random
    answered: list[tuple[Command, Entity | None]] = field(default_factory=list)
    repeats: int = 0

    async def ask(self, command: Command) -> Entity | None:
        """The answer, however often that takes."""
        while True:
            try:
                answer = await self.db.apply(command)
            except ShardQLError as problem:
                if not problem.retryable:
                    raise
                self.repeats += 1
                await asyncio.sleep(self.random.uniform(0, 0.02))
            else:
                return answer

    async def insist(self, command: Command) -> Card:
        """The record that a request is answered, of which another answer is remembered and compared at times."""
        answer = await self.ask(command)
        assert isinstance(answer, Card)
        self.answered.append((command, answer))
        if self.random.random() < 0.3:
            earlier, told = self.random.choice(self.answered)
            assert await self.ask(earlier) == told
        return answer

    async def refused(self, command: Command, reason: type[ShardQLError]) -> None:
        """A request that must fail, by this and nothing else."""
        with pytest.raises(reason):
            await self.ask(command)


def creation(name: str, board: str, card_id: str | None = None, key: str | None = None) -> Create:
    """A request for a new card."""
    values = {"card_id": card_id or f"id of {name}", "name": name, "board": board}
    return Create(CARD, values, key or str(uuid4()))


async def work(client: Client, worker: int, turns: int) -> tuple[dict[str, Card], set[str]]:
    """Creates, changes and removes cards; what must stand at the end, and what must be gone."""
    stand: dict[str, Card] = {}
    gone: set[str] = set()
    for turn in range(turns):
        name = f"{worker}-{turn}"
        card = await client.insist(creation(name, client.random.choice(BOARDS)))
        assert (card.version, card.steps) == (1, 0)
        await client.refused(creation(f"{name} too", "a", card.card_id), AlreadyExists)
        await client.refused(creation(name, "a", f"{card.card_id} too"), NotUnique)
        for step in range(1, 3):
            card = await client.insist(
                Update(CARD, [card.card_id], {"steps": card.steps + 1}, card.version, str(uuid4()))
            )
            assert (card.version, card.steps) == (step + 1, step)
        stale = Update(CARD, [card.card_id], {"steps": 99}, card.version - 1, str(uuid4()))
        await client.refused(stale, VersionConflict)
        if client.random.random() < 0.2:
            assert await client.insist(Remove(CARD, [card.card_id], None, str(uuid4()))) == card
            gone.add(card.card_id)
        else:
            stand[card.card_id] = card
    return stand, gone


async def half_lost(db: Database, random: Random) -> list[tuple[Command, Entity | None]]:
    """Several workers at once; afterwards every record is as it was told of, and no number was given twice."""
    clients = [Client(db, Random(f"{random.random()} {worker}")) for worker in range(WORKERS)]
    turns = depth(5, 160)
    results = await asyncio.gather(*(work(client, worker, turns) for worker, client in enumerate(clients)))
    stand = {card_id: card for cards, _ in results for card_id, card in cards.items()}
    for card_id, card in stand.items():
        assert await db.get(Card, card_id) == card
    for card_id in (card_id for _, gone in results for card_id in gone):
        assert await db.get(Card, card_id) is None
    answered = [one for client in clients for one in client.answered]
    created = [answer for command, answer in answered if isinstance(command, Create) and isinstance(answer, Card)]
    assert len({(card.board, card.num) for card in created}) == len(created) == WORKERS * turns
    return answered


async def test_half_of_the_answers_lost_on_sqlite(tmp_path: Path, random: Random) -> None:
    """Every request happens once and is answered alike for ever; ids, names and versions refuse what they must."""
    inner = await open_sqlite(tmp_path / "cards.db")
    await inner.ensure_table(CATALOG.table_definition())
    store = Lossy(inner, Random(random.random()))
    try:
        store.losing = True
        answered = await half_lost(database(store, "lossy"), random)
        assert store.lost > len(answered) / 4
        store.losing = False
        await _asked_elsewhere(tmp_path / "cards.db", answered)
        items = await all_items(inner)
        names = [item["hashKey"] for item in items if "~unique!" in item["hashKey"]]
        assert len(names) == sum("card!" in item["hashKey"] for item in items)
    finally:
        await inner.close()


async def _asked_elsewhere(path: Path, answered: Sequence[tuple[Command, Entity | None]]) -> None:
    """Another process that knows the keys gets the first answers."""
    other = await open_sqlite(path)
    try:
        db = database(other, "lossy")
        for command, answer in answered:
            assert await db.apply(command) == answer
    finally:
        await other.close()


async def test_half_of_the_answers_lost_on_dynamodb(behind: Behind, random: Random) -> None:
    """The same over a line that loses every second answer after the write, and lets some writes meet others."""
    db = database(await behind.store(CALM), f"lossy-{uuid4()}")
    behind.proxy.rule = now_and_then(0.6, random, *[AppliedThenReset()] * 5, MeetsOthers(), which=is_write)
    answered = await half_lost(db, random)
    assert len(behind.proxy.spoiled) > len(answered) / 4
    behind.proxy.rule = no_fault
    other = replace_store(db, await behind.store(CALM))
    for command, answer in answered:
        assert await other.apply(command) == answer


def replace_store(db: Database, store: Store) -> Database:
    """The same records through another store."""
    return database(store, str(db.tenant))


# --- killed writers --------------------------------------------------------------------------------------------

WRITER = """
import asyncio, sys
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.faults.test_idempotent_writes import creation, database

async def main(path, run):
    db = database(await open_sqlite(path), "killed")

    async def write(worker):
        for number in range(10_000):
            name = f"{run}-{worker}-{number}"
            card = await db.apply(creation(name, "b", key=name))
            print(card.name, card.num, flush=True)

    await asyncio.gather(*(write(worker) for worker in range(4)))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Store]:
    """A file that several processes write to."""
    store = await open_sqlite(tmp_path / "cards.db")
    await store.ensure_table(CATALOG.table_definition())
    yield store
    await store.close()


async def test_requests_that_come_again_after_a_kill(shared: Store, tmp_path: Path, random: Random) -> None:
    """Whoever sends all requests of a killed process again, elsewhere, gets what was told, and all of it once."""
    db = database(shared, "killed")
    for run in range(depth(2, 20)):
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - ours, and read below
            [sys.executable, "-c", WRITER, str(tmp_path / "cards.db"), str(run)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.randrange(5, 60))]
        process.send_signal(signal.SIGKILL)
        lines += process.communicate()[0].splitlines()
        told = dict(line.split() for line in lines if len(line.split()) == 2)
        assert told
        sent = {f"{run}-{worker}-{number}" for worker in range(4) for number in range(len(told) + 1)} | told.keys()
        answers = await asyncio.gather(*(db.apply(creation(name, "b", key=name)) for name in sorted(sent)))
        numbers = {card.name: card.num for card in answers if isinstance(card, Card)}
        assert numbers.keys() == sent
        assert {name: str(numbers[name]) for name in told if numbers[name]} == told
    records = [item for item in await all_items(shared) if item["hashKey"] == "killed|card!"]
    assert len({item["num"] for item in records}) == len({item["name"] for item in records}) == len(records)


async def test_a_client_that_leaves(shared: Store) -> None:
    """A request whose client goes away at any step is carried out once at most, and once when it comes again."""
    db = database(shared, "left")
    for steps in range(0, 60, 3):
        name = f"card {steps}"
        request = creation(name, "b", key=f"key-{steps}")
        task = asyncio.ensure_future(db.apply(request))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        card = await db.apply(request)
        assert isinstance(card, Card)
        assert await db.apply(request) == card
        assert await db.get(Card, card.card_id) == card
