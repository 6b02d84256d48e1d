"""A GraphQL client without a server: operations run with the schema, the rules and the limits of the server."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from orjson import dumps, loads

from graphql_api.database import Database
from graphql_api.schema import Caller, DocumentExecutor, ExecutionResponse, Graph, Limits, Operation, StreamExecutor


class GraphQLFailed(AssertionError):
    """An operation that was expected to succeed had errors."""

    def __init__(self, errors: Sequence[Mapping[str, Any]], data: Any) -> None:
        super().__init__("\n".join(f"{error['extensions']['code']}: {error['message']}" for error in errors))
        self.errors = errors
        self.data = data

    @property
    def codes(self) -> list[str]:
        """The codes of the errors."""
        return [error["extensions"]["code"] for error in self.errors]


@dataclass(frozen=True)
class GraphQLClient:
    """Executes GraphQL operations on a database, as an anonymous caller or as an authenticated one.

    Without a subject, callers are anonymous. Responses pass through JSON, as those of a server do.
    """

    graph: Graph
    db: Database
    subject: str | None = None
    groups: Iterable[str] = ()
    tenant: str | None = None
    limits: Limits = field(default_factory=Limits)

    def as_caller(
        self, subject: str | None = None, *, groups: Iterable[str] = (), tenant: str | None = None
    ) -> "GraphQLClient":
        """Return a client of the same database for another caller."""
        return replace(self, subject=subject, groups=groups, tenant=tenant)

    async def query(
        self, document: str, variables: Mapping[str, Any] | None = None, *, operation: str | None = None
    ) -> Any:
        """Execute a query or mutation and return its data. Raise `GraphQLFailed` if it has errors.

        `operation`: the name of the operation, if the document has several.
        """
        body = await self.execute(document, variables, operation=operation)
        if "errors" in body:
            raise GraphQLFailed(body["errors"], body.get("data"))
        return body["data"]

    async def execute(
        self, document: str, variables: Mapping[str, Any] | None = None, *, operation: str | None = None
    ) -> dict[str, Any]:
        """Execute a query or mutation and return the whole response: `data`, `errors` and `extensions`."""
        request = Operation(document, operation, loads(dumps(variables or {})))
        return _body(await self._executor.run(request, self.db, self._caller))

    async def subscribe(
        self, document: str, variables: Mapping[str, Any] | None = None, *, operation: str | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Execute a subscription and yield the whole response to each event. Close the generator to unsubscribe."""
        request = Operation(document, operation, loads(dumps(variables or {})))
        async with aclosing(StreamExecutor(self._executor).stream(request, self.db, self._caller)) as responses:
            async for response in responses:
                yield _body(response)

    @property
    def _caller(self) -> Caller:
        return Caller("test", tenant=self.tenant, subject=self.subject, groups=frozenset(self.groups))

    @cached_property
    def _executor(self) -> DocumentExecutor:
        return DocumentExecutor(self.graph.schema, self.limits)


def _body(response: ExecutionResponse) -> dict[str, Any]:
    body: dict[str, Any] = loads(dumps(response.body))
    return body
