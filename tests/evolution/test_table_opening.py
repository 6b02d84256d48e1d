"""What opening a table reads and writes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from graphql_api import Catalog, Entity, Id, open_catalog
from graphql_api.errors import StoreUnavailable, WrongTable
from graphql_api.evolution import opened_schema, prepare_table
from graphql_api.evolution.table_record import EPOCH_KEY, TABLE_RECORD_KEY
from graphql_api.storage import ForwardingStore, Item, Key, ScanPage
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.evolution.test_table_schema import LEASE, NEW, OLD, FakeClocks, LeasingStore, User, database

RECORD = [TABLE_RECORD_KEY, EPOCH_KEY]


class Pet(Entity):
    """An entity of another application."""

    pet_id: Id[str]


@asynccontextmanager
async def leasing_table(folder: Path) -> AsyncIterator[LeasingStore]:
    """A table that knows users, on an engine with leases."""
    store = await open_sqlite(folder / "table.db")
    await prepare_table(store, OLD, lease_seconds=LEASE)
    yield LeasingStore(store, FakeClocks())
    await store.close()


@pytest.mark.parametrize(("catalog", "transactions"), [(OLD, 0), (NEW, 1)], ids=["known", "with a new index"])
async def test_opening_reads_the_record_once(tmp_path: Path, catalog: Catalog, transactions: int) -> None:
    """Checking, announcing and serving share one read of the table's record, also if there is something to announce."""
    async with leasing_table(tmp_path) as store:
        served = await prepare_table(store, catalog, clocks=store.clocks)
        async with opened_schema(store, catalog, served=served, clocks=store.clocks) as schema:
            assert schema.latest.catalog.entities.keys() == catalog.entities.keys()
        assert (store.reads, store.writes) == (RECORD, transactions)


async def test_the_lease_counts_from_that_read(tmp_path: Path) -> None:
    """The first copy is as old as the read that brought it, however long the rest of the opening takes."""
    async with leasing_table(tmp_path) as store:
        store.reply_seconds = 20
        served = await prepare_table(store, OLD, clocks=store.clocks)
        async with opened_schema(store, OLD, served=served, clocks=store.clocks) as schema:
            db = database(store, schema)
            store.is_unreachable = True
            store.clocks.move(9)
            await db.create(User, user_id="a")
            store.clocks.move(1)
            with pytest.raises(StoreUnavailable, match="for 30 seconds"):
                await db.create(User, user_id="b")


async def test_a_concurrent_announcement(tmp_path: Path) -> None:
    """If another process changes the record between that read and the announcement, the record is read again."""
    async with leasing_table(tmp_path) as store:

        class Overtaken(ForwardingStore):
            reads = 0

            async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
                found = await super().get_many(keys, consistent)
                self.reads += 1
                if self.reads == 1:
                    await prepare_table(store, Catalog(User, Pet), clocks=store.clocks)
                return found

        overtaken = Overtaken(store)
        served = await prepare_table(overtaken, NEW, clocks=store.clocks)
        assert overtaken.reads == 2
        assert {"user", "pet"} <= served.record.entities.keys()
        assert "user index town" in served.record.elements


async def test_a_reader_of_a_foreign_table(tmp_path: Path) -> None:
    """A plan of a migration refuses a table of other catalogs, and writes nothing. A read-only server serves it."""
    async with leasing_table(tmp_path) as store:
        with pytest.raises(WrongTable, match="belongs to other catalogs"):
            await prepare_table(store, Catalog(Pet), read_only=True, clocks=store.clocks)
        assert store.writes == 0
    async with open_catalog(Catalog(Pet), f"sqlite:///{tmp_path}/table.db", read_only=True) as db:
        assert await db.get(Pet, "p") is None


async def test_two_processes_open_a_new_table(tmp_path: Path) -> None:
    """A process that finds a table without a record does not refuse what another one stores at this moment."""

    class Announced(ForwardingStore):
        """Another process announces its catalog between the first read of the record and the look for items."""

        async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
            await prepare_table(self.inner, OLD)
            return await super().scan(segment, of, after)

    store = await open_sqlite(tmp_path / "table.db")
    await store.ensure_table(OLD.table_definition())
    served = await prepare_table(Announced(store), OLD)
    assert served.record.epoch == 1
    await store.close()
