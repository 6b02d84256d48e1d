"""Fixtures of the data page: one browser for all tests, and servers for the example and for a catalog of tasks."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from graphql_api.examples.issues import catalog as issues_catalog
from graphql_api.examples.issues import sample
from tests.browser.conftest import create_database, start_browser
from tests.browser.grid.task_catalog import TASK_CATALOG, TASKS, TEAMS
from tests.browser.grid.task_server import TaskServer, create_app, start_task_server
from tests.docs.pages import ROOT
from tests.support.loopback import serve_app
from tests.support.run_depth import depth


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_browser(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    """Start one Chromium for all tests of the data page."""
    async with start_browser(request) as browser:
        yield browser


@dataclass(frozen=True, slots=True)
class IssueSite:
    """A server of the example catalog of issues."""

    url: str
    issues: int
    """issues of its largest project"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def issue_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[IssueSite]:
    """Serve the example catalog of issues, as `shardql serve` does in development."""
    folder, issues = tmp_path_factory.mktemp("issues"), depth(quick=800, deep=100_000)
    open_database = await create_database(issues_catalog, folder / "issues.db", [*sample(issues)])
    with serve_app(create_app(issues_catalog, open_database)) as url:
        yield IssueSite(url, issues)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def task_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the teams and tasks once, and return the folder of their table."""
    folder = tmp_path_factory.mktemp("tasks")
    await create_database(TASK_CATALOG, folder / "tasks.db", [*TEAMS, *TASKS])
    return folder


@pytest_asyncio.fixture(loop_scope="session")
async def tasks(task_table: Path, tmp_path: Path) -> AsyncIterator[TaskServer]:
    """Serve a copy of the tasks, with a store and a clock that the test controls."""
    shutil.copytree(task_table, tmp_path, dirs_exist_ok=True)
    async with start_task_server(TASK_CATALOG, tmp_path, []) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests of this folder in one process, so that they share the browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("data page"))


@pytest.fixture(scope="session")
def axe() -> Path:
    """Return the script of axe, from the packages of the data page."""
    installed = subprocess.run(  # noqa: S603 - a script of this repository
        [ROOT / "scripts" / "npm-packages", "graphql_api/playground/grid", ".grid-packages"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if installed.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the packages of the data page cannot be installed: {installed.stderr[-300:]}")
        pytest.skip(f"the packages of the data page cannot be installed: {installed.stderr[-300:]}")
    return Path(installed.stdout.strip()) / "axe-core" / "axe.min.js"
