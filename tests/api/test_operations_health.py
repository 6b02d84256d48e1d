"""/healthz and /readyz: whether a process lives, and whether requests should come to it."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import httpx
import pytest

from graphql_api import open_catalog
from graphql_api.errors import StoreDenied, StoreUnavailable
from graphql_api.evolution.table_record import TABLE_RECORD_KEY
from graphql_api.examples.users import catalog
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.api.scripted import ScriptedEngine, no_database
from tests.api.watched import watched
from tests.stores import WrappedStore


class Moody(WrappedStore):
    """Answers reads by key as it is told to."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.failure: Exception | None = None
        self.silent = False
        self.asked: list[Sequence[Key]] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.asked.append(keys)
        if self.failure is not None:
            raise self.failure
        if self.silent:
            await asyncio.Event().wait()
        return await super().get_many(keys, consistent)


class Moods:
    """The store of a server that is under test."""

    def __init__(self) -> None:
        self.store: Moody

    def wrap(self, inner: Store) -> Store:
        self.store = Moody(inner)
        return self.store


def test_ready(tmp_path: Path) -> None:
    """A server that runs over a store that answers is live and ready; nothing keeps that answer for later."""
    moods = Moods()
    with watched(tmp_path, wrap=moods.wrap) as server:
        live, ready = server.client.get("/healthz"), server.client.get("/readyz")
    assert (live.status_code, live.json()) == (200, {"status": "live"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
    assert live.headers["cache-control"] == ready.headers["cache-control"] == "no-store"
    assert moods.store.asked == [[TABLE_RECORD_KEY]]


@pytest.mark.parametrize("failure", [StoreUnavailable("/secret/path is gone"), StoreDenied("role/secret may not")])
def test_the_store_is_gone(failure: Exception, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the store fails, the server lives and is not ready; the reply has a code, the log has the details."""
    moods = Moods()
    with watched(tmp_path, wrap=moods.wrap) as server:
        moods.store.failure = failure
        reply, live = server.client.get("/readyz"), server.client.get("/healthz")
        moods.store.failure = None
        again = server.client.get("/readyz")
    assert isinstance(failure, StoreUnavailable | StoreDenied)
    assert (reply.status_code, reply.json()["status"], reply.json()["code"]) == (503, "not ready", failure.code)
    assert reply.json()["message"].endswith(".")
    assert "secret" not in reply.text
    assert f"Not ready: {failure.message}" in caplog.messages
    assert (live.status_code, again.status_code) == (200, 200)


def test_the_store_is_silent(tmp_path: Path) -> None:
    """A store that does not answer in time makes the server not ready; however many ask meanwhile, it is asked once."""
    moods = Moods()
    with watched(tmp_path, wrap=moods.wrap) as server:
        moods.store.silent = True
        with ThreadPoolExecutor(8) as pool:
            replies = [*pool.map(lambda _: server.client.get("/readyz"), range(8))]
    assert {(reply.status_code, reply.json()["code"]) for reply in replies} == {(503, "STORE_UNAVAILABLE")}
    assert 1 <= len(moods.store.asked) < 8


async def test_many_ask_at_once() -> None:
    """Questions that come while the store is being asked share its one answer."""
    started, go_on = asyncio.Event(), asyncio.Event()
    asked = 0

    class Slow(WrappedStore):
        async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
            nonlocal asked
            asked += 1
            started.set()
            await go_on.wait()
            return [None for _ in keys]

    operations = Instrumentation(ready_seconds=60)
    operations.readiness.store_opened(Slow(cast(Store, None)))  # nothing gets through to it

    async def no_opening() -> None:
        raise AssertionError("it is open")

    questions = [asyncio.ensure_future(operations.readiness.not_ready_reason(no_opening)) for _ in range(50)]
    await started.wait()
    questions.append(asyncio.ensure_future(operations.readiness.not_ready_reason(no_opening)))
    await asyncio.sleep(0)
    questions[0].cancel()
    go_on.set()
    answers = await asyncio.gather(*questions, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [None] * 50
    assert asked == 1


def test_stopping(tmp_path: Path) -> None:
    """A server that is told to stop is not ready, and still answers what comes."""
    with watched(tmp_path) as server:
        server.operations.readiness.begin_shutdown()
        reply = server.client.get("/readyz")
        answer = server.post("{ userByCreated(limit: 1) { items { userId } } }")
        live = server.client.get("/healthz")
    assert (reply.status_code, reply.json()["code"]) == (503, "STOPPING")
    assert len(answer.json()["data"]["userByCreated"]["items"]) == 1
    assert live.status_code == 200


async def test_opened_by_the_first_question(tmp_path: Path) -> None:
    """Where nobody starts the application, the first question opens the store: else no request would ever come."""
    operations = Instrumentation()
    opening = operations.instrument_database(lambda: open_catalog(catalog, f"sqlite:///{tmp_path}/users.db"))
    app = build_app(ScriptedEngine(), opening, WebOptions(), operations.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        reply = await client.get("/readyz")
        await app.state.opened.close()
        closed = await client.get("/readyz")
    assert reply.status_code == 200
    assert (closed.status_code, closed.json()["code"]) == (503, "STOPPING")


async def test_an_opening_that_fails(tmp_path: Path) -> None:
    """Where the store cannot be opened, the code of its error says why."""
    operations = Instrumentation()
    opening = operations.instrument_database(lambda: open_catalog(catalog, f"sqlite:///{tmp_path}/nowhere/users.db"))
    app = build_app(ScriptedEngine(), opening, WebOptions(), operations.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        reply = await client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "STORE_UNAVAILABLE")


async def test_liveness_needs_no_store() -> None:
    """Whether the process lives has nothing to do with the store: a restart would not help it."""
    app = build_app(ScriptedEngine(), no_database(), WebOptions(), Instrumentation().routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        assert (await client.get("/healthz")).status_code == 200
