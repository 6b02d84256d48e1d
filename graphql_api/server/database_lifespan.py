"""The open database of an application, opened by its lifespan or by the first request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from graphql_api.database import Database

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]


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
