"""An executor that records operations, and fails or waits as its query says. HTTP tests need no real executor."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Event
from typing import Any, cast

from starlette.requests import Request

from graphql_api.database import Database
from graphql_api.schema.execution.graphql_operation import ExecutionResponse, Operation
from graphql_api.schema.request_context import Caller


class ScriptedExecutor:
    """Obeys the query: `fail`, `wait` or `refuse 503`. Other operations are echoed."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.callers: list[Caller] = []
        self.waiting = Event()
        self.ended = Event()

    async def run(
        self, operation: Operation, database: Database, caller: Caller, request: Request | None = None
    ) -> ExecutionResponse:
        self.operations.append(operation)
        self.callers.append(caller)
        match (operation.query or "").split():
            case ["fail"]:
                raise ZeroDivisionError("a secret of the server")
            case ["wait"]:
                await self._wait()
            case ["refuse", status]:
                error = {"message": "It was refused.", "extensions": {"code": f"REFUSED_{status}"}}
                return ExecutionResponse({"errors": [error]}, int(status))
        data: dict[str, Any] = {"name": operation.name, "variables": dict(operation.variables)}
        return ExecutionResponse({"data": data})

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def no_database() -> Callable[[], AbstractAsyncContextManager[Database]]:
    """Return an opener of no database. A scripted executor needs none."""

    @asynccontextmanager
    async def open_database() -> AsyncIterator[Database]:
        yield cast("Database", None)

    return open_database
