"""Servers and migrations on DynamoDB Local that are stopped beyond their leases neither write nor answer wrongly."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from graphql_api import Catalog, Entity, Id, Index, open_catalog
from graphql_api.connection import Secrets
from graphql_api.errors import NotReady, StoreUnavailable
from graphql_api.evolution import MigrationSettings, read_record, run_migration
from graphql_api.storage import ForwardingStore, Item, Store
from graphql_api.storage.engines import opened_store
from tests.faults.dynamodb_requests import Request
from tests.faults.fault_proxy import FaultProxy
from tests.faults.fault_types import SERVER_ERROR, Exchange, Fault
from tests.server.server_processes import environment
from tests.support.dynamodb_servers import CREDENTIALS, REGION, ROOT, Server
from tests.support.loopback import TIMEOUT
from tests.support.store_doubles import all_items
from tests.write_guarantees.forked_servers import NO_FAULTS, start_forker
from tests.write_guarantees.server_cluster import PATH, SETTINGS, client_of

LEASE, SHORT_LEASE, MARGIN, LIFE = 2.0, 1.0, 0.1, 0.2
"""seconds; leases as short as a busy machine can renew them"""
WAITS = MigrationSettings(margin_seconds=MARGIN, life_seconds=LIFE)
VARIABLES = {
    **CREDENTIALS,
    "SHARDQL_LEASE_MARGIN_SECONDS": f"{MARGIN}",
    "SHARDQL_REQUEST_LIFE_SECONDS": f"{LIFE}",
}
PATIENT = "deadline=120&connect_seconds=10&read_seconds=120&table_pause=0.2"
"""With the usual deadline, a process that was stopped would give up its requests in any case."""
SECRETS = Secrets.generate()
TOWNS = ("Bern", "Oslo")
TOWN = "user index town"


def _users(**body: Any) -> Catalog:
    class User(Entity):
        user_id: Id[str]
        town: str

        vars().update(body)

    return Catalog(User)


OLDER, NEWER = _users(), _users(by_town=Index(hash="town"))


@dataclass(frozen=True)
class Held:
    """A fault that holds a request, or its response, until it is released."""

    has_reply: bool
    """the server executes the request before it is held"""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def apply(self, exchange: Exchange) -> None:
        reply = await exchange.forward() if self.has_reply else None
        self.arrived.set()
        await self.released.wait()
        await exchange.send_response(await exchange.forward() if reply is None else reply)


@dataclass
class Stage:
    """A table, and a proxy through which the process under test reaches it."""

    proxy: FaultProxy
    table: str
    endpoint: str
    held: Held
    selects: Callable[[Request], bool]
    """the requests that are held"""
    holds: bool = False
    is_cut: bool = False
    """the process under test does not reach the record of the table"""
    refused: asyncio.Event = field(default_factory=asyncio.Event)
    """it has tried to"""

    def rule(self, request: Request) -> Fault | None:
        if self.is_cut and "shardql!" in request.hash_keys:
            self.refused.set()
            return SERVER_ERROR
        return self.held if self.holds and self.selects(request) else None

    def url(self, endpoint: str | None = None) -> str:
        """The URL of the table for processes that are not under test, or at another endpoint."""
        return f"dynamodb://{self.table}?endpoint={endpoint or self.endpoint}&region={REGION}&{PATIENT}"

    async def stop(self, server: int, request: "asyncio.Task[Any]") -> None:
        """Stops a server once a request of it is held."""
        arrival = asyncio.create_task(self.held.arrived.wait())
        await asyncio.wait({arrival, request}, return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT)
        assert arrival.done(), request.result()
        os.kill(server, signal.SIGSTOP)
        self.holds = False

    async def items(self) -> list[Item]:
        """The stored users, without write ids."""
        async with opened_store(self.url()) as store:
            items = await all_items(store)
        return [{name: item[name] for name in item if name != "_w"} for item in items if item["hashKey"] == "user!"]

    async def state(self) -> str | None:
        """The state of the index of towns."""
        async with opened_store(self.url()) as store:
            record = await read_record(store)
        assert record is not None
        return record.elements[TOWN].state if TOWN in record.elements else None

    async def migrate(
        self, catalog: Catalog, *, drop: bool = False, before_drop: Callable[[], Any] | None = None
    ) -> None:
        """Runs a migration that is not under test."""
        async with opened_store(self.url()) as store:
            own = store if before_drop is None else DroppingStore(store, before_drop)
            result = None
            while result is None:
                with suppress(StoreUnavailable):  # The machine was too busy to renew a lease in time.
                    result = await run_migration(own, catalog, replace(WAITS, drop=drop))
            assert result.is_complete, result

    async def found(self, town: str) -> list[str]:
        """The users of a town, by the index."""
        async with open_catalog(NEWER, self.url(), secrets=SECRETS, migrate=False) as db:
            user: Any = NEWER.entity("User").model
            return [record.user_id for record in (await db.search(user.by_town, town=town)).items]


class DroppingStore(ForwardingStore):
    """Does something before it removes an index."""

    def __init__(self, inner: Store, before_drop: Callable[[], Any]) -> None:
        super().__init__(inner)
        self._before_drop = before_drop

    async def drop_index(self, name: str) -> None:
        await self._before_drop()
        await super().drop_index(name)


def reads_users(request: Request) -> bool:
    """Whether a request reads users by key."""
    return request.operation in {"GetItem", "BatchGetItem"} and "user!" in request.hash_keys


def searches_towns(request: Request) -> bool:
    """Whether a request reads the index of towns."""
    return request.index == "town"


def scans(request: Request) -> bool:
    """Whether a request reads a page of the table."""
    return request.operation == "Scan"


@asynccontextmanager
async def staged(
    dynamodb: Server,
    first: Catalog,
    selects: Callable[[Request], bool],
    *,
    has_reply: bool,
    lease_seconds: float = LEASE,
) -> AsyncIterator[Stage]:
    """A table with users, which the given catalog has created."""
    async with FaultProxy(int(dynamodb.endpoint.rpartition(":")[2])) as proxy:
        stage = Stage(proxy, f"stopped-{uuid4().hex}", dynamodb.endpoint, Held(has_reply), selects)
        proxy.rule = stage.rule
        opened = open_catalog(
            first, stage.url(), secrets=SECRETS, create_table=True, migrate=False, lease_seconds=lease_seconds
        )
        async with opened as db:
            model: Any = first.entity("User").model
            await db.put_many([model(user_id=f"u{n}", town=TOWNS[n % 2]) for n in range(6)])
        yield stage


@asynccontextmanager
async def served(stage: Stage, folder: Path, release: str) -> AsyncIterator[tuple[int, httpx.AsyncClient]]:
    """A server process that reaches the table through the proxy, and its client."""
    with start_forker() as forker:
        address = f"{__name__}:{release}"
        arguments = (address, "--production", "--no-migrate", "--store", stage.url(stage.proxy.endpoint))
        starting = forker.start(folder, *arguments, faults=NO_FAULTS, **SETTINGS, **VARIABLES)
        server = await asyncio.to_thread(starting.wait_until_ready)
        async with client_of(server) as client:
            try:
                yield server.pid, client
            finally:
                os.kill(server.pid, signal.SIGCONT)


async def execute(client: httpx.AsyncClient, query: str) -> tuple[Any, set[str]]:
    """The only field of a response, and the codes of its errors, which are all retryable."""
    body = (await client.post(PATH, json={"query": query}, timeout=2 * TIMEOUT)).json()
    errors = [error["extensions"] for error in body.get("errors", ())]
    assert all(error.get("retryable") for error in errors), body
    found = None if errors else next(iter(body["data"].values()))
    return found, {error["code"] for error in errors}


async def execute_until(client: httpx.AsyncClient, query: str, code: str | None = None) -> Any:
    """The only field of the first response with this error, or without errors. Others are retried."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            answer, codes = await execute(client, query)
            if codes == ({code} if code else set()):
                return answer
            await asyncio.sleep(MARGIN)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


