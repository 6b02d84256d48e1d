"""Catalogs on a real server: `with served(catalog, "sqlite:///…") as server: server.ask("{ … }")`."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import strawberry
from starlette.applications import Starlette

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.clock import Clock, system_clock
from graphql_api.database import Database
from graphql_api.opening import Secrets
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import build_schema
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.graphql_endpoint import BrowserPage
from graphql_api.storage.port import Store
from tests.api.running import PATIENCE, running

OPTIONS = WebOptions()
LIMITS = Limits()
SECRETS = Secrets([b"a secret of thirty-two bytes only"])


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and a client of it."""

    address: str
    """without a path: `http://127.0.0.1:12345`"""
    path: str
    client: httpx.Client

    @property
    def url(self) -> str:
        """Where GraphQL is."""
        return self.address + self.path

    def post(self, query: str, variables: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        """The reply to an operation."""
        return self.client.post(self.path, json={"query": query, "variables": variables, **more})

    def ask(self, query: str, variables: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The data of an operation that must succeed."""
        reply = self.post(query, variables, **more)
        body = reply.json()
        assert reply.status_code == 200, body
        assert "errors" not in body, body["errors"]
        return body["data"]

    def codes(self, query: str, variables: Mapping[str, Any] | None = None, **more: Any) -> list[str]:
        """The codes of the errors of an operation that must fail."""
        return [error["extensions"]["code"] for error in self.post(query, variables, **more).json()["errors"]]


@contextmanager
def served(
    catalog: Catalog,
    store: str,
    *,
    records: Sequence[Entity] = (),
    wrap: Callable[[Store], Store] = lambda inner: inner,
    clock: Clock = system_clock,
    secrets: Secrets = SECRETS,
    options: WebOptions = OPTIONS,
    limits: Limits = LIMITS,
    page: BrowserPage | None = None,
    schema: strawberry.Schema | None = None,
    create_table: bool | None = None,
    **engine: Any,
) -> Iterator[Server]:
    """A server for a catalog over the store with this URL, with these records written before it starts.

    `schema` takes the place of the one that the catalog has by itself. `wrap` puts something between the database and
    its store, after the records are written. What else is given goes to the engine: `introspection=False`,
    `documents={…}` and so on.
    """
    opening = _opening(catalog, store, records, wrap, clock, secrets, create_table)
    app = serving(catalog, opening, options=options, limits=limits, page=page, schema=schema, **engine)
    with running(app) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        client.headers["accept"] = "application/graphql-response+json"
        yield Server(address, options.path, client)


def serving(
    catalog: Catalog,
    opening: Callable[[], AbstractAsyncContextManager[Database]],
    *,
    options: WebOptions = OPTIONS,
    limits: Limits = LIMITS,
    page: BrowserPage | None = None,
    schema: strawberry.Schema | None = None,
    **engine: Any,
) -> Starlette:
    """The application alone, for tests that run it themselves."""
    return build_app(
        DocumentExecutor(schema or build_schema(catalog), limits, **engine), opening, options, browser_page=page
    )


def _opening(
    catalog: Catalog,
    store: str,
    records: Sequence[Entity],
    wrap: Callable[[Store], Store],
    clock: Clock,
    secrets: Secrets,
    create_table: bool | None,
) -> Callable[[], AbstractAsyncContextManager[Database]]:
    @asynccontextmanager
    async def opening() -> AsyncIterator[Database]:
        async with open_catalog(catalog, store, secrets=secrets, clock=clock, create_table=create_table) as database:
            for kind in dict.fromkeys(map(type, records)):
                problems = await database.put_many([record for record in records if type(record) is kind])
                assert not any(problems), problems
            yield replace(database, store=wrap(database.store))

    return opening
