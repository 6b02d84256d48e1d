"""Fixtures for the client recipes: the example catalog on a real server, and the locked client packages."""

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
from graphql_api.examples.users import User, catalog, generate_users
from graphql_api.model.markers import IndexRef
from tests.clients.fault_switch import FaultSwitch
from tests.clients.recipes import write_recipe
from tests.docs.pages import ROOT
from tests.server.catalog_server import SECRETS, Server, start_server
from tests.support.store_doubles import FailingStore

HERE = Path(__file__).parent
USERS = 600
PREFIX = "j"
"""The condition of all lists."""
SECONDS = 180.0


def unavailable(why: str) -> NoReturn:
    """Skip the test. In continuous integration, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the recipes of docs/how-to/clients.md must run here: {why}")
    pytest.skip(f"the recipes of docs/how-to/clients.md do not run: {why}")


def tool(name: str) -> str:
    """Return the path of a program."""
    found = shutil.which(name)
    return found if found is not None else unavailable(f"there is no {name}")


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a program that must succeed, and return its output."""
    completed = subprocess.run(  # noqa: S603 - trusted programs
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]
    assert not completed.stderr, completed.stderr[-4000:]
    return completed.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a client's recipes and fault files."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def module_fault_switch(folder: Path) -> FaultSwitch:
    """The fault switch of the server."""
    return FaultSwitch(folder)


@pytest.fixture
def fault_switch(module_fault_switch: FaultSwitch) -> Iterator[FaultSwitch]:
    """The fault switch, reset after the test."""
    yield module_fault_switch
    module_fault_switch.late.unlink(missing_ok=True)
    module_fault_switch.failing.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class ExampleServer:
    """A server with sample users."""

    server: Server
    store: str

    def ids(self, index: IndexRef, **arguments: Any) -> list[str]:
        """Return the ids of all results of a search in Python."""
        return asyncio.run(self._ids(index, arguments))

    async def _ids(self, index: IndexRef, arguments: dict[str, Any]) -> list[str]:
        async with open_catalog(catalog, self.store, secrets=SECRETS) as db:
            page = await db.search(index, **arguments, limit=500)
            assert page.next_token is None
            return [user.user_id for user in page.items]


@pytest.fixture(scope="module")
def users(folder: Path, module_fault_switch: FaultSwitch) -> Iterator[ExampleServer]:
    """A server with sample users, which fails according to the fault switch."""
    store = f"sqlite:///{folder}/users.db"
    with start_server(
        catalog,
        store,
        records=list(generate_users(USERS)),
        wrap=lambda inner: FailingStore(inner, module_fault_switch.fails),
        clock=module_fault_switch.now,
    ) as server:
        yield ExampleServer(server, store)


@pytest.fixture(scope="module")
def by_first_name(users: ExampleServer) -> list[str]:
    """The expected ids of a list by first name."""
    return users.ids(User.by_first_name, prefix=PREFIX)


@pytest.fixture(scope="module")
def by_last_name(users: ExampleServer) -> list[str]:
    """The expected ids of a list by last name."""
    return users.ids(User.by_last_name, prefix=PREFIX)


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of the installed client packages."""
    return client_packages()


def client_packages() -> Path:
    """Install the client packages that are locked, if necessary, and return their folder."""
    for name in ("node", "npm"):
        tool(name)
    fetched = subprocess.run(  # noqa: S603 - a script of this repository
        [ROOT / "scripts" / "client-packages"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if fetched.returncode:
        unavailable(f"scripts/client-packages fails: {fetched.stderr[-300:]}")
    return Path(fetched.stdout.strip())


RunClient = Callable[..., Any]


@pytest.fixture(scope="module")
def run_client(packages: Path, folder: Path, users: ExampleServer) -> RunClient:
    """Return a function that runs a program of this folder with recipes, and parses its JSON output."""

    def run_program(program: str, *names: str) -> Any:
        (folder / "node_modules").symlink_to(packages)
        for name in names:
            write_recipe(name, folder, users.server.address)
        shutil.copy(HERE / program, folder)
        return json.loads(run([tool("node"), program, PREFIX], folder))

    return run_program
