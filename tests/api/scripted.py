"""An engine that shows what it was asked for, and fails or waits to order: what reaches it is what HTTP is about."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Event
from typing import Any, cast

from graphql_api.database import Database
from graphql_api.schema.execution.document_executor import ExecutionResponse, Operation
from graphql_api.schema.request_context import Caller


class ScriptedEngine:
    """Answers by what stands in the query: `fail`, `wait`, `refuse 503`, and shows the operation otherwise."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.callers: list[Caller] = []
        self.waits = Event()
        self.ended = Event()

    async def run(self, operation: Operation, database: Database, caller: Caller) -> ExecutionResponse:
        self.operations.append(operation)
        self.callers.append(caller)
        match (operation.query or "").split():
            case ["fail"]:
                raise ZeroDivisionError("a secret of the server")
            case ["wait"]:
                await self._wait()
            case ["refuse", status]:
                code = f"REFUSED_{status}"
                error = {"message": "It was refused.", "extensions": {"code": code}}
                return ExecutionResponse({"errors": [error]}, executed=False, status=int(status), codes=(code,))
        data: dict[str, Any] = {"name": operation.name, "variables": dict(operation.variables)}
        return ExecutionResponse({"data": data}, executed=True, status=200, codes=())

    async def _wait(self) -> None:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def no_database() -> Callable[[], AbstractAsyncContextManager[Database]]:
    """Opens nothing: a scripted engine asks no database."""

    @asynccontextmanager
    async def opening() -> AsyncIterator[Database]:
        yield cast("Database", None)

    return opening
