"""A server for tests of the data page, whose shards, clock and credentials a test controls."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.database import Database
from graphql_api.server.app import create_application
from graphql_api.server.auth.bearer_tokens import mint_token
from graphql_api.server.auth.principals import Identity
from graphql_api.server.observability.instrumentation import Instrumentation
from graphql_api.server.settings import Settings, read_settings
from graphql_api.storage.values import RangeRead
from tests.browser.conftest import DatabaseOpener
from tests.server.catalog_server import SECRETS
from tests.support.loopback import serve_app
from tests.support.store_doubles import FailingStore


def create_app(catalog: Catalog, open_database: DatabaseOpener, settings: Settings | None = None) -> Starlette:
    """Create an application in development, whose tokens tests can mint."""
    settings = settings or Settings()
    return create_application(catalog, open_database, settings, Instrumentation(settings), secrets=lambda: SECRETS)


def bearer_token(subject: str, *groups: str, seconds: float = 600) -> str:
    """Return a token that a server of these tests accepts, or a negative number of seconds ago has accepted."""
    identity = Identity(subject, frozenset(groups))
    return mint_token(
        bytes(SECRETS.tokens[0]), identity, now=time.time() + min(0.0, seconds), seconds=max(1, abs(seconds) / 2)
    )


@dataclass
class TaskServer:
    """A running server, and what a test changes of it."""

    url: str = ""
    database: Database = field(init=False)
    """The same table, for other writers and for reading the result."""
    failing: set[str] = field(default_factory=set)
    """Hash keys that do not answer."""
    hours: float = 0.0
    """Time that has passed for the server."""

    def fails(self, read: RangeRead) -> bool:
        return read.hash_key in self.failing

    def now(self) -> float:
        return time.time() + self.hours * 3600

    @property
    def grid(self) -> str:
        return f"{self.url}/grid"


@asynccontextmanager
async def start_task_server(
    catalog: Catalog, folder: Path, records: Sequence[Entity], **settings: Any
) -> AsyncIterator[TaskServer]:
    """Serve a catalog with these records."""
    server = TaskServer()
    url = f"sqlite:///{folder}/tasks.db"

    def open_database() -> AbstractAsyncContextManager[Database]:
        return open_failing(server, catalog, url)

    async with open_catalog(catalog, url, secrets=SECRETS, migrate=settings.pop("migrate", True)) as database:
        for kind in dict.fromkeys(map(type, records)):
            assert not any(await database.put_many([record for record in records if type(record) is kind]))
        server.database = database
        with serve_app(create_app(catalog, open_database, read_settings(**settings))) as server.url:
            yield server


@asynccontextmanager
async def open_failing(server: TaskServer, catalog: Catalog, url: str) -> AsyncIterator[Database]:
    """Open the table with a store that fails the shards that the test chooses."""
    async with open_catalog(catalog, url, secrets=SECRETS, clock=server.now, migrate=False) as database:
        yield replace(database, store=FailingStore(database.store, server.fails))
