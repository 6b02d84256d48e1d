"""Fixtures: Chromium, and a server with the example catalog."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.database import Database
from graphql_api.examples.users import catalog, sample
from graphql_api.server.app import create_application
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings
from tests.server.catalog_server import SECRETS
from tests.support.engines_report import DID_NOT_RUN
from tests.support.loopback import serve_app

CHROMIUM_COMMANDS = (os.environ.get("SHARDQL_CHROMIUM", "chromium"), "chromium-browser", "google-chrome")
SAMPLE = 60
expect.set_options(timeout=30_000)  # milliseconds: a page on a busy machine may need more than the usual five seconds

DatabaseOpener = Callable[[], AbstractAsyncContextManager[Database]]


@pytest.fixture
async def browser(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    """Start Chromium. If it is not installed, skip the test, or fail it if CI=true."""
    async with start_browser(request) as browser:
        yield browser


@asynccontextmanager
async def start_browser(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    """Start Chromium for a test, or for several tests that share it."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM_COMMANDS)), None)
    if chromium is None:
        missing = "scripts/chromium installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(f"Chromium does not run here: {missing}.")
        if isinstance(request.node, pytest.Item):
            request.node.user_properties.append((DID_NOT_RUN, f"Chromium: {missing}"))
        pytest.skip(f"Chromium does not run here: {missing}")
    async with async_playwright() as playwright:
        # Containers lack the privileges for a sandbox. The tests open only pages of this project.
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def users_database(tmp_path: Path) -> DatabaseOpener:
    """Return a function that opens a database with sample users and their email addresses."""
    return await create_database(catalog, tmp_path / "people.db", [*sample(SAMPLE)])


@pytest.fixture
def site(users_database: DatabaseOpener) -> Iterator[str]:
    """Return the URL of a server for them, in development mode and with default settings."""
    settings = Settings()
    with serve_app(
        create_application(catalog, users_database, settings, Instrumentation(settings), sample(3))
    ) as address:
        yield address


async def create_database(catalog: Catalog, file: Path, records: list[Entity]) -> DatabaseOpener:
    """Create a database with these records. Return a function that opens it."""

    def open_database() -> AbstractAsyncContextManager[Database]:
        return open_catalog(catalog, f"sqlite:///{file}", secrets=SECRETS)

    async with open_database() as database:
        for kind in dict.fromkeys(map(type, records)):
            assert not any(await database.put_many([record for record in records if type(record) is kind]))
    return open_database
