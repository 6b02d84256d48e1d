"""The database of an application: how the settings open it, when, and its warm connections."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

from graphql_api.connection import Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.errors import StoreError
from graphql_api.evolution import EPOCH_KEY, ProgressCallback
from graphql_api.model import Catalog
from graphql_api.server.settings import Settings
from graphql_api.storage.engines import creates_tables

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]


def open_server_database(
    catalog: Catalog, settings: Settings, secrets: Secrets | None, on_progress: ProgressCallback = lambda _: None
) -> AbstractAsyncContextManager[Database]:
    """Open the database of a server or a loader. Create or migrate its table if the settings allow it."""
    migrates = not settings.production and creates_tables(settings.store_url)
    return open_catalog(
        catalog,
        settings.store_url,
        secrets=secrets,
        create_table=settings.create_table,
        read_only=settings.read_only,
        adopt_table=settings.adopt_table,
        lease_seconds=settings.lease_seconds,
        lease_margin_seconds=settings.lease_margin_seconds,
        request_life_seconds=settings.request_life_seconds,
        lookups=settings.lookup_store,
        migrate=migrates if settings.migrate is None else settings.migrate,
        on_progress=on_progress,
    )


class DatabaseHolder:
    """Opens a database once for concurrent callers. After a failed opening, the next caller retries."""

    def __init__(self, open_database: OpenDatabase) -> None:
        self._open_database = open_database
        self._contexts = AsyncExitStack()
        self._opening: asyncio.Task[Database] | None = None

    async def get(self) -> Database:
        opening = self._opening
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception() is not None)):
            opening = asyncio.create_task(self._contexts.enter_async_context(self._open_database()))
            # Mark an exception as retrieved: asyncio would log it if all waiting requests were cancelled.
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._opening = opening
        # All waiting requests share the task, so cancelling one of them must not cancel it.
        return await asyncio.shield(opening)

    async def close(self) -> None:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await asyncio.wait([opening])
            await self._contexts.aclose()

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Keep the database open while the application runs."""
        await self.get()
        try:
            yield
        finally:
            await self.close()


async def warm_connections(database: Database) -> None:
    """Open the connections of the widest search, so that the first one does not wait for them.

    A failure does not matter: the connections are then opened when they are needed.
    """
    entities = database.catalog.entities.values()
    spaces = {space for entity in entities for space in (entity.space, *(one.space for one in entity.indexes.values()))}

    async def read() -> None:
        with suppress(StoreError):
            await database.store.get_many([EPOCH_KEY], consistent=False)

    widest = max((len(space.covering_shards()) for space in spaces), default=0)
    await asyncio.gather(*(read() for _ in range(widest)))
