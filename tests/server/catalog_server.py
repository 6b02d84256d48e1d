"""Start a real server for a catalog: `with start_server(catalog, "sqlite:///…") as server: server.execute("{ … }")`."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import strawberry
from starlette.applications import Starlette

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.clock import Clock, system_clock
from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import build_schema
from graphql_api.server.app import build_app
from graphql_api.server.graphql_endpoint import BrowserPage
from graphql_api.server.settings import Settings
from graphql_api.storage.port import Store
from tests.support.loopback import TIMEOUT, serve_app

OPTIONS = Settings()
LIMITS = Limits()
SECRETS = Secrets([b"a secret of thirty-two bytes only"])


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, and an HTTP client of it."""

    address: str
    """The URL without a path: `http://127.0.0.1:12345`."""
    path: str
    client: httpx.Client

    @property
    def url(self) -> str:
        """The URL of the GraphQL endpoint."""
        return self.address + self.path

    def post(self, query: str, variables: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        """Return the response to an operation."""
        return self.client.post(self.path, json={"query": query, "variables": variables, **more})

    def execute(self, query: str, variables: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Return the data of an operation that must succeed."""
        reply = self.post(query, variables, **more)
        body = reply.json()
        assert reply.status_code == 200, body
        assert "errors" not in body, body["errors"]
        return body["data"]

    def codes(self, query: str, variables: Mapping[str, Any] | None = None, **more: Any) -> list[str]:
        """Return the error codes of an operation that must fail."""
        return [error["extensions"]["code"] for error in self.post(query, variables, **more).json()["errors"]]


@contextmanager
def start_server(
    catalog: Catalog,
    store: str,
    *,
    records: Sequence[Entity] = (),
    wrap: Callable[[Store], Store] = lambda inner: inner,
    clock: Clock = system_clock,
    secrets: Secrets = SECRETS,
    options: Settings = OPTIONS,
    limits: Limits = LIMITS,
    page: BrowserPage | None = None,
    schema: strawberry.Schema | None = None,
    create_table: bool | None = None,
    **executor_options: Any,
) -> Iterator[Server]:
    """Start a server for a catalog over the store with this URL, after writing these records.

    `schema` replaces the default schema of the catalog. `wrap` wraps the store after the records are written. Other
    arguments are passed to the executor: `introspection=False`, `documents={…}` and so on.
    """
    open_database = _opener(catalog, store, records, wrap, clock, secrets, create_table)
    app = build_test_app(
        catalog, open_database, options=options, limits=limits, page=page, schema=schema, **executor_options
    )
    with serve_app(app) as address, httpx.Client(base_url=address, timeout=TIMEOUT) as client:
        client.headers["accept"] = "application/graphql-response+json"
        yield Server(address, options.path, client)


def build_test_app(
    catalog: Catalog,
    open_database: Callable[[], AbstractAsyncContextManager[Database]],
    *,
    options: Settings = OPTIONS,
    limits: Limits = LIMITS,
    page: BrowserPage | None = None,
    schema: strawberry.Schema | None = None,
    **executor_options: Any,
) -> Starlette:
    """Build the ASGI application without starting a server."""
    return build_app(
        DocumentExecutor(schema or build_schema(catalog), limits, **executor_options),
        open_database,
        options,
        browser_page=page,
    )


def _opener(
    catalog: Catalog,
    store: str,
    records: Sequence[Entity],
    wrap: Callable[[Store], Store],
    clock: Clock,
    secrets: Secrets,
    create_table: bool | None,
) -> Callable[[], AbstractAsyncContextManager[Database]]:
    @asynccontextmanager
    async def open_database() -> AsyncIterator[Database]:
        async with open_catalog(catalog, store, secrets=secrets, clock=clock, create_table=create_table) as database:
            for kind in dict.fromkeys(map(type, records)):
                problems = await database.put_many([record for record in records if type(record) is kind])
                assert not any(problems), problems
            yield replace(database, store=wrap(database.store))

    return open_database
