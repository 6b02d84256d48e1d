"""Databases in memory. They behave as those of other engines, and end with the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from graphql_api.clock import Clock, system_clock
from graphql_api.connection import Secrets, database_over
from graphql_api.database import Database
from graphql_api.model import Catalog, Entity
from graphql_api.storage.engines import MemoryStore


@asynccontextmanager
async def in_memory(
    catalog: Catalog, *records: Entity, clock: Clock = system_clock, secrets: Secrets | None = None
) -> AsyncIterator[Database]:
    """Open an empty database in memory, and write these records: `async with in_memory(catalog, User(…)) as db: …`.

    Records are written in this order, so those that others reference come first. `clock` returns seconds since 1970.
    """
    db = await open_in_memory(catalog, *records, clock=clock, secrets=secrets)
    try:
        yield db
    finally:
        await db.store.close()


async def open_in_memory(
    catalog: Catalog, *records: Entity, clock: Clock = system_clock, secrets: Secrets | None = None
) -> Database:
    """Return a database as `in_memory` does. It belongs to no event loop, and needs not be closed."""
    store = MemoryStore(now=clock)
    async with database_over(store, catalog, secrets=secrets or Secrets.generate(), clock=clock) as db:
        for record in records:
            await db.put(record)
        return db
