"""Releases are rolled out and back while clients send requests, which fail only while something is built for them."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import open_catalog
from graphql_api.connection import Secrets
from tests.evolution.rollout import Client, Rollout
from tests.evolution.rollout_releases import OLDER
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server
from tests.support.run_depth import depth
from tests.write_guarantees.forked_servers import start_forker

LEASE, MARGIN, LIFE = 5.0, 0.1, 0.2
VARIABLES = {
    **CREDENTIALS,
    "SHARDQL_LEASE_MARGIN_SECONDS": f"{MARGIN}",
    "SHARDQL_REQUEST_LIFE_SECONDS": f"{LIFE}",
}
CLIENTS, PAUSE = 4, 0.01


class Deployment:
    """A rollout with its clients."""

    def __init__(self, rollout: Rollout, random: Random) -> None:
        self.rollout = rollout
        self.clients = [Client(rollout, number, random) for number in range(CLIENTS)]

    async def load(self, step: Coroutine[Any, Any, None] | None = None) -> set[tuple[str, str]]:
        """Lets all clients send some requests, and more until a step of the rollout is done. Returns the errors."""
        self.rollout.refusals.clear()
        task = None if step is None else asyncio.create_task(step)
        await asyncio.gather(*(self._load(client, task) for client in self.clients))
        if task is not None:
            await task
        return {*self.rollout.refusals}

    async def _load(self, client: Client, task: "asyncio.Task[None] | None") -> None:
        await client.act_in_all_ways()
        for _ in range(depth(quick=0, deep=200)):
            await client.act()
        while task is not None and not task.done():
            await client.act()
            await asyncio.sleep(PAUSE)

    async def run(self) -> None:
        """Rolls the newer release out, back, out again, migrates, and rolls it out and back once more."""
        rollout, not_ready = self.rollout, {("NEWER", "NOT_READY")}
        refused = {("OLDER", "CATALOG_BEHIND"), ("OLDER", "NOT_READY")}
        """of tags only: the older release lacks the new function"""
        await rollout.start("OLDER")
        assert await self.load() == set()
        assert await self.load(rollout.start("NEWER")) <= not_ready
        assert await self.load() == not_ready, "searches by town, and perhaps notes"
        assert await self.load(rollout.stop("NEWER")) <= not_ready
        assert await self.load() == set(), "the rollback of what is announced"
        assert await self.load(rollout.start("NEWER")) <= not_ready
        assert await self.load(rollout.migrate()) <= not_ready | refused
        for client in self.clients:
            client.most_users *= 2
        assert await self.load() <= refused
        assert await self.load(rollout.stop("NEWER")) <= refused, "the rollback of what is built"
        assert await self.load(rollout.start("NEWER")) <= refused
        assert await self.load(rollout.stop("OLDER")) <= refused
        for client in self.clients:
            client.answers.clear()
        assert await self.load() == set()
        await rollout.stop("NEWER")
        found = {name for client in self.clients for _, name in client.answers}
        assert found >= {"_put_user", "_read_user", "_find_town", "_put_tag", "_find_tags"}
        assert any(user["note"] is not None for client in self.clients for user in client.users.values())


async def test_a_rolling_deploy_forward_and_back(tmp_path: Path, random: Random) -> None:
    """On SQLite, requests fail only with NOT_READY while what they need is built, and no property is lost."""
    url = f"sqlite:///{tmp_path}/table.db"
    async with open_catalog(OLDER, url, secrets=Secrets.generate()):
        pass
    with start_forker() as forker:
        await Deployment(Rollout(tmp_path, url, forker), random).run()


@pytest.mark.deep
async def test_a_rolling_deploy_with_leases(
    dynamodb: Server, tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On DynamoDB Local, requests fail only with NOT_READY while what they need is built, and no property is lost."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    patient = "deadline=60&connect_seconds=10&read_seconds=30&table_pause=0.2"
    url = f"dynamodb://rollout-{uuid4().hex}?endpoint={dynamodb.endpoint}&region={REGION}&{patient}"
    secrets = Secrets.generate()
    async with open_catalog(OLDER, url, secrets=secrets, create_table=True, lease_seconds=LEASE):
        pass
    with start_forker() as forker:
        await Deployment(Rollout(tmp_path, url, forker, VARIABLES), random).run()
