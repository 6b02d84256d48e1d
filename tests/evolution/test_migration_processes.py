"""Migrations as processes that are killed and stopped, together with servers of two releases and their clients."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from graphql_api import Catalog, open_catalog
from graphql_api.codecs import KeyRange
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.storage import Put, RangeRead, RowPage
from graphql_api.storage.engines.sqlite import open_sqlite
from tests.evolution.migration_clients import Clients
from tests.evolution.migration_process import END, NEWER, OLDER, PAGE
from tests.evolution.migration_support import bookkeeping, stored_items
from tests.server.server_processes import environment
from tests.support.dynamodb_servers import ROOT
from tests.support.loopback import TIMEOUT
from tests.support.run_depth import depth

SECRETS = Secrets.generate()
READY = {"NOT_READY", "CATALOG_BEHIND"}


@asynccontextmanager
async def opened(folder: Path, catalog: Catalog) -> AsyncIterator[Database]:
    """Opens the table as a server that does not migrate it."""
    async with open_catalog(catalog, url_in(folder), secrets=SECRETS, migrate=False) as db:
        yield db


def url_in(folder: Path) -> str:
    """The URL of the table in a folder."""
    return f"sqlite:///{folder}/table.db"


async def start_migration(url: str, page: int) -> Process:
    """Starts a process that migrates the table to the newer release."""
    words = ("-m", "tests.evolution.migration_process", url, f"{page}")
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=PIPE, stderr=PIPE, cwd=ROOT, env=environment()
    )


def signal_to(process: Process, number: signal.Signals) -> None:
    """Sends a signal to a process that may have ended. `Process.send_signal` would lose its exit code then."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


async def read_line(process: Process) -> str:
    """The next line of a process; empty at its end."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 4 * TIMEOUT)).decode().strip()


async def fresh_items(folder: Path, clients: Clients) -> list[dict[str, Any]]:
    """The items of a new table that the newer release has written."""
    async with opened(folder, NEWER) as db:
        model = db.catalog.entity("User").model
        await db.put_many([model(**clients.row(user_id)) for user_id in clients.order])
    return await stored_items(folder)


def sorted_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items in the order of their keys."""
    return sorted(items, key=lambda item: (item["hashKey"], item["rangeKey"]))


async def test_a_killed_migration_beside_clients(tmp_path: Path, random: Random) -> None:
    """A migration that is killed and stopped again and again ends, redoes one page per kill, and no answer is wrong."""
    count, page = depth(quick=800, deep=30_000), 40
    async with opened(tmp_path, OLDER) as old:
        clients = Clients(old, old, random, towns=count // 40)
        await clients.load(count)
        async with opened(tmp_path, NEWER) as new:
            clients.new = new
            task = asyncio.create_task(clients.run())
            pages = kills = 0
            has_ended = False
            while not has_ended:
                process = await start_migration(url_in(tmp_path), page)
                last = random.randrange(1, 15) if kills < depth(quick=2, deep=30) else -1
                read = 0
                while not has_ended and read != last and (line := await read_line(process)):
                    read += line == PAGE
                    has_ended = line == END
                    if random.random() < 0.1 and not has_ended:
                        signal_to(process, signal.SIGSTOP)
                        await asyncio.sleep(0.05)
                        signal_to(process, signal.SIGCONT)
                    if task.done():
                        task.result()
                if read == last:
                    await asyncio.sleep(random.uniform(0, 0.01))
                    signal_to(process, signal.SIGKILL)
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
    assert sorted_items(await stored_items(tmp_path)) == sorted_items(await fresh_items(fresh, clients))


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


async def test_many_users(tmp_path: Path, random: Random) -> None:
    """Three indexes and a unique constraint are added to a million users: no answer is wrong, and memory is flat."""
    count = depth(quick=300, deep=1_000_000)
    async with opened(tmp_path, OLDER) as old, opened(tmp_path, NEWER) as new:
        clients = Clients(old, new, random, towns=count // 40)
        await clients.load(count)
        task = asyncio.create_task(clients.run())
        process = await start_migration(url_in(tmp_path), depth(quick=20, deep=1_000))
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
        assert clients.refusals
        answers = clients.answers
        await clients.search()
        await clients.walk("by_mail", new)
        assert clients.answers == answers + 2
        assert max(sizes) - max(sizes[: len(sizes) // 10]) < 8 * 1024


def resident_kib(pid: int) -> int:
    """The memory of a process."""
    (found,) = re.findall(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found)
