"""With leases, a new property is stored once all servers keep its values."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from graphql_api import Catalog, Entity, Id
from graphql_api.errors import NotReady
from graphql_api.evolution import announce, prepare_table, read_record
from graphql_api.evolution.schema_copy import read_copy
from graphql_api.evolution.table_schema import LEASE_MARGIN_SECONDS, REQUEST_LIFE_SECONDS, LeasedSchema
from graphql_api.storage.engines.sqlite import SqliteStore, open_sqlite
from tests.evolution.test_table_schema import LEASE, OLD, FakeClocks, LeasingStore, User, database, stored_user


class UserWithNickname(Entity, name="user"):
    """The next release of users."""

    user_id: Id[str]
    town: str = "Bern"
    nickname: str | None = None
    language: str = "en"


NEW = Catalog(UserWithNickname)
NICKNAME = "user property nickname"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A table that knows users."""
    store = await open_sqlite(tmp_path / "table.db")
    await prepare_table(store, OLD, lease_seconds=LEASE)
    yield store
    await store.close()


class Renewals:
    """Lets a server renew its copy of the record, one renewal at a time."""

    def __init__(self) -> None:
        self._waiting = asyncio.Queue[None]()
        self._turns = asyncio.Semaphore(0)

    async def pause(self, _: float) -> None:
        self._waiting.put_nowait(None)
        await self._turns.acquire()

    async def next(self) -> None:
        """Waits until the server has renewed its copy."""
        await self._waiting.get()
        self._turns.release()
        await self._waiting.get()
        self._waiting.put_nowait(None)


@asynccontextmanager
async def opened(store: LeasingStore, renewals: Renewals, *, settles: bool = True) -> AsyncIterator[LeasedSchema]:
    """The schema of a server of the next release."""
    copy = await read_copy(store, NEW)
    async with LeasedSchema(store, NEW, copy, store.clocks, renewals.pause, settles=settles) as schema:
        yield schema


async def state(store: LeasingStore) -> str:
    """The state of the new property in the table."""
    record = await read_record(store)
    assert record is not None
    return record.elements[NICKNAME].state


async def test_a_new_property_becomes_ready_after_a_lease(store: SqliteStore) -> None:
    """Its values are refused for a lease, a margin and the life of a request; all other values are stored."""
    leasing, renewals = LeasingStore(store, FakeClocks()), Renewals()
    await announce(leasing, NEW)
    async with opened(leasing, renewals) as schema:
        db = database(leasing, schema, NEW)
        await db.create(UserWithNickname, user_id="a", town="Oslo")
        with pytest.raises(NotReady, match=r"UserWithNickname\.nickname") as caught:
            await db.update(UserWithNickname, "a", nickname="Countess")
        assert caught.value.extensions["element"] == "property user.nickname"
        with pytest.raises(NotReady, match="language"):
            await db.put(UserWithNickname(user_id="b", language="de"))
        await renewals.next()
        leasing.clocks.move(LEASE + LEASE_MARGIN_SECONDS + REQUEST_LIFE_SECONDS - 1)
        await renewals.next()
        assert await state(leasing) == "announced"
        leasing.clocks.move(1)
        await renewals.next()
        assert await state(leasing) == "ready"
        updated = await db.update(UserWithNickname, "a", nickname="Countess")
        assert updated.nickname == "Countess"


async def test_defaults_of_all_kinds_are_accepted(store: SqliteStore) -> None:
    """A default that a function makes, or of a list or map, can be stored before the property is ready."""

    class UserWithLists(Entity, name="user"):
        user_id: Id[str]
        town: str = "Bern"
        tags: list[str] = Field(default_factory=list)
        settings: dict[str, int] = Field(default={"size": 1})

    leasing, catalog = LeasingStore(store, FakeClocks()), Catalog(UserWithLists)
    await announce(leasing, catalog)
    copy = await read_copy(leasing, catalog)
    async with LeasedSchema(leasing, catalog, copy, leasing.clocks, Renewals().pause) as schema:
        db = database(leasing, schema, catalog)
        await db.create(UserWithLists, user_id="a")
        await db.update(UserWithLists, "a", town="Oslo")
        refused: list[dict[str, Any]] = [{"tags": ["x"]}, {"settings": {"size": 2}}, {"settings": {}}]
        for changes in refused:
            with pytest.raises(NotReady):
                await db.update(UserWithLists, "a", **changes)


async def test_values_that_are_stored_already_stay(store: SqliteStore) -> None:
    """A record that has a value of an announced property can be updated otherwise."""
    leasing, renewals = LeasingStore(store, FakeClocks()), Renewals()
    await database(store, None, NEW).create(UserWithNickname, user_id="a", nickname="Countess")
    await announce(leasing, NEW)
    async with opened(leasing, renewals, settles=False) as schema:
        await database(leasing, schema, NEW).update(UserWithNickname, "a", town="Oslo")
        for _ in range(3):
            leasing.clocks.move(LEASE)
            await renewals.next()
        assert await state(leasing) == "announced"
    item = await stored_user(store, "a")
    assert item is not None
    assert (item["town"], item["nickname"]) == ("Oslo", "Countess")


async def test_an_older_server_keeps_an_announced_property(store: SqliteStore) -> None:
    """From the announcement on, a put of a server without the property keeps the stored value."""
    leasing = LeasingStore(store, FakeClocks())
    await database(store, None, NEW).create(UserWithNickname, user_id="a", nickname="Countess")
    await announce(leasing, NEW)
    copy = await read_copy(leasing, OLD)
    async with LeasedSchema(leasing, OLD, copy, leasing.clocks, Renewals().pause) as schema:
        await database(leasing, schema, OLD).put(User(user_id="a", town="Rome"))
    item = await stored_user(store, "a")
    assert item is not None
    assert (item["town"], item["nickname"]) == ("Rome", "Countess")


async def test_comparing_engines_need_no_wait(store: SqliteStore) -> None:
    """On SQLite, each write compares the epoch, so a new property is ready at once."""
    await prepare_table(store, NEW)
    record = await read_record(store)
    assert record is not None
    assert record.elements[NICKNAME].state == "ready"
