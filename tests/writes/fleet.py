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

from graphql_api.writes.optimistic_concurrency import MAX_SECONDS
from tests.api.running import PATIENCE
from tests.writes.servers import Coming, Mother, Server

ADDRESS = "tests.writes.world:CATALOG"
PATH = "/graphql"
PROCESSES = 4
SETTINGS = {
    "SHARDQL_TOKEN_KEYS": bytes(range(32)).hex(),
    "SHARDQL_RECORD_KEY": bytes(range(1, 33)).hex(),
    "SHARDQL_DEADLINE_SECONDS": "120",  # The machine is busy with other tests.
}
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Place:
    """A table that every process finds, and a folder for what belongs to it."""

    folder: Path
    url: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def new_key(self) -> str | None:
        """An idempotency key where a client needs one: of a store behind a slow line nobody may hear in time."""
        return str(uuid4()) if self.variables else None


@dataclass(eq=False)
class Refused(Exception):
    """What a server answers instead of a record."""

    code: str
    argument: str | None
    message: str


@dataclass(slots=True)
class Fleet:
    """The servers, and one client for each."""

    servers: list[Server]
    clients: list[httpx.AsyncClient]
    begin: Callable[[], Coming]
    """has another server on the same table"""
    retries: Counter[str] = field(default_factory=Counter)
    """how often a server has asked to be asked again, and why"""
    hasty: int = 0
    """how many of these came before the server can have tried for long"""
    answered: int = 0

    async def ask(self, at: int, query: str, variables: Mapping[str, Any]) -> Any:
        """The only field of an operation at one of the servers.

        What certainly was not carried out is asked for again, as any client would; what perhaps was needs a key for it.
        """
        client = self.clients[at % len(self.clients)]
        async with asyncio.timeout(PATIENCE * 2):
            while True:
                began = asyncio.get_running_loop().time()
                reply = await client.post(PATH, json={"query": query, "variables": variables})
                body = reply.json()
                self.answered += 1
                if "errors" not in body:
                    (found,) = body["data"].values()
                    return found
                (error,) = body["errors"]
                extensions = error["extensions"]
                certain = extensions["code"] == "CONFLICT" or variables.get("key") is not None
                if not extensions.get("retryable") or not certain:
                    raise Refused(extensions["code"], extensions.get("argument"), error["message"])
                self.retries[extensions["code"]] += 1
                self.hasty += asyncio.get_running_loop().time() - began < MAX_SECONDS / 2
                await asyncio.sleep(_PAUSE)

    async def kill(self, at: int) -> Server:
        """Ends one of the servers as a power cut would, and has another one in its place; gives that."""
        await asyncio.to_thread(self.servers[at].kill)
        self.servers[at] = await asyncio.to_thread(self.begin().here)
        await self.clients[at].aclose()
        self.clients[at] = client_of(self.servers[at])
        return self.servers[at]

    async def create(self, at: int, kind: str, values: Mapping[str, Any], want: str, key: str | None = None) -> Any:
        """Creates a record at one of the servers; gives what is wanted of it."""
        name = f"{kind[0].lower()}{kind[1:]}"
        query = f"""mutation ($input: Create{kind}Input!, $key: String) {{
            create{kind}(input: $input, idempotencyKey: $key) {{ {name} {{ {want} }} }}
        }}"""
        return (await self.ask(at, query, {"input": values, "key": key}))[name]


@asynccontextmanager
async def fleet(mother: Mother, place: Place, count: int = PROCESSES, **troubles: float) -> AsyncIterator[Fleet]:
    """Starts servers on a table; `troubles` are those of their stores."""
    words = (ADDRESS, "--production", "--store", place.url)
    coming: list[Coming] = []
    clients: list[httpx.AsyncClient] = []

    def begin() -> Coming:
        coming.append(mother.begin(place.folder, *words, troubles=troubles, **SETTINGS, **place.variables))
        return coming[-1]

    try:
        first = [begin() for _ in range(count)]
        servers = [await asyncio.to_thread(one.here) for one in first]
        clients += [client_of(server) for server in servers]
        yield Fleet(servers, clients, begin)
    finally:
        for client in clients:
            await client.aclose()
        for one in coming:
            one.kill()


def client_of(server: Server) -> httpx.AsyncClient:
    """A client of a server."""
    return client_to(server.address)


def client_to(address: str) -> httpx.AsyncClient:
    """A client that has as many connections as it takes."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits)
