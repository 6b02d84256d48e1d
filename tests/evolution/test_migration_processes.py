"""Migrations as processes that are killed and stopped, beside servers of two releases and their clients."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from graphql_api import Catalog, open_catalog
from graphql_api.codecs import KeyRange
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.errors import NotReady
from graphql_api.storage import Put, RangeRead, RowPage
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.evolution.migration_support import bookkeeping, stored_items
from tests.evolution.rolling_releases import END, NEWER, OLDER, PAGE, values_of
from tests.server.server_processes import environment
from tests.support.dynamodb_servers import ROOT
from tests.support.loopback import TIMEOUT
from tests.support.run_depth import depth
from tests.write_guarantees.forked_servers import NO_FAULTS, Server, ServerForker, start_forker
from tests.write_guarantees.server_cluster import PATH, SETTINGS, client_of

SECRETS = Secrets.generate()
READY = {"NOT_READY", "CATALOG_BEHIND"}


@asynccontextmanager
async def opened(folder: Path, catalog: Catalog) -> AsyncIterator[Database]:
    """Opens the table as a server that does not migrate it."""
    url = f"sqlite:///{folder}/table.db"
    async with open_catalog(catalog, url, secrets=SECRETS, migrate=False) as db:
        yield db


async def start_migration(folder: Path, page: int) -> Process:
    """Starts a process that migrates the table to the newer release."""
    words = ("-m", "tests.evolution.rolling_releases", f"sqlite:///{folder}/table.db", f"{page}")
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=PIPE, stderr=PIPE, cwd=ROOT, env=environment()
    )


async def read_line(process: Process) -> str:
    """The next line of a process; empty at its end."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 4 * TIMEOUT)).decode().strip()


@dataclass
class Clients:
    """Clients of both releases, who know what is stored. They send one request after the other."""

    old: Database
    new: Database
    random: Random
    towns: int
    users: dict[str, dict[str, str]] = field(default_factory=dict)
    answers: int = 0
    refusals: int = 0
    is_over: bool = False

    async def load(self, count: int) -> None:
        """Stores users through the older release."""
        model = self.old.catalog.entity("User").model
        for start in range(0, count, 5_000):
            rows = [values_of(number, number % self.towns) for number in range(start, min(count, start + 5_000))]
            await self.old.put_many([model(**row) for row in rows])
            self.users |= {row["user_id"]: row for row in rows}

    async def run(self) -> None:
        """Writes and searches until the migration is over."""
        while not self.is_over:
            await self.write()
            await self.search()

    async def write(self) -> None:
        """Lets one of the releases write a user."""
        db, number = self.random.choice([self.old, self.new]), self.random.randrange(len(self.users) + 20)
        row = values_of(number, self.random.randrange(self.towns))
        model = db.catalog.entity("User").model
        if self.random.random() < 0.5 and row["user_id"] in self.users:
            await db.update(model, row["user_id"], town=row["town"])
            self.users[row["user_id"]] = {**self.users[row["user_id"]], "town": row["town"]}
        else:
            await db.put(model(**row))
            self.users[row["user_id"]] = row

    async def search(self) -> None:
        """Compares a search by a new index with what is stored."""
        town = f"t{self.random.randrange(self.towns):05}"
        user: Any = self.new.catalog.entity("User").model
        index = self.random.choice([user.by_town, user.by_town_and_id])
        try:
            page = await self.new.search(index, town=town, limit=100)
        except NotReady:
            self.refusals += 1
            return
        assert page.next_token is None, "a town has fewer users"
        self.answers += 1
        found = [record.user_id for record in page.items]
        assert found == sorted(key for key, row in self.users.items() if row["town"] == town)


