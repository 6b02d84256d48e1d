"""When the database of an application is opened and closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from graphql_api.database import Database
from graphql_api.errors import StoreUnavailable
from graphql_api.server.app import build_app
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.settings import Settings
from tests.server.scripted_executor import ScriptedExecutor
from tests.support.loopback import RawConnection, serve_app

GOOD = b'{"query": "{ a }"}'


class CountingOpener:
    """Counts openings and closings. The first `failures` openings fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.opened = 0
        self.closed = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Database]:
        await asyncio.sleep(0.01)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("The store does not answer: try again.")
        self.opened += 1
        try:
            yield cast("Database", None)
        finally:
            self.closed += 1


def test_opened_at_startup() -> None:
    """A server opens the database before it accepts requests, and closes it when it stops."""
    open_database = CountingOpener()
    with (
        serve_app(build_app(ScriptedExecutor(), open_database, Settings())) as address,
        RawConnection(address) as connection,
    ):
        assert (open_database.opened, open_database.closed) == (1, 0)
        assert connection.post(GOOD).status == 200
    assert (open_database.opened, open_database.closed) == (1, 1)


async def test_opened_by_the_first_request() -> None:
    """An application that is mounted without its lifespan opens the database once, for the first requests."""
    open_database = CountingOpener()
    app = build_app(ScriptedExecutor(), open_database, Settings())
    outer = Starlette(routes=[Mount("/api", app)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://a") as client:
        replies = await asyncio.gather(*(client.post("/api/graphql", json={"query": "{ a }"}) for _ in range(5)))
        assert [reply.status_code for reply in replies] == [200] * 5
        assert (await client.post("/api/graphql/", json={})).status_code == 404
    assert (open_database.opened, open_database.closed) == (1, 0)
    await app.state.opened.close()
    assert (open_database.opened, open_database.closed) == (1, 1)


async def test_failed_opening_is_retried() -> None:
    """If opening fails, the request gets the error, and the next request tries again."""
    open_database = CountingOpener(failures=1)
    app = build_app(ScriptedExecutor(), open_database, Settings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        reply = await client.post("/graphql", json={"query": "{ a }"})
        assert (reply.status_code, reply.json()["errors"][0]["extensions"]["code"]) == (503, "STORE_UNAVAILABLE")
        assert (await client.post("/graphql", json={"query": "{ a }"})).status_code == 200
    await app.state.opened.close()


async def test_cancelled_request_while_opening() -> None:
    """A cancelled request does not cancel the opening for other requests."""
    open_database = CountingOpener()
    opened = DatabaseHolder(open_database)
    first, second = (asyncio.create_task(opened.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert (open_database.opened, open_database.closed) == (1, 0)
    await opened.close()
    await opened.close()
    assert (open_database.opened, open_database.closed) == (1, 1)


async def test_failed_startup() -> None:
    """A server whose database cannot be opened does not start."""
    app = build_app(ScriptedExecutor(), CountingOpener(failures=1), Settings())
    with pytest.raises(StoreUnavailable):
        async with app.router.lifespan_context(app):
            pass
