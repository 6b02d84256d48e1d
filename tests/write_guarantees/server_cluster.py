"""Several servers on one table, and clients that write through them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from graphql_api.writes.transactions import CONFLICT_RETRIES
from tests.support.loopback import TIMEOUT
from tests.write_guarantees.forked_servers import Server, ServerForker, StartingServer

ADDRESS = "tests.write_guarantees.served_catalog:CATALOG"
PATH = "/graphql"
PROCESSES = 4
SETTINGS = {
    "SHARDQL_TOKEN_KEYS": bytes(range(32)).hex(),
    "SHARDQL_RECORD_KEY": bytes(range(1, 33)).hex(),
    "SHARDQL_DEADLINE_SECONDS": "120",  # for a machine that also runs other tests
}
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table that all processes can open, and a folder for files of the test."""

    folder: Path
    url: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def new_key(self) -> str | None:
        """Returns an idempotency key for tables on DynamoDB, whose replies may be lost."""
        return str(uuid4()) if self.variables else None


@dataclass(eq=False)
class Refused(Exception):
    """An error response of a server."""

    code: str
    argument: str | None
    message: str


@dataclass(slots=True)
class Cluster:
    """Several servers on one table, with one client each."""

    servers: list[Server]
    clients: list[httpx.AsyncClient]
    start_server: Callable[[], StartingServer]
    """starts another server on the same table"""
    retries: Counter[str] = field(default_factory=Counter)
    """retryable errors, by code"""
    early_retries: int = 0
    """retryable errors before the server can have exhausted its own retries"""
    reply_count: int = 0

    async def execute(self, at: int, query: str, variables: Mapping[str, Any]) -> Any:
        """Executes an operation at one of the servers, and returns its only field.

        Retries on conflict. With an idempotency key it retries after other retryable errors too.
        """
        client = self.clients[at % len(self.clients)]
        async with asyncio.timeout(TIMEOUT * 2):
            while True:
                began = asyncio.get_running_loop().time()
                reply = await client.post(PATH, json={"query": query, "variables": variables})
                body = reply.json()
                self.reply_count += 1
                if "errors" not in body:
                    (found,) = body["data"].values()
                    return found
                (error,) = body["errors"]
                extensions = error["extensions"]
                certain = extensions["code"] == "CONFLICT" or variables.get("key") is not None
                if not extensions.get("retryable") or not certain:
                    raise Refused(extensions["code"], extensions.get("argument"), error["message"])
                self.retries[extensions["code"]] += 1
                self.early_retries += asyncio.get_running_loop().time() - began < CONFLICT_RETRIES.max_seconds / 2
                await asyncio.sleep(_PAUSE_SECONDS)

    async def kill(self, at: int) -> Server:
        """Kills one of the servers like a power failure, and returns its replacement."""
        await asyncio.to_thread(self.servers[at].kill)
        self.servers[at] = await asyncio.to_thread(self.start_server().wait_until_ready)
        await self.clients[at].aclose()
        self.clients[at] = client_of(self.servers[at])
        return self.servers[at]

    async def create(
        self, at: int, kind: str, values: Mapping[str, Any], selection: str, key: str | None = None
    ) -> Any:
        """Creates a record at one of the servers, and returns the selected fields."""
        name = f"{kind[0].lower()}{kind[1:]}"
        query = f"""mutation ($input: {kind}Input!, $key: String) {{
            create{kind}(input: $input, idempotencyKey: $key) {{ {name} {{ {selection} }} }}
        }}"""
        return (await self.execute(at, query, {"input": values, "key": key}))[name]


@asynccontextmanager
async def start_cluster(
    forker: ServerForker, location: TableLocation, count: int = PROCESSES, **faults: float
) -> AsyncIterator[Cluster]:
    """Starts servers on a table, whose stores have the given faults."""
    arguments = (ADDRESS, "--production", "--store", location.url)
    starting: list[StartingServer] = []
    clients: list[httpx.AsyncClient] = []

    def start_server() -> StartingServer:
        starting.append(forker.start(location.folder, *arguments, faults=faults, **SETTINGS, **location.variables))
        return starting[-1]

    try:
        first = [start_server() for _ in range(count)]
        servers = [await asyncio.to_thread(one.wait_until_ready) for one in first]
        clients += [client_of(server) for server in servers]
        yield Cluster(servers, clients, start_server)
    finally:
        for client in clients:
            await client.aclose()
        for one in starting:
            one.kill()


def client_of(server: Server) -> httpx.AsyncClient:
    """Returns a client of a server."""
    return client_to(server.address)


def client_to(address: str) -> httpx.AsyncClient:
    """Returns a client without a limit on connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=address, timeout=TIMEOUT, limits=limits)
