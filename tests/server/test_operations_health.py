"""Health checks: `/healthz` for liveness, `/readyz` for readiness."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import httpx
import pytest

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.errors import StoreDenied, StoreUnavailable
from graphql_api.evolution import EPOCH_KEY
from graphql_api.examples.users import catalog
from graphql_api.query import TokenSeal
from graphql_api.server.app import build_app
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key
from tests.server.observed_server import observed_server
from tests.server.scripted_executor import ScriptedExecutor, no_database


class ControllableStore(ForwardingStore):
    """Fails or blocks reads by key on demand."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.failure: Exception | None = None
        self.blocked = False
        self.calls: list[Sequence[Key]] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        self.calls.append(keys)
        if self.failure is not None:
            raise self.failure
        if self.blocked:
            await asyncio.Event().wait()
        return await super().get_many(keys, consistent)


class StoreControl:
    """Gives the test access to the store of a server."""

    def __init__(self) -> None:
        self.store: ControllableStore

    def wrap(self, inner: Store) -> Store:
        self.store = ControllableStore(inner)
        return self.store


def test_ready(tmp_path: Path) -> None:
    """A running server with a responding store is live and ready. The responses are not cached."""
    control = StoreControl()
    with observed_server(tmp_path, wrap=control.wrap) as server:
        live, ready = server.client.get("/healthz"), server.client.get("/readyz")
    assert (live.status_code, live.json()) == (200, {"status": "live"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "elements": []})
    assert live.headers["cache-control"] == ready.headers["cache-control"] == "no-store"
    assert control.store.calls == [[EPOCH_KEY]]


@pytest.mark.parametrize("failure", [StoreUnavailable("/secret/path is gone"), StoreDenied("role/secret may not")])
def test_unavailable_store(failure: Exception, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the store fails, the server is live but not ready. The response has a code, the log the details."""
    control = StoreControl()
    with observed_server(tmp_path, wrap=control.wrap) as server:
        control.store.failure = failure
        reply, live = server.client.get("/readyz"), server.client.get("/healthz")
        control.store.failure = None
        again = server.client.get("/readyz")
    assert isinstance(failure, StoreUnavailable | StoreDenied)
    assert (reply.status_code, reply.json()["status"], reply.json()["code"]) == (503, "not ready", failure.code)
    assert reply.json()["message"].endswith(".")
    assert "secret" not in reply.text
    assert f"Not ready: {failure.message}" in caplog.messages
    assert (live.status_code, again.status_code) == (200, 200)


def test_store_timeout(tmp_path: Path) -> None:
    """A store that does not respond in time makes the server not ready. Concurrent checks share store calls."""
    control = StoreControl()
    with observed_server(tmp_path, wrap=control.wrap) as server:
        control.store.blocked = True
        with ThreadPoolExecutor(8) as pool:
            replies = [*pool.map(lambda _: server.client.get("/readyz"), range(8))]
    assert {(reply.status_code, reply.json()["code"]) for reply in replies} == {(503, "STORE_UNAVAILABLE")}
    assert 1 <= len(control.store.calls) < 8


async def test_concurrent_checks_share_one_call() -> None:
    """Checks that arrive during a store call share its result."""
    started, resume = asyncio.Event(), asyncio.Event()
    calls = 0

    class Slow(ForwardingStore):
        async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
            nonlocal calls
            calls += 1
            started.set()
            await resume.wait()
            return [None for _ in keys]

    instrumentation = Instrumentation(Settings(ready_seconds=60))
    slow = Slow(cast(Store, None))  # never called
    instrumentation.readiness.database_opened(Database(catalog, slow, TokenSeal([TokenSeal.new_secret()])))

    async def no_opening() -> None:
        raise AssertionError("already open")

    checks = [asyncio.ensure_future(instrumentation.readiness.not_ready_reason(no_opening)) for _ in range(50)]
    await started.wait()
    checks.append(asyncio.ensure_future(instrumentation.readiness.not_ready_reason(no_opening)))
    await asyncio.sleep(0)
    checks[0].cancel()
    resume.set()
    answers = await asyncio.gather(*checks, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [None] * 50
    assert calls == 1


def test_shutdown(tmp_path: Path) -> None:
    """A server that is shutting down is not ready, and still serves requests."""
    with observed_server(tmp_path) as server:
        server.instrumentation.readiness.begin_shutdown()
        reply = server.client.get("/readyz")
        answer = server.post("{ userByCreated(limit: 1) { items { userId } } }")
        live = server.client.get("/healthz")
    assert (reply.status_code, reply.json()["code"]) == (503, "STOPPING")
    assert len(answer.json()["data"]["userByCreated"]["items"]) == 1
    assert live.status_code == 200


async def test_readiness_check_opens_the_store(tmp_path: Path) -> None:
    """In an application without lifespan, the first readiness check opens the store."""
    instrumentation = Instrumentation(Settings())
    open_database = instrumentation.instrument_database(lambda: open_catalog(catalog, f"sqlite:///{tmp_path}/users.db"))
    app = build_app(ScriptedExecutor(), open_database, Settings(), instrumentation.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        reply = await client.get("/readyz")
        await app.state.opened.close()
        closed = await client.get("/readyz")
    assert reply.status_code == 200
    assert (closed.status_code, closed.json()["code"]) == (503, "STOPPING")


async def test_failed_opening(tmp_path: Path) -> None:
    """If the store cannot be opened, the response has the code of its error."""
    instrumentation = Instrumentation(Settings())
    open_database = instrumentation.instrument_database(
        lambda: open_catalog(catalog, f"sqlite:///{tmp_path}/nowhere/users.db")
    )
    app = build_app(ScriptedExecutor(), open_database, Settings(), instrumentation.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        reply = await client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "STORE_UNAVAILABLE")


async def test_liveness_needs_no_store() -> None:
    """Liveness does not depend on the store, because a restart would not repair it."""
    app = build_app(ScriptedExecutor(), no_database(), Settings(), Instrumentation(Settings()).routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        assert (await client.get("/healthz")).status_code == 200
