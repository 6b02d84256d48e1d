"""What the table's record costs: a small read per third of a lease in each process, and nothing in requests."""

import asyncio
from asyncio import Runner
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphql_api.database import Database
from graphql_api.errors import StoreError
from graphql_api.evolution import EPOCH_KEY, opened_schema, prepare_table
from graphql_api.query import TokenSeal
from graphql_api.storage import (
    Check,
    Delete,
    ForwardingStore,
    Item,
    Key,
    Put,
    RangeRead,
    ReadResult,
    RowPage,
    Store,
    TransactionWrite,
    Write,
    read_units,
    record_size,
)
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.evolution.catalog_oracle import MODELS
from tests.evolution.changing_catalogs import Release, catalog_of, queries_of
from tests.evolution.late_store import LEASE, Faults, VirtualLoop, at_once, seeded_pauses, virtual_time
from tests.evolution.leased_world import LeasedWorld

RELEASE = Release(
    has_town=True, by_town=1, email=2, team=2, has_version=True, letter=1, visits=3, growth=((3, 1_000), (8, 2_000))
)
CATALOG = catalog_of(RELEASE)
SEAL = TokenSeal((b"a secret of thirty-two bytes only",))
Call = tuple[Any, ...]
LEASES = 20
"""for which a server runs"""


class RecordingStore(ForwardingStore):
    """An engine with leases that notes each call, with the units that it costs."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        pages = await super().read_ranges(reads, want)
        for read, page in zip(reads, pages, strict=True):
            assert isinstance(page, RowPage)
            units = read_units(sum(record_size(row.item) for row in page.rows), consistent=read.consistent)
            self.calls.append(("range", read.index, read.hash_key, read.range, read.limit, units))
        return pages

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        items = await super().get_many(keys, consistent)
        sizes = (read_units(record_size(item or {}), consistent=consistent) for item in items)
        self.calls.append(("get", *zip(keys, sizes, strict=True)))
        return items

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        self.calls.append(("write", *map(_describe, writes)))
        return await super().write(writes)

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        self.calls.append(("transaction", *map(_describe, writes)))
        await super().write_together(writes, token)


def _describe(write: TransactionWrite) -> Call:
    match write:
        case Put():
            attributes = sorted((name, f"{value}") for name, value in write.item.items() if name != "_w")
            return ("put", *attributes, record_size(write.item), write.expect is None)
        case Delete() | Check():
            return (type(write).__name__, write.key)


async def send_requests(db: Database) -> None:
    """Sends requests of all kinds."""
    models: list[Any] = [db.catalog.entity(name).model for name in ("User", "Team", "Visit")]
    user, team, visit = models
    own: dict[str, Any] = {"name": "ada", "town": "Bern", "created": 900}
    await db.create(team, team_id="red")
    await db.create(user, user_id="u1", **own, email="a@x", team_id="red")
    await db.put(user(user_id="u2", **{**own, "created": 1_500}, email="b@x", version=1))
    assert await db.put_many([user(user_id=f"v{n}", **own, version=1) for n in range(3)]) == [None] * 3
    await db.update(user, "u1", name="bob", email="c@x")
    for number in ("1", "2"):
        await db.put(visit(guest_id="g1", number=number, created=900, place="hall"))
    assert await db.put_many([visit(guest_id="g2", number=f"{n}", created=900) for n in range(3)]) == [None] * 3
    await db.update(visit, "g1", number="3", place="roof")
    for query in queries_of(RELEASE):
        model: Any = db.catalog.entity(MODELS[query.entity]).model
        index = getattr(model, query.index)
        await db.search(index, limit=2, **query.arguments)
        await db.count(index, **query.arguments)
    await db.get(user, "u1")
    await db.get(visit, "g1")
    await db.get_many(visit, [("g1", "1"), ("g2", "2")])
    await db.delete(visit, "g1", number="3")
    await db.delete(user, "u1")
    await db.delete(team, "red")


async def test_requests_cost_what_they_cost_without_a_record(tmp_path: Path) -> None:
    """With a valid copy of the table's record, all requests make the same calls as without, for the same units."""

    async def calls(folder: Path, *, has_schema: bool) -> list[Call]:
        folder.mkdir()
        store = RecordingStore(await open_sqlite(folder / "table.db"))
        await prepare_table(store, CATALOG)
        async with opened_schema(store, CATALOG) as schema:
            store.calls.clear()
            db = Database(CATALOG, store, SEAL, lambda: 2_000.0, schema=schema if has_schema else None)
            await send_requests(db)
        await store.close()
        return store.calls

    with_schema = await calls(tmp_path / "with", has_schema=True)
    assert with_schema == await calls(tmp_path / "without", has_schema=False)
    assert len(with_schema) > 50


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_process_reads_the_epoch_three_times_per_lease(tmp_path: Path, random: Random, *, is_busy: bool) -> None:
    """Each process makes one small point read per third of a lease, however many requests it serves."""

    async def reads() -> list[Sequence[Key]]:
        async with AsyncExitStack() as stack:
            world = LeasedWorld.open(tmp_path, random, Faults(), stack)
            server = await world.start(RELEASE)
            assert server is not None
            server.store.record_reads.clear()
            until = virtual_time() + LEASES * LEASE
            while virtual_time() < until:
                await asyncio.sleep(LEASE / 100)
                if is_busy:
                    await world.act(server)
            epoch = at_once(world.engine.table.get_many([EPOCH_KEY], consistent=True))[0]
            assert epoch is not None
            assert read_units(record_size(epoch), consistent=True) == 1
            return server.store.record_reads

    with seeded_pauses(random), Runner(loop_factory=VirtualLoop) as runner:
        found = runner.run(reads())
    assert all(keys == [EPOCH_KEY] for keys in found)
    assert 3 * LEASES - LEASES / 10 <= len(found) <= 3 * LEASES
