"""The example catalog on a real server, the clients that are locked here, and what they must find."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from graphql_api import open_catalog
from graphql_api.examples.user_samples import generate_users
from graphql_api.examples.users import User, catalog
from graphql_api.model.markers import IndexRef
from tests.api.server import SECRETS, Server, served
from tests.clients.recipes import write_recipe
from tests.clients.trouble import Trouble
from tests.docs.pages import ROOT
from tests.stores import FailingStore

HERE = Path(__file__).parent
USERS = 600
PREFIX = "j"
"""what all lists are asked for"""
SECONDS = 180.0


def unavailable(why: str) -> NoReturn:
    """Skips where recipes cannot be run; fails where they must be."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the recipes of docs/clients.md must run here: {why}")
    pytest.skip(f"the recipes of docs/clients.md do not run: {why}")


def tool(name: str) -> str:
    """The path of a program."""
    found = shutil.which(name)
    return found if found is not None else unavailable(f"there is no {name}")


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """What a program prints; it must succeed."""
    ran = subprocess.run(  # noqa: S603 - programs of ours
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert not ran.stderr, ran.stderr[-4000:]
    return ran.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a client's recipes and its troubles are."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def troubles(folder: Path) -> Trouble:
    """What may go wrong with the server."""
    return Trouble(folder)


@pytest.fixture
def trouble(troubles: Trouble) -> Iterator[Trouble]:
    """The same, over when the test is."""
    yield troubles
    troubles.late.unlink(missing_ok=True)
    troubles.failing.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Served:
    """A server with sample users."""

    server: Server
    store: str

    def ids(self, index: IndexRef, **arguments: Any) -> list[str]:
        """What the Python interface finds, all of it."""
        return asyncio.run(self._ids(index, arguments))

    async def _ids(self, index: IndexRef, arguments: dict[str, Any]) -> list[str]:
        async with open_catalog(catalog, self.store, secrets=SECRETS) as db:
            page = await db.search(index, **arguments, limit=500)
            assert page.next_token is None
            return [user.user_id for user in page.items]


@pytest.fixture(scope="module")
def users(folder: Path, troubles: Trouble) -> Iterator[Served]:
    """A server with sample users, which files of the folder get into trouble."""
    store = f"sqlite:///{folder}/users.db"
    with served(
        catalog,
        store,
        records=list(generate_users(USERS)),
        wrap=lambda inner: FailingStore(inner, troubles.fails),
        clock=troubles.now,
    ) as server:
        yield Served(server, store)


@pytest.fixture(scope="module")
def by_first_name(users: Served) -> list[str]:
    """The ids that a list by first name must hold."""
    return users.ids(User.by_first_name, prefix=PREFIX)


@pytest.fixture(scope="module")
def by_last_name(users: Served) -> list[str]:
    """The ids that a list by last name must hold."""
    return users.ids(User.by_last_name, prefix=PREFIX)


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of the packages of clients."""
    for name in ("node", "npm"):
        tool(name)
    fetched = subprocess.run(  # noqa: S603 - our own script
        [ROOT / "scripts" / "client-packages"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if fetched.returncode:
        unavailable(f"scripts/client-packages fails: {fetched.stderr[-300:]}")
    return Path(fetched.stdout.strip())


Play = Callable[..., Any]


@pytest.fixture(scope="module")
def play(packages: Path, folder: Path, users: Served) -> Play:
    """Runs a program of this folder beside recipes, and reads the JSON that it prints."""

    def played(program: str, *names: str) -> Any:
        (folder / "node_modules").symlink_to(packages)
        for name in names:
            write_recipe(name, folder, users.server.address)
        shutil.copy(HERE / program, folder)
        return json.loads(run([tool("node"), program, PREFIX], folder))

    return played
