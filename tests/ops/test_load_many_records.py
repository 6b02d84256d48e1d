"""Loading large files: memory use is constant, and the cost of a page does not depend on its position."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import graphql_api
from graphql_api.connection import open_catalog
from graphql_api.examples.users import User, catalog

# `resource.getrusage` is unsuitable: a new process inherits the peak of its parent.
STATUS = Path("/proc/self/status")
pytestmark = pytest.mark.skipif(not STATUS.exists(), reason="peak memory is read from /proc")

USERS = "graphql_api.examples.users:catalog"
MEASURED = """
import sys
from pathlib import Path
from graphql_api.storage.engines.sqlite import database_file
from graphql_api.cli import app
open_connection = database_file._open
database_file._open = lambda path, access, patience, cache_kib: open_connection(path, access, patience, 2048)
app(sys.argv[1:], standalone_mode=False)
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
"""runs a command and prints its peak memory; page caches, which grow to a fixed size, are kept small"""


def python(*words: str, directory: Path, output: Path) -> None:
    """Runs Python in a separate process, with its output in a file."""
    environment = {**os.environ, "PYTHONPATH": str(Path(graphql_api.__file__).parents[1])}
    with output.open("wb") as printed:
        command = [sys.executable, *words]
        subprocess.run(command, cwd=directory, env=environment, check=True, stdout=printed)  # noqa: S603 - our own


def load_users(directory: Path, count: int) -> int:
    """Loads the given number of users into `<count>.db`, and returns the peak memory of the process in KiB."""
    lines, output = directory / f"{count}.jsonl", directory / f"{count}.out"
    python("-m", "graphql_api.cli", "sample", USERS, "User", "--count", str(count), directory=directory, output=lines)
    words = ("load", USERS, "User", lines.name, "--store", f"sqlite:///{count}.db")
    python("-c", MEASURED, *words, directory=directory, output=output)
    *_, summary, peak = output.read_text().splitlines()
    assert f"{count:,} records of User written" in summary
    return int(peak)


async def page_costs(url: str, limit: int) -> tuple[list[tuple[int, int]], int]:
    """Reads all pages by first name. Returns records read and rounds of each full page, and the number of records."""
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


async def check_load(directory: Path, few: int, many: int, limit: int) -> None:
    """Peak memory and the cost of each page are the same for few and for many users."""
    small, large = (load_users(directory, count) for count in (few, many))
    assert large < 1.2 * small, (small, large)
    costs, found = await page_costs(f"sqlite:///{directory}/{many}.db", limit)
    assert found == many
    assert len(costs) == -(-many // limit) - 1
    assert set(costs) == {(limit + 1, 1)}


async def test_ten_thousand_users(tmp_path: Path) -> None:
    """Loading 10,000 users needs the memory of 1,000, and each page has the same cost."""
    await check_load(tmp_path, few=1_000, many=10_000, limit=500)


@pytest.mark.deep
async def test_a_million_users(tmp_path: Path) -> None:
    """Loading 1,000,000 users needs the memory of 20,000, and each page has the same cost."""
    await check_load(tmp_path, few=20_000, many=1_000_000, limit=100)
