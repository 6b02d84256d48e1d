"""Proxies that lose replies between clients and servers, and a client that retries until it gets a reply."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.faults.fault_proxy import FaultProxy
from tests.faults.fault_rules import random_faults
from tests.faults.fault_types import AppliedThenReset
from tests.support.loopback import TIMEOUT
from tests.write_guarantees.forked_servers import Server
from tests.write_guarantees.server_cluster import PATH, Cluster, Refused, client_to

_PAUSE_SECONDS = 0.02


@dataclass(slots=True)
class LossyClients:
    """Clients of a cluster. Their proxies reset some connections after the server has replied."""

    cluster: Cluster
    share: float
    """share of the replies that are lost"""
    kill_every: int
    """number of replies after which a server is killed"""
    random: Random
    stack: AsyncExitStack
    proxies: list[FaultProxy] = field(default_factory=list)
    """all proxies so far"""
    clients: list[httpx.AsyncClient] = field(default_factory=list)
    """by server"""
    problems: Counter[str] = field(default_factory=Counter)
    """reasons for retries"""
    reply_count: int = 0
    kills: int = 0
    kill_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def lost_replies(self) -> int:
        """The number of lost replies."""
        return sum(len(proxy.faulted) for proxy in self.proxies)

    async def connect(self, server: Server) -> httpx.AsyncClient:
        """Returns a client through a new proxy of a server."""
        proxy = await self.stack.enter_async_context(FaultProxy(int(server.address.rpartition(":")[2])))
        proxy.rule = random_faults(self.share, self.random, AppliedThenReset(), matches=lambda _: True)
        self.proxies.append(proxy)
        return await self.stack.enter_async_context(client_to(proxy.endpoint))

    async def kill(self) -> None:
        """Kills a random server in use, and connects its client to a replacement."""
        async with self.kill_lock:
            at = self.random.randrange(len(self.clients))
            self.clients[at] = await self.connect(await self.cluster.kill(at))
            self.kills += 1

    async def execute(self, query: str, variables: Mapping[str, Any]) -> Any:
        """Sends an operation to random servers until one replies, and returns its only field."""
        async with asyncio.timeout(TIMEOUT * 4):
            while True:
                try:
                    reply = await self.random.choice(self.clients).post(
                        PATH, json={"query": query, "variables": variables}
                    )
                except httpx.TransportError as problem:
                    self.problems[type(problem).__name__] += 1
                    continue
                body = reply.json()
                self.reply_count += 1
                if self.reply_count % self.kill_every == 0:
                    await self.kill()
                if "errors" not in body:
                    (found,) = body["data"].values()
                    return found
                (error,) = body["errors"]
                extensions = error["extensions"]
                if not extensions.get("retryable"):
                    raise Refused(extensions["code"], extensions.get("argument"), error["message"])
                self.problems[extensions["code"]] += 1
                await asyncio.sleep(_PAUSE_SECONDS)


@asynccontextmanager
async def open_lossy_clients(
    cluster: Cluster, random: Random, *, kill_every: int, share: float = 0.5
) -> AsyncIterator[LossyClients]:
    """Connects lossy clients to all servers. Requests must have idempotency keys."""
    async with AsyncExitStack() as stack:
        lossy_clients = LossyClients(cluster, share, kill_every, random, stack)
        lossy_clients.clients += [await lossy_clients.connect(server) for server in cluster.servers]
        yield lossy_clients
