"""The open database of an application, opened by its lifespan or by the first request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from graphql_api.database import Database

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]


class DatabaseHolder:
    """Opens a database once for concurrent callers. After a failed opening, the next caller retries.

    A separate task holds the database open, so a request that is cancelled during the opening does not close it.
    """

    def __init__(self, open_database: OpenDatabase) -> None:
        self._open_database = open_database
        self._holder: asyncio.Task[None] | None = None
        self._database: asyncio.Future[Database]
        self._closing: asyncio.Event

    async def get(self) -> Database:
        """Return the database. Open it first if necessary."""
        if self._holder is None or self._holder.done():
            self._database = asyncio.get_running_loop().create_future()
            self._closing = asyncio.Event()
            self._holder = asyncio.create_task(self._hold_open(self._database, self._closing))
        return await asyncio.shield(self._database)

    async def close(self) -> None:
        """Close the database, if it is open."""
        if self._holder is not None:
            self._closing.set()
            holder, self._holder = self._holder, None
            await holder

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Keep the database open while the application runs."""
        await self.get()
        try:
            yield
        finally:
            await self.close()

    async def _hold_open(self, database_future: asyncio.Future[Database], closing: asyncio.Event) -> None:
        try:
            async with self._open_database() as database:
                database_future.set_result(database)
                await closing.wait()
        except Exception as error:
            if database_future.done():
                raise
            database_future.set_exception(error)
            # Mark the exception as retrieved: asyncio would log it if all waiting requests were cancelled.
            database_future.exception()
        finally:
            database_future.cancel()
