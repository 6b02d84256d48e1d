"""Projector processes that are killed at any moment, on files that grow meanwhile."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from graphql_api import open_catalog
from graphql_api.database import Database
from graphql_api.projections.stream_items import LAST_SEQ
from tests.projections.account_projections import CATALOG
from tests.projections.event_histories import deliver
from tests.projections.read_models import check_read_model
from tests.support.run_depth import depth
from tests.support.store_doubles import all_items

ROOT = Path(__file__).parents[2]
GRAPH = "tests.projections.account_projections:GRAPH"


@contextmanager
def projector(*options: str, graph: str = GRAPH) -> Iterator[subprocess.Popen[bytes]]:
    """A process that projects events."""
    command = [sys.executable, "-m", "graphql_api.cli", "project", graph, *options, "--source", "bank"]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


async def done(database: Database) -> int:
    """The number of events that the positions have passed."""
    return sum(int(item[LAST_SEQ]) for item in await all_items(database.store) if LAST_SEQ in item)


async def until_done(database: Database, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the positions have passed a number of events, or the process has ended."""
    while process.poll() is None and await done(database) < count:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.01)


def write_lines(path: Path, lines: list[bytes]) -> None:
    """Add lines to a file."""
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in lines)


async def test_a_killed_projector_resumes(tmp_path: Path, random: Random) -> None:
    """After kill -9 at random moments, the same command applies the rest: the read model is the fold."""
    delivery = deliver(random, depth(quick=20, deep=500), depth(quick=600, deep=100_000))
    file, url = tmp_path / "events.jsonl", f"sqlite:///{tmp_path / 'events.db'}"
    write_lines(file, delivery.lines)
    total = 2 * delivery.events
    async with open_catalog(CATALOG, url) as database:
        for kill in range(1, depth(quick=2, deep=5) + 1):
            with projector(str(file), "--store", url) as process:
                await until_done(database, random.randrange(total * kill // 10, total * (kill + 1) // 10), process)
                process.kill()
        with projector(str(file), "--store", url) as process, projector(str(file), "--store", url) as other:
            outputs = [await asyncio.to_thread(one.communicate) for one in (process, other)]
        assert {process.returncode, other.returncode} <= {0, 1}, outputs
        await check_read_model(database, delivery)


async def test_a_watching_projector_follows_a_growing_file(tmp_path: Path, random: Random) -> None:
    """It applies what is added, waits for the end of a half-written line, and stops cleanly at SIGTERM."""
    delivery = deliver(random, 5, depth(quick=100, deep=5_000))
    file, url = tmp_path / "events.jsonl", f"sqlite:///{tmp_path / 'events.db'}"
    half = len(delivery.lines) // 2
    text = delivery.lines[half]
    write_lines(file, delivery.lines[:half])
    total = 2 * delivery.events
    async with open_catalog(CATALOG, url) as database:
        with projector(str(file), "--watch", "--store", url) as process:
            await until_done(database, total // 5, process)
            with file.open("ab") as growing:
                growing.write(text[:5])
            await until_done(database, total // 4, process)
            with file.open("ab") as growing:
                growing.write(text[5:] + b"\n")
            write_lines(file, delivery.lines[half + 1 :])
            await until_done(database, total, process)
            process.send_signal(signal.SIGTERM)
            output, errors = await asyncio.to_thread(process.communicate)
        assert process.returncode == 1, (output, errors)
        assert b"dead letter" in output
        await check_read_model(database, delivery)


async def test_a_watched_file_may_be_replaced(tmp_path: Path, random: Random) -> None:
    """Another file under the same name is read from its beginning, and what was applied is skipped."""
    delivery = deliver(random, 3, 60)
    file, url = tmp_path / "events.jsonl", f"sqlite:///{tmp_path / 'events.db'}"
    write_lines(file, delivery.lines[: len(delivery.lines) // 2])
    async with open_catalog(CATALOG, url) as database:
        with projector(str(file), "--watch", "--store", url) as process:
            await until_done(database, 10, process)
            write_lines(tmp_path / "new.jsonl", delivery.lines)
            (tmp_path / "new.jsonl").replace(file)
            await until_done(database, 2 * delivery.events, process)
            process.send_signal(signal.SIGINT)
            await asyncio.to_thread(process.communicate)
        await check_read_model(database, delivery)
