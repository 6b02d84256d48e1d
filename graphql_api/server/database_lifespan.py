"""The open database of an application: opened at its start, or by the first request where nobody starts it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from graphql_api.database import Database

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]


class Opened:
    """Opens a database once, however many ask for it at once; after a failure the next one who asks tries again.

    A task of its own holds it open: a request that is cancelled while the database opens does not tear it down.
    """

    def __init__(self, open_database: OpenDatabase) -> None:
        self._open_database = open_database
        self._holder: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Database]
        self._closing: asyncio.Event

    async def get(self) -> Database:
        """The database, opened if it is not."""
        if self._holder is None or self._holder.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._closing = asyncio.Event()
            self._holder = asyncio.create_task(self._hold(self._ready, self._closing))
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Closes it, if it is open."""
        if self._holder is not None:
            self._closing.set()
            holder, self._holder = self._holder, None
            await holder

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """Open from the start of a server to its end."""
        await self.get()
        try:
            yield
        finally:
            await self.close()

    async def _hold(self, ready: asyncio.Future[Database], closing: asyncio.Event) -> None:
        try:
            async with self._open_database() as database:
                ready.set_result(database)
                await closing.wait()
        except Exception as problem:
            if ready.done():
                raise
            ready.set_exception(problem)
            ready.exception()  # Known now, even if all who waited for it have left.
        finally:
            ready.cancel()
