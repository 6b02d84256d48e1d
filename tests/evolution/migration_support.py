"""Catalogs and helpers for the tests of migrations."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import new_class
from typing import Any

from graphql_api import Catalog, Entity, Id, open_catalog
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.evolution.elements import State
from graphql_api.evolution.migration import run_migration
from graphql_api.evolution.migration_settings import MigrationResult, MigrationSettings
from graphql_api.evolution.table_record import TableRecord, read_record, save_record
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.support.store_doubles import all_items

NOW = 1_000.0
SECRETS = Secrets.generate()
TOWNS = ("Bern", "Oslo")
ROWS = [{"user_id": f"u{number:02}", "name": f"n{number:02}", "town": TOWNS[number % 2]} for number in range(31)]


def entity(name: str, annotations: dict[str, Any], options: dict[str, Any] | None = None, **body: Any) -> Any:
    """An entity class."""
    space = {**body, "__annotations__": annotations, "__module__": __name__}
    return new_class(name, (Entity,), options or {}, lambda own: own.update(space))


def users(annotations: dict[str, Any] | None = None, options: dict[str, Any] | None = None, **body: Any) -> Any:
    """The entity of users, with further declarations."""
    own = {"user_id": Id[str], "name": str, "town": str | None, "team_id": str | None}
    return entity("User", {**own, **(annotations or {})}, options, **{"town": None, "team_id": None, **body})


def teams() -> Any:
    """The entity of teams."""
    return entity("Team", {"team_id": Id[str]})


@asynccontextmanager
async def opened(folder: Path, catalog: Catalog, now: float = NOW) -> AsyncIterator[Database]:
    """Opens the table as a server that does not migrate it."""
    url = f"sqlite:///{folder / 'table.db'}"
    async with open_catalog(catalog, url, secrets=SECRETS, clock=lambda: now, migrate=False) as db:
        yield db


def model_of(db: Database, name: str = "User") -> Any:
    """The class of an entity in the catalog of a server."""
    return db.catalog.entity(name).model


async def put_all(db: Database, name: str, *rows: dict[str, Any]) -> None:
    """Writes records of an entity."""
    model = model_of(db, name)
    for row in rows:
        await db.put(model(**row))


@asynccontextmanager
async def opened_store(folder: Path) -> AsyncIterator[Store]:
    """Opens the file of the table."""
    store = await open_sqlite(folder / "table.db")
    try:
        yield store
    finally:
        await store.close()


async def migrated(folder: Path, catalog: Catalog, now: float = NOW, **settings: Any) -> MigrationResult:
    """Runs a migration over the file."""
    async with opened_store(folder) as store:
        return await run_migration(store, catalog, MigrationSettings(clock=lambda: now, **settings))


async def stored_record(folder: Path) -> TableRecord:
    """The table's record."""
    async with opened_store(folder) as store:
        record = await read_record(store)
    assert record is not None
    return record


async def states(folder: Path) -> dict[str, str]:
    """The state of each element."""
    return {key: recorded.state for key, recorded in (await stored_record(folder)).elements.items()}


async def change_states(db: Database, states: Mapping[str, State]) -> None:
    """Changes the states of elements, as a migration does."""
    record = await read_record(db.store)
    assert record is not None
    changed = (replace(record.elements[key], state=state) for key, state in states.items())
    assert await save_record(db.store, record, record.changed(*changed))


def plain(items: list[Any]) -> list[dict[str, Any]]:
    """Items without write ids, and without those that the table keeps about itself."""
    own = [item for item in items if not item["hashKey"].startswith("shardql!")]
    return [{name: value for name, value in item.items() if name != "_w"} for item in own]


async def stored_items(folder: Path) -> list[dict[str, Any]]:
    """All items of the table but its own, without write ids."""
    async with opened_store(folder) as store:
        return plain(await all_items(store))


async def bookkeeping(folder: Path) -> list[str]:
    """The range keys of items that the table keeps about itself."""
    async with opened_store(folder) as store:
        return sorted(item["rangeKey"] for item in await all_items(store) if item["hashKey"] == "shardql!")
