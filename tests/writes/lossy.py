"""A line to each server that loses answers, and a client that asks until it hears one."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.api.running import PATIENCE
from tests.faults.faults import AppliedThenReset
from tests.faults.proxy import FaultProxy
from tests.faults.rules import now_and_then
from tests.writes.fleet import PATH, Fleet, Refused, client_to
from tests.writes.servers import Server

_PAUSE = 0.02


@dataclass(slots=True)
class Lines:
    """Ways to the servers of a fleet, each over a proxy that lets the server answer and then breaks the connection."""

    fleet: Fleet
    share: float
    """of the answers that are lost"""
    kill_every: int
    """after so many answers a server is killed"""
    random: Random
    stack: AsyncExitStack
    proxies: list[FaultProxy] = field(default_factory=list)
    """all that there were"""
    clients: list[httpx.AsyncClient] = field(default_factory=list)
    """by server"""
    problems: Counter[str] = field(default_factory=Counter)
    """why something was asked again"""
    answers: int = 0
    kills: int = 0
    killing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def lost(self) -> int:
        """How many answers were lost by now."""
        return sum(len(proxy.spoiled) for proxy in self.proxies)

    async def lead_to(self, server: Server) -> httpx.AsyncClient:
        """A client at the far end of a line."""
        proxy = await self.stack.enter_async_context(FaultProxy(int(server.address.rpartition(":")[2])))
        proxy.rule = now_and_then(self.share, self.random, AppliedThenReset(), which=lambda _: True)
        self.proxies.append(proxy)
        return await self.stack.enter_async_context(client_to(proxy.endpoint))

    async def kill(self) -> None:
        """Ends one of the servers while it is asked; its line leads to another one in its place."""
        async with self.killing:
            at = self.random.randrange(len(self.clients))
            self.clients[at] = await self.lead_to(await self.fleet.kill(at))
            self.kills += 1

    async def ask(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The only field of an operation, asked at one server or another until there is an answer."""
        async with asyncio.timeout(PATIENCE * 4):
            while True:
                try:
                    reply = await self.random.choice(self.clients).post(
                        PATH, json={"query": query, "variables": variables}
                    )
                except httpx.TransportError as problem:
                    self.problems[type(problem).__name__] += 1
                    continue
                body = reply.json()
                self.answers += 1
                if self.answers % self.kill_every == 0:
                    await self.kill()
                if "errors" not in body:
                    (found,) = body["data"].values()
                    return found
                (error,) = body["errors"]
                extensions = error["extensions"]
                if not extensions.get("retryable"):
                    raise Refused(extensions["code"], extensions.get("argument"), error["message"])
                self.problems[extensions["code"]] += 1
                await asyncio.sleep(_PAUSE)


@asynccontextmanager
async def lossy(fleet: Fleet, random: Random, *, kill_every: int, share: float = 0.5) -> AsyncIterator[Lines]:
    """Lines to all servers; requests have to come under idempotency keys."""
    async with AsyncExitStack() as stack:
        lines = Lines(fleet, share, kill_every, random, stack)
        lines.clients += [await lines.lead_to(server) for server in fleet.servers]
        yield lines
