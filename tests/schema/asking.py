"""A catalog over a store of its own, asked without a server: `async with asked(catalog, folder) as ask`."""

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
from graphql_api.schema.execution.document_executor import DocumentExecutor, ExecutionResponse, Operation
from graphql_api.schema.execution.document_limits import Limits
from graphql_api.schema.graph import Graph
from graphql_api.schema.request_context import Caller
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.stores import CountingStore, Counts

SEAL = TokenSeal([b"a secret of thirty-two bytes only"])
NOW = 1_764_000_000.0
LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Asked:
    """A database and what answers operations over it; every answer takes a way through JSON."""

    engine: DocumentExecutor
    db: Database
    store: CountingStore

    async def answer(self, query: str | None, variables: Mapping[str, Any] | None = None, **more: Any) -> ExecutionResponse:
        """The whole answer to an operation."""
        caller = more.pop("caller", Caller("c-1", tenant=self.db.tenant, subject=self.db.principal))
        found = await self.engine.run(Operation(query, variables=variables or {}, **more), self.db, caller)
        body = json.loads(json.dumps(found.body, allow_nan=False))
        codes = tuple(error["extensions"]["code"] for error in body.get("errors", ()))
        assert found.codes == codes
        assert found.executed == ("data" in body)
        return replace(found, body=body)

    async def data(self, query: str | None, variables: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The data of an operation that must succeed."""
        found = await self.answer(query, variables, **more)
        assert found.codes == (), found.body
        assert found.status == 200
        return found.body["data"]

    async def errors(self, query: str | None, variables: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The errors of an operation that must fail."""
        found = await self.answer(query, variables, **more)
        assert found.codes != (), found.body
        return found.body["errors"]

    async def error(self, query: str | None, variables: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """The one error of an operation that must fail."""
        (found,) = await self.errors(query, variables, **more)
        return found

    @property
    def counts(self) -> Counts:
        """What the store was asked for since the records were written."""
        return self.store.counts

    def forget(self) -> None:
        """Counts from nothing again."""
        self.store.counts = Counts()


async def write(db: Database, records: Sequence[Entity]) -> None:
    """Writes records of any entities."""
    for kind in dict.fromkeys(map(type, records)):
        problems = await db.put_many([record for record in records if type(record) is kind])
        assert not any(problems), problems


def asking(db: Database, *, graph: Graph | None = None, limits: Limits = LIMITS, **engine: Any) -> Asked:
    """Asks a database that is open already."""
    store = CountingStore(db.store)
    schema = (graph or Graph(db.catalog)).schema
    return Asked(DocumentExecutor(schema, limits, **engine), replace(db, store=store), store)


@asynccontextmanager
async def opened(
    catalog: Catalog, store: Store, *records: Entity, clock: Clock = lambda: NOW
) -> AsyncIterator[Database]:
    """A database over a store that is closed in the end."""
    try:
        await store.ensure_table(catalog.table_definition())
        db = Database(catalog, store, SEAL, clock)
        await write(db, records)
        yield db
    finally:
        await store.close()


@asynccontextmanager
async def asked(
    catalog: Catalog,
    folder: Path,
    *records: Entity,
    graph: Graph | None = None,
    limits: Limits = LIMITS,
    clock: Clock = lambda: NOW,
    **engine: Any,
) -> AsyncIterator[Asked]:
    """A SQLite file with these records; what else is given goes to the engine: `suggestions=False` and so on."""
    async with opened(catalog, await open_sqlite(folder / "x.db"), *records, clock=clock) as db:
        yield asking(db, graph=graph, limits=limits, **engine)
