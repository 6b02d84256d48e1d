"""Writes with idempotency keys whose replies are lost: each happens once, and repeats return the first response."""

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
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import TransactionWrite, Write
from graphql_api.writes.commands import Command, Create, Remove, Update
from tests.faults.conftest import ProxiedStores
from tests.faults.fault_proxy import no_fault
from tests.faults.fault_rules import is_write, random_faults
from tests.faults.fault_settings import LONG_TIMEOUTS
from tests.faults.fault_types import AppliedThenReset, TransactionConflict
from tests.support.dynamodb_servers import ROOT
from tests.support.run_depth import depth
from tests.support.store_doubles import all_items

WORKERS = 8
BOARDS = ("a", "b", "c")


class Card(Entity):
    """A record with a unique name, a number per board, and a count of its changes."""

    card_id: Id[str]
    name: Unique[str]
    board: str
    num: Int32 = counter("board")
    steps: int = 0
    version: Version[Int32]


CATALOG = Catalog(Card)
CARD = CATALOG.entity(Card)


class LossyStore(ForwardingStore):
    """Loses the replies of half of the writes after executing them."""

    def __init__(self, inner: Store, random: Random) -> None:
        super().__init__(inner)
        self.random = random
        self.lost_replies = 0
        self.is_lossy = False

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        responses = await super().write(writes)
        self._lose()
        return responses

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        await super().write_together(writes, token)
        self._lose()

    def _lose(self) -> None:
        if self.is_lossy and self.random.random() < 0.5:
            self.lost_replies += 1
            raise StoreUnavailable("The reply is lost.")


def database(store: Store, tenant: str) -> Database:
    """A database of cards on a store."""
    return Database(CATALOG, store, TokenSeal([b"a secret of thirty-two bytes only"]), tenant=tenant, principal="user")


# --- half of the replies lost -----------------------------------------------------------------------------------


@dataclass
class RetryingClient:
    """Retries a command with its idempotency key. Verifies that a repeated command has the first response."""

    db: Database
    random: Random
    responses: list[tuple[Command, Entity | None]] = field(default_factory=list)
    retries: int = 0

    async def execute(self, command: Command) -> Entity | None:
        """Execute a command, with as many retries as it takes."""
        while True:
            try:
                response = await self.db.apply(command)
            except ShardQLError as error:
                if not error.retryable:
                    raise
                self.retries += 1
                await asyncio.sleep(self.random.uniform(0, 0.02))
            else:
                return response

    async def execute_and_verify(self, command: Command) -> Card:
        """Execute a command and return its record. At times, repeat an earlier command and compare the responses."""
        response = await self.execute(command)
        assert isinstance(response, Card)
        self.responses.append((command, response))
        if self.random.random() < 0.3:
            earlier, first_response = self.random.choice(self.responses)
            assert await self.execute(earlier) == first_response
        return response

    async def expect_error(self, command: Command, reason: type[ShardQLError]) -> None:
        """Execute a command that must fail with this error."""
        with pytest.raises(reason):
            await self.execute(command)


def create_card(name: str, board: str, card_id: str | None = None, key: str | None = None) -> Create:
    """A command that creates a card."""
    values = {"card_id": card_id or f"id of {name}", "name": name, "board": board}
    return Create(CARD, values, key or str(uuid4()))


async def run_worker(client: RetryingClient, worker: int, rounds: int) -> tuple[dict[str, Card], set[str]]:
    """Create, update and delete cards. Return the cards that must exist at the end, and the ids that must not."""
    existing: dict[str, Card] = {}
    deleted: set[str] = set()
    for round_number in range(rounds):
        name = f"{worker}-{round_number}"
        card = await client.execute_and_verify(create_card(name, client.random.choice(BOARDS)))
        assert (card.version, card.steps) == (1, 0)
        await client.expect_error(create_card(f"{name} too", "a", card.card_id), AlreadyExists)
        await client.expect_error(create_card(name, "a", f"{card.card_id} too"), NotUnique)
        for step in range(1, 3):
            card = await client.execute_and_verify(
                Update(CARD, [card.card_id], {"steps": card.steps + 1}, card.version, str(uuid4()))
            )
            assert (card.version, card.steps) == (step + 1, step)
        stale = Update(CARD, [card.card_id], {"steps": 99}, card.version - 1, str(uuid4()))
        await client.expect_error(stale, VersionConflict)
        if client.random.random() < 0.2:
            assert await client.execute_and_verify(Remove(CARD, [card.card_id], None, str(uuid4()))) == card
            deleted.add(card.card_id)
        else:
            existing[card.card_id] = card
    return existing, deleted


