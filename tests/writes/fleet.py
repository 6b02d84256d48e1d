"""Several servers on one table, and clients that write through them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.api.running import PATIENCE
from tests.writes.servers import Mother, Server

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


@dataclass(frozen=True, slots=True)
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
    retries: Counter[str] = field(default_factory=Counter)
    """how often a server has asked to be asked again, and why"""

    async def ask(self, at: int, query: str, variables: Mapping[str, Any]) -> Any:
        """The only field of an operation at one of the servers.

        What certainly was not carried out is asked for again, as any client would; what perhaps was needs a key for it.
        """
        client = self.clients[at % len(self.clients)]
        async with asyncio.timeout(PATIENCE * 2):
            while True:
                reply = await client.post(PATH, json={"query": query, "variables": variables})
                body = reply.json()
                if "errors" not in body:
                    (found,) = body["data"].values()
                    return found
                (error,) = body["errors"]
                extensions = error["extensions"]
                certain = extensions["code"] == "CONFLICT" or variables.get("key") is not None
                if not extensions.get("retryable") or not certain:
                    raise Refused(extensions["code"], extensions.get("argument"), error["message"])
                self.retries[extensions["code"]] += 1
                await asyncio.sleep(_PAUSE)

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
    coming = [
        mother.begin(place.folder, *words, troubles=troubles, **SETTINGS, **place.variables) for _ in range(count)
    ]
    servers: Sequence[Server] = ()
    clients: list[httpx.AsyncClient] = []
    try:
        servers = [await asyncio.to_thread(one.here) for one in coming]
        clients = [client_of(server) for server in servers]
        yield Fleet([*servers], clients)
    finally:
        for client in clients:
            await client.aclose()
        for one in coming:
            one.kill()


def client_of(server: Server) -> httpx.AsyncClient:
    """A client that has as many connections as it takes."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=server.url.removesuffix(PATH), timeout=PATIENCE, limits=limits)
