"""A real Chromium, and a real server with the example catalog to look at."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.database import Database
from graphql_api.examples.users import catalog, sample
from graphql_api.server.settings import Settings
from graphql_api.server.startup import application, operations_of
from tests.api.running import running
from tests.api.server import SECRETS
from tests.engines_report import DID_NOT_RUN

NAMES = (os.environ.get("SHARDQL_CHROMIUM", "chromium"), "chromium-browser", "google-chrome")
SAMPLE = 60

Open = Callable[[], AbstractAsyncContextManager[Database]]


@pytest.fixture
async def browser(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    """The browser; where there is none the test is skipped, and with CI=true it fails."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        missing = "scripts/chromium installs it"
        if os.environ.get("CI") == "true":
            pytest.fail(f"Chromium does not run here: {missing}.")
        request.node.user_properties.append((DID_NOT_RUN, f"Chromium: {missing}"))
        pytest.skip(f"Chromium does not run here: {missing}")
    async with async_playwright() as playwright:
        # A sandbox needs rights that containers do not have; the only pages opened are our own.
        opened = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest.fixture
async def people(tmp_path: Path) -> Open:
    """Opens a database that holds the first of the sample users and their addresses."""
    return await filled(catalog, tmp_path / "people.db", [*sample(SAMPLE)])


@pytest.fixture
def site(people: Open) -> Iterator[str]:
    """The address of a server for them, in development mode as the command line has it."""
    settings = Settings()
    with running(application(catalog, people, settings, operations_of(settings), sample(3))) as address:
        yield address


async def filled(catalog: Catalog, file: Path, records: list[Entity]) -> Open:
    """Makes a database and writes records into it."""

    def opening() -> AbstractAsyncContextManager[Database]:
        return open_catalog(catalog, f"sqlite:///{file}", secrets=SECRETS)

    async with opening() as database:
        for kind in dict.fromkeys(map(type, records)):
            assert not any(await database.put_many([record for record in records if type(record) is kind]))
    return opening