async def run_workers(db: Database, random: Random) -> list[tuple[Command, Entity | None]]:
    """Run several workers concurrently. Then verify all records, and that no number was assigned twice."""
    clients = [RetryingClient(db, Random(f"{random.random()} {worker}")) for worker in range(WORKERS)]
    rounds = depth(5, 160)
    results = await asyncio.gather(*(run_worker(client, worker, rounds) for worker, client in enumerate(clients)))
    existing = {card_id: card for cards, _ in results for card_id, card in cards.items()}
    for card_id, card in existing.items():
        assert await db.get(Card, card_id) == card
    for card_id in (card_id for _, deleted in results for card_id in deleted):
        assert await db.get(Card, card_id) is None
    responses = [one for client in clients for one in client.responses]
    created = [
        response for command, response in responses if isinstance(command, Create) and isinstance(response, Card)
    ]
    assert len({(card.board, card.num) for card in created}) == len(created) == WORKERS * rounds
    return responses


async def test_lost_replies_on_sqlite(tmp_path: Path, random: Random) -> None:
    """Every request happens once and always has the same response. Duplicate ids, names and stale versions fail."""
    inner = await open_sqlite(tmp_path / "cards.db")
    await inner.ensure_table(CATALOG.table_definition())
    store = LossyStore(inner, Random(random.random()))
    try:
        store.is_lossy = True
        responses = await run_workers(database(store, "lossy"), random)
        assert store.lost_replies > len(responses) / 4
        store.is_lossy = False
        await _verify_in_another_store(tmp_path / "cards.db", responses)
        items = await all_items(inner)
        names = [item["hashKey"] for item in items if "~unique!" in item["hashKey"]]
        assert len(names) == sum("card!" in item["hashKey"] for item in items)
    finally:
        await inner.close()


async def _verify_in_another_store(path: Path, responses: Sequence[tuple[Command, Entity | None]]) -> None:
    """Repeat all commands in another store on the same file, and compare the responses."""
    other_store = await open_sqlite(path)
    try:
        db = database(other_store, "lossy")
        for command, response in responses:
            assert await db.apply(command) == response
    finally:
        await other_store.close()


async def test_lost_replies_on_dynamodb(proxied: ProxiedStores, random: Random) -> None:
    """Every request happens once, although half of the replies are lost and some writes conflict."""
    db = database(await proxied.open_store(LONG_TIMEOUTS), f"lossy-{uuid4()}")
    proxied.proxy.rule = random_faults(0.6, random, *[AppliedThenReset()] * 5, TransactionConflict(), matches=is_write)
    responses = await run_workers(db, random)
    assert len(proxied.proxy.faulted) > len(responses) / 4
    proxied.proxy.rule = no_fault
    other_store = replace_store(db, await proxied.open_store(LONG_TIMEOUTS))
    for command, response in responses:
        assert await other_store.apply(command) == response


def replace_store(db: Database, store: Store) -> Database:
    """A database of the same records on another store."""
    return database(store, str(db.tenant))


# --- killed writers --------------------------------------------------------------------------------------------

WRITER = """
import asyncio, sys
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.faults.test_idempotent_writes import create_card, database

async def main(path, run):
    db = database(await open_sqlite(path), "killed")

    async def write(worker):
        for number in range(10_000):
            name = f"{run}-{worker}-{number}"
            card = await db.apply(create_card(name, "b", key=name))
            print(card.name, card.num, flush=True)

    await asyncio.gather(*(write(worker) for worker in range(4)))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def shared_store(tmp_path: Path) -> AsyncIterator[Store]:
    """A file that several processes write to."""
    store = await open_sqlite(tmp_path / "cards.db")
    await store.ensure_table(CATALOG.table_definition())
    yield store
    await store.close()


async def test_repeated_requests_after_a_kill(shared_store: Store, tmp_path: Path, random: Random) -> None:
    """The requests of a killed process, repeated by another one, return the acknowledged responses and happen once."""
    db = database(shared_store, "killed")
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
        acknowledged = dict(line.split() for line in lines if len(line.split()) == 2)
        assert acknowledged
        sent = {
            f"{run}-{worker}-{number}" for worker in range(4) for number in range(len(acknowledged) + 1)
        } | acknowledged.keys()
        responses = await asyncio.gather(*(db.apply(create_card(name, "b", key=name)) for name in sorted(sent)))
        numbers = {card.name: card.num for card in responses if isinstance(card, Card)}
        assert numbers.keys() == sent
        assert {name: str(numbers[name]) for name in acknowledged if numbers[name]} == acknowledged
    records = [item for item in await all_items(shared_store) if item["hashKey"] == "killed|card!"]
    assert len({item["num"] for item in records}) == len({item["name"] for item in records}) == len(records)


async def test_cancelled_requests_can_be_repeated(shared_store: Store) -> None:
    """A request that is cancelled at any step happens at most once, and exactly once when it is repeated."""
    db = database(shared_store, "left")
    for step_count in range(0, 60, 3):
        name = f"card {step_count}"
        request = create_card(name, "b", key=f"key-{step_count}")
        task = asyncio.ensure_future(db.apply(request))
        for _ in range(step_count):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        card = await db.apply(request)
        assert isinstance(card, Card)
        assert await db.apply(request) == card
        assert await db.get(Card, card.card_id) == card
