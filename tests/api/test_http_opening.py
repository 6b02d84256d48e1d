"""When the database of an application is opened, and by whom."""

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
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.database_lifespan import DatabaseHolder
from tests.api.running import Wire, running
from tests.api.scripted import ScriptedEngine

GOOD = b'{"query": "{ a }"}'


class Opening:
    """Counts how often it was opened and closed; the first `failures` times it fails."""

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


def test_opened_by_the_server() -> None:
    """A server opens the database before it answers, and closes it when it stops."""
    opening = Opening()
    with running(build_app(ScriptedEngine(), opening, WebOptions())) as address, Wire(address) as wire:
        assert (opening.opened, opening.closed) == (1, 0)
        assert wire.post(GOOD).status == 200
    assert (opening.opened, opening.closed) == (1, 1)


async def test_opened_by_the_first_request() -> None:
    """Mounted in an application that does not start it, it opens the database with the first requests, once."""
    opening = Opening()
    app = build_app(ScriptedEngine(), opening, WebOptions())
    outer = Starlette(routes=[Mount("/api", app)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url="http://a") as client:
        replies = await asyncio.gather(*(client.post("/api/graphql", json={"query": "{ a }"}) for _ in range(5)))
        assert [reply.status_code for reply in replies] == [200] * 5
        assert (await client.post("/api/graphql/", json={})).status_code == 404
    assert (opening.opened, opening.closed) == (1, 0)
    await app.state.opened.close()
    assert (opening.opened, opening.closed) == (1, 1)


async def test_a_failure_is_not_kept() -> None:
    """Where the database does not open, the request gets its error, and the next one tries again."""
    opening = Opening(failures=1)
    app = build_app(ScriptedEngine(), opening, WebOptions())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
        reply = await client.post("/graphql", json={"query": "{ a }"})
        assert (reply.status_code, reply.json()["errors"][0]["extensions"]["code"]) == (503, "STORE_UNAVAILABLE")
        assert (await client.post("/graphql", json={"query": "{ a }"})).status_code == 200
    await app.state.opened.close()


async def test_leaving_while_it_opens() -> None:
    """Who goes away while the database opens does not stop it from opening for those who stay."""
    opening = Opening()
    opened = DatabaseHolder(opening)
    first, second = (asyncio.create_task(opened.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert (opening.opened, opening.closed) == (1, 0)
    await opened.close()
    await opened.close()
    assert (opening.opened, opening.closed) == (1, 1)


async def test_a_start_that_fails() -> None:
    """A server whose database does not open does not start."""
    app = build_app(ScriptedEngine(), Opening(failures=1), WebOptions())
    with pytest.raises(StoreUnavailable):
        async with app.router.lifespan_context(app):
            pass