UPDATE = 'mutation { updateUser(input: { id: "u0", town: "Oslo" }) { user { town } } }'
SEARCH = '{ userByTown(town: "Bern") { items { userId } } }'


async def test_a_stopped_server_does_not_write(dynamodb: Server, tmp_path: Path) -> None:
    """A server that was stopped beyond its lease, between the plan of a write and its request, does not send it."""
    async with (
        staged(dynamodb, OLDER, reads_users, has_reply=True) as stage,
        served(stage, tmp_path, "OLDER") as (server, client),
    ):
        stage.holds = True
        update = asyncio.create_task(execute(client, UPDATE))
        await stage.stop(server, update)
        await stage.migrate(NEWER)
        items = await stage.items()
        stage.is_cut = True
        stage.held.released.set()
        os.kill(server, signal.SIGCONT)
        assert await update == (None, {"STORE_UNAVAILABLE"})
        assert await stage.items() == items
        stage.is_cut = False
        assert await execute_until(client, UPDATE) == {"user": {"town": "Oslo"}}
        assert await stage.found("Oslo") == ["u0", "u1", "u3", "u5"]
        assert await stage.found("Bern") == ["u2", "u4"]


async def test_a_stopped_server_does_not_answer(dynamodb: Server, tmp_path: Path) -> None:
    """A server that was stopped beyond its read lease does not answer by an index whose entries were removed."""
    async with (
        staged(dynamodb, NEWER, searches_towns, has_reply=False, lease_seconds=SHORT_LEASE) as stage,
        served(stage, tmp_path, "NEWER") as (server, client),
    ):
        assert len((await execute_until(client, SEARCH))["items"]) == 3
        stage.holds = True
        search = asyncio.create_task(execute(client, SEARCH))
        await stage.stop(server, search)

        async def continue_server() -> None:
            assert all(item.keys() == {"hashKey", "rangeKey", "userId", "town"} for item in await stage.items())
            stage.is_cut = True
            stage.held.released.set()
            os.kill(server, signal.SIGCONT)
            assert await search == (None, {"STORE_UNAVAILABLE"})
            stage.is_cut = False
            await execute_until(client, SEARCH, NotReady.code)

        await stage.migrate(OLDER, drop=True, before_drop=continue_server)
        await execute_until(client, SEARCH, NotReady.code)


