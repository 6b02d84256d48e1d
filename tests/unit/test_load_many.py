"""Many users in one file: loading takes flat memory, and a page costs the same wherever it lies."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import graphql_api
from graphql_api.examples.users import User, catalog
from graphql_api.opening import open_catalog

# `resource.getrusage` will not do: a new process starts with the peak of the one that started it.
STATUS = Path("/proc/self/status")
pytestmark = pytest.mark.skipif(not STATUS.exists(), reason="peak memory is told as Linux tells it")

USERS = "graphql_api.examples.users:catalog"
MEASURED = """
import sys
from pathlib import Path
from graphql_api.storage.engines.sqlite import database_file
from graphql_api.cli import app
connect = database_file._connect
database_file._connect = lambda path, patience, cache_kib: connect(path, patience, 2048)
app(sys.argv[1:], standalone_mode=False)
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
"""runs a command and prints its peak memory; page caches, which fill up to a fixed size, are kept small"""


def python(*words: str, directory: Path, output: Path) -> None:
    """Runs a Python in a process of its own; what it prints goes to a file."""
    environment = {**os.environ, "PYTHONPATH": str(Path(graphql_api.__file__).parents[1])}
    with output.open("wb") as printed:
        command = [sys.executable, *words]
        subprocess.run(command, cwd=directory, env=environment, check=True, stdout=printed)  # noqa: S603 - our own


def load_users(directory: Path, count: int) -> int:
    """Loads so many users from a file into `<count>.db`; the peak memory of the process that did it, in KiB."""
    lines, output = directory / f"{count}.jsonl", directory / f"{count}.out"
    python("-m", "graphql_api.cli", "sample", USERS, "User", "--count", str(count), directory=directory, output=lines)
    words = ("load", USERS, "User", lines.name, "--store", f"sqlite:///{count}.db")
    python("-c", MEASURED, *words, directory=directory, output=output)
    *_, told, peak = output.read_text().splitlines()
    assert f"{count:,} records of User written" in told
    return int(peak)


async def walk(url: str, limit: int) -> tuple[list[tuple[int, int]], int]:
    """Every page by first name: what each full one read, and in how many rounds; and how many records there were."""
    costs: list[tuple[int, int]] = []
    found, token, last = 0, None, ("", "")
    async with open_catalog(catalog, url) as db:
        while True:
            page = await db.search(User.by_first_name, limit=limit, next_token=token)
            names = [(user.first_name_canonical, user.last_name_canonical) for user in page.items]
            assert all(one <= other for one, other in pairwise([last, *names]))
            found, last, token = found + len(names), names[-1], page.next_token
            if token is None:
                return costs, found
            assert len(names) == limit
            costs.append((page.explain["read"]["recordsRead"], page.explain["read"]["rounds"]))


async def check(directory: Path, few: int, many: int, limit: int) -> None:
    """Many users take the memory of few, and the last pages of their walk cost what the first ones do."""
    small, large = (load_users(directory, count) for count in (few, many))
    assert large < 1.2 * small, (small, large)
    costs, found = await walk(f"sqlite:///{directory}/{many}.db", limit)
    assert found == many
    assert len(costs) == -(-many // limit) - 1
    assert set(costs) == {(limit + 1, 1)}


async def test_ten_thousand_users(tmp_path: Path) -> None:
    """Ten thousand users load in the memory of one thousand, and each of their pages costs the same."""
    await check(tmp_path, few=1_000, many=10_000, limit=500)


@pytest.mark.deep
async def test_a_million_users(tmp_path: Path) -> None:
    """A million users load in the memory of twenty thousand, and each of their pages costs the same."""
    await check(tmp_path, few=20_000, many=1_000_000, limit=100)
