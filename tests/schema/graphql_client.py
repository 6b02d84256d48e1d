"""A GraphQL client without a server: `async with open_client(catalog, folder) as client`."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphql_api import Catalog, Entity
from graphql_api.clock import Clock
from graphql_api.database import Database
from graphql_api.query.token_seal import TokenSeal
from graphql_api.schema.execution.document_executor import DocumentExecutor
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.support.store_doubles import CountingStore, Counts

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NOW = 1_764_000_000.0
LIMITS = Limits(deadline=60.0)
"""The limits of a server, with a deadline that operations meet on a busy machine too."""


@dataclass(frozen=True, slots=True)
class GraphQLClient:
    """A database and the executor of its operations. Each response passes through JSON."""

    executor: DocumentExecutor
    db: Database
    store: CountingStore

    async def execute(
        self, query: str | None, variables: Mapping[str, Any] | None = None, **options: Any
    ) -> ExecutionResponse:
        """Return the whole response to an operation."""
        caller = options.pop("caller", Caller("c-1", tenant=self.db.tenant, subject=self.db.principal))
        response = await self.executor.run(Operation(query, variables=variables or {}, **options), self.db, caller)
        body = json.loads(json.dumps(response.body, allow_nan=False))
        codes = tuple(error["extensions"]["code"] for error in body.get("errors", ()))
        assert response.codes == codes
        assert response.executed == ("data" in body)
        return replace(response, body=body)

    async def data(self, query: str | None, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the data of an operation that must succeed."""
        response = await self.execute(query, variables, **options)
        assert response.codes == (), response.body
        assert response.status == 200
        return response.body["data"]

    async def errors(self, query: str | None, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the errors of an operation that must fail."""
        response = await self.execute(query, variables, **options)
        assert response.codes != (), response.body
        return response.body["errors"]

    async def error(self, query: str | None, variables: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Return the single error of an operation that must fail."""
        (single_error,) = await self.errors(query, variables, **options)
        return single_error

    @property
    def counts(self) -> Counts:
        """The calls of the store since the records were written, or since the last reset."""
        return self.store.counts

    def reset_counts(self) -> None:
        """Set the call counts to zero."""
        self.store.counts = Counts()


async def write(db: Database, records: Sequence[Entity]) -> None:
    """Write records of any entities."""
    for kind in dict.fromkeys(map(type, records)):
        problems = await db.put_many([record for record in records if type(record) is kind])
        assert not any(problems), problems


def client_for(
    db: Database, *, graph: Graph | None = None, limits: Limits = LIMITS, **executor_options: Any
) -> GraphQLClient:
    """Return a client for a database that is already open."""
    store = CountingStore(db.store)
    schema = (graph or Graph(db.catalog)).schema
    return GraphQLClient(DocumentExecutor(schema, limits, **executor_options), replace(db, store=store), store)


@asynccontextmanager
async def open_database(
    catalog: Catalog, store: Store, *records: Entity, clock: Clock = lambda: NOW
) -> AsyncIterator[Database]:
    """Open a database with these records, and close its store at the end."""
    try:
        await store.ensure_table(catalog.table_definition())
        db = Database(catalog, store, SEAL, clock)
        await write(db, records)
        yield db
    finally:
        await store.close()


@asynccontextmanager
async def open_client(
    catalog: Catalog,
    folder: Path,
    *records: Entity,
    graph: Graph | None = None,
    limits: Limits = LIMITS,
    clock: Clock = lambda: NOW,
    **executor_options: Any,
) -> AsyncIterator[GraphQLClient]:
    """Open a client for a new SQLite file. Other keyword arguments go to the executor, such as `suggestions=False`."""
    async with open_database(catalog, await open_sqlite(folder / "x.db"), *records, clock=clock) as db:
        yield client_for(db, graph=graph, limits=limits, **executor_options)