async def start_migration(stage: Stage) -> Process:
    """Starts `shardql migrate`, which reaches the table through the proxy."""
    words = ("-m", "graphql_api.cli", "migrate", f"{__name__}:NEWER", "--store", stage.url(stage.proxy.endpoint))
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, "--apply", stdout=PIPE, stderr=PIPE, cwd=ROOT, env=environment(**VARIABLES)
    )


@pytest.mark.parametrize("is_cut", [True, pytest.param(False, marks=pytest.mark.deep)])
async def test_a_stopped_migration_does_not_write(dynamodb: Server, *, is_cut: bool) -> None:
    """A migration that was stopped while another one built the index, and a third one removed it, writes no entry."""
    async with staged(dynamodb, OLDER, scans, has_reply=True) as stage:
        stage.holds = True
        process = await start_migration(stage)
        try:
            await asyncio.wait_for(stage.held.arrived.wait(), TIMEOUT)
            process.send_signal(signal.SIGSTOP)
            stage.holds = False
            await stage.migrate(NEWER)
            assert await stage.found("Oslo") == ["u1", "u3", "u5"]
            await stage.migrate(OLDER, drop=True)
            items = await stage.items()
            stage.is_cut = is_cut
            stage.held.released.set()
            process.send_signal(signal.SIGCONT)
            if is_cut:
                await asyncio.wait_for(stage.refused.wait(), TIMEOUT)
                assert await stage.items() == items
                stage.is_cut = False
            _, log = await asyncio.wait_for(process.communicate(), 2 * TIMEOUT)
            assert process.returncode == 0, log.decode()
            assert await stage.items() == items
            assert await stage.state() is None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