async def fresh_items(folder: Path, users: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """The items of a new table that the newer release has written."""
    async with opened(folder, NEWER) as db:
        model = db.catalog.entity("User").model
        await db.put_many([model(**row) for row in users.values()])
    return await stored_items(folder)


def sorted_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items in the order of their keys."""
    return sorted(items, key=lambda item: (item["hashKey"], item["rangeKey"]))


async def test_a_killed_migration_beside_clients(tmp_path: Path, random: Random) -> None:
    """A migration that is killed and stopped again and again ends, redoes one page per kill, and no answer is wrong."""
    count, page = depth(quick=1_500, deep=30_000), 50
    async with opened(tmp_path, OLDER) as old:
        clients = Clients(old, old, random, towns=count // 40)
        await clients.load(count)
        async with opened(tmp_path, NEWER) as new:
            clients.new = new
            task = asyncio.create_task(clients.run())
            pages = kills = 0
            has_ended = False
            while not has_ended:
                process = await start_migration(tmp_path, page)
                last = random.randrange(1, 15) if kills < depth(quick=3, deep=30) else -1
                read = 0
                while not has_ended and read != last and (line := await read_line(process)):
                    read += line == PAGE
                    has_ended = line == END
                    if random.random() < 0.1:
                        process.send_signal(signal.SIGSTOP)
                        await asyncio.sleep(0.05)
                        process.send_signal(signal.SIGCONT)
                    if task.done():
                        task.result()
                if read == last:
                    await asyncio.sleep(random.uniform(0, 0.01))
                    with suppress(ProcessLookupError):
                        process.kill()
                    kills += 1
                _, log = await process.communicate()
                assert process.returncode in (0, -signal.SIGKILL), log.decode()
                pages += read
            clients.is_over = True
            await task
            answers = clients.answers
            for _ in range(20):
                await clients.search()
            assert clients.answers == answers + 20
            assert clients.refusals
    stored = len(await stored_items(tmp_path))
    assert pages <= stored // page + 2 + kills
    assert await bookkeeping(tmp_path) == ["table#epoch", "table#meta"]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert sorted_items(await stored_items(tmp_path)) == sorted_items(await fresh_items(fresh, clients.users))


async def test_an_index_that_was_removed_and_added_again(tmp_path: Path) -> None:
    """A server that was running while an index was removed and added again reads the new index, not the old one."""
    definition = NEWER.table_definition()
    first, second = definition.indexes[:2]
    server, other = await open_sqlite(tmp_path / "table.db"), await open_sqlite(tmp_path / "table.db")
    await other.ensure_table(replace(definition, indexes=(first, second)))
    item = {"hashKey": "user!", "rangeKey": "userId#1", second.hash_attribute: "user!", second.range_attribute: "x"}
    await other.write([Put(item)])
    read = RangeRead(second.name, "user!", 0, KeyRange(), 10)
    for _ in range(2):
        (page,) = await server.read_ranges([read], want=10)
        assert isinstance(page, RowPage)
        assert [row.value for row in page.rows] == ["x"]
        await other.drop_index(first.name)
        await other.drop_index(second.name)
        await other.ensure_table(replace(definition, indexes=(second, first)))
    await server.close()
    await other.close()


@pytest.mark.deep
async def test_a_million_users(tmp_path: Path, random: Random) -> None:
    """Three indexes and a unique constraint are added to a million users: no answer is wrong, and memory is flat."""
    count = 1_000_000
    async with opened(tmp_path, OLDER) as old, opened(tmp_path, NEWER) as new:
        clients = Clients(old, new, random, towns=count // 40)
        await clients.load(count)
        task = asyncio.create_task(clients.run())
        process = await start_migration(tmp_path, 1_000)
        sizes: list[int] = []
        while line := await read_line(process):
            if line == PAGE:
                sizes.append(resident_kib(process.pid))
            if task.done():
                task.result()
        _, log = await process.communicate()
        assert process.returncode == 0, log.decode()
        clients.is_over = True
        await task
        await clients.search()
        assert clients.answers
        assert max(sizes) - max(sizes[: len(sizes) // 10]) < 8 * 1024


def resident_kib(pid: int) -> int:
    """The memory of a process."""
    (found,) = re.findall(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found)


# --- two releases side by side ---------------------------------------------------------------------------------


@dataclass
class Rollout:
    """Servers of two releases, and clients that send requests to those that run."""

    folder: Path
    forker: ServerForker
    servers: dict[str, Server] = field(default_factory=dict)
    clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    refusals: set[str] = field(default_factory=set)
    requests: int = 0

    async def start(self, release: str) -> None:
        """Starts the server of a release."""
        address = f"tests.evolution.rolling_releases:{release}"
        arguments = (address, "--production", "--no-migrate", "--store", f"sqlite:///{self.folder}/table.db")
        starting = self.forker.start(self.folder, *arguments, faults=NO_FAULTS, **SETTINGS)
        self.servers[release] = await asyncio.to_thread(starting.wait_until_ready)
        self.clients[release] = client_of(self.servers[release])

    async def stop(self, release: str) -> None:
        """Stops the server of a release, after its requests."""
        await self.clients.pop(release).aclose()
        await asyncio.to_thread(self.servers.pop(release).kill)

    async def execute(self, release: str, query: str, **variables: Any) -> Any:
        """Sends a request. Returns its only field, or None if its element is not ready."""
        reply = await self.clients[release].post(PATH, json={"query": query, "variables": variables})
        body = reply.json()
        self.requests += 1
        if "errors" in body:
            codes = {error["extensions"]["code"] for error in body["errors"]}
            assert codes <= READY, body
            self.refusals |= codes
            return None
        (found,) = body["data"].values()
        return found

    async def load(self, random: Random, count: int) -> None:
        """Sends requests to all servers that run."""
        for _ in range(count):
            for release in [*self.clients]:
                row = values_of(random.randrange(40), random.randrange(3))
                own = {"userId": row["user_id"], **{name: row[name] for name in ("name", "town", "email")}}
                own |= {"note": "kept"} if release == "NEWER" else {}
                query = "mutation ($input: PutUserInput!) { putUser(input: $input) { user { userId } } }"
                await self.execute(release, query, input=own)
                found = await self.execute(release, '{ userByName(prefix: "n") { items { userId town } } }')
                assert found is not None, "the index of both releases is ready"
                if release == "NEWER":
                    query = "query ($town: String!) { userByTown(town: $town, limit: 50) { items { userId town } } }"
                    found = await self.execute(release, query, town=row["town"])
                    towns = {one["town"] for one in ([] if found is None else found["items"])}
                    assert found is None or towns == {row["town"]}


async def test_a_rolling_deploy_forward_and_back(tmp_path: Path, random: Random) -> None:
    """While a release is rolled out, migrated and rolled back, requests fail with NOT_READY only; nothing is lost."""
    count = depth(quick=3, deep=100)
    with start_forker() as forker:
        rollout = Rollout(tmp_path, forker)
        async with opened(tmp_path, OLDER):
            pass
        await rollout.start("OLDER")
        await rollout.load(random, count)
        await rollout.start("NEWER")
        await rollout.load(random, count)
        assert rollout.refusals == {"NOT_READY"}
        process = await start_migration(tmp_path, 10)
        load = asyncio.create_task(rollout.load(random, count))
        _, log = await process.communicate()
        assert process.returncode == 0, log.decode()
        await load
        query = "query ($town: String!) { userByTown(town: $town) { items { userId } } }"
        assert await rollout.execute("NEWER", query, town="t00001") is not None
        noted = values_of(1, 1)
        own = {"userId": noted["user_id"], "name": "n", "town": "t00001", "email": noted["email"], "note": "kept"}
        put = "mutation ($input: PutUserInput!) { putUser(input: $input) { user { userId } } }"
        await rollout.execute("NEWER", put, input=own)
        await rollout.stop("NEWER")
        rollout.refusals.clear()
        await rollout.load(random, count)
        await rollout.execute("OLDER", put, input={name: value for name, value in own.items() if name != "note"})
        os.kill(rollout.servers["OLDER"].pid, signal.SIGSTOP)
        await asyncio.sleep(0.1)
        os.kill(rollout.servers["OLDER"].pid, signal.SIGCONT)
        await rollout.start("NEWER")
        read = "query ($id: ID!) { user(id: $id) { note town } }"
        assert await rollout.execute("NEWER", read, id=noted["user_id"]) == {"note": "kept", "town": "t00001"}
        await rollout.stop("OLDER")
        await rollout.load(random, count)
        assert rollout.refusals == set()
        await rollout.stop("NEWER")
