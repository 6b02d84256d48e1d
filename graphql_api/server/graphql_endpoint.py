"""The GraphQL endpoint: maps HTTP requests to operations, and execution results to HTTP responses."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from graphql_api.errors import ExpectationFailed
from graphql_api.schema import Caller, ExecutionResponse
from graphql_api.server.auth import Authenticator
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.graphql_request import read_body_operation, read_url_operation
from graphql_api.server.observability import OperationExecutor, logs_explain
from graphql_api.server.request_state import get_request_state
from graphql_api.server.responses import GRAPHQL, HTML, JSON, json_response, negotiate_media_type
from graphql_api.server.settings import Settings

T = TypeVar("T")
METHODS = ("GET", "HEAD", "OPTIONS", "POST")
BrowserPage = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class GraphQLEndpoint:
    """The endpoint of one path. `browser_page` is served to browsers that open it, if there is one."""

    executor: OperationExecutor
    database: DatabaseHolder
    settings: Settings
    body_seconds: float
    """Seconds within which a whole request body must arrive."""
    authenticator: Authenticator
    browser_page: BrowserPage | None = None

    async def respond(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": ", ".join(METHODS)})
        headers, read_only = request.headers, request.method != "POST"
        expected = headers.get("expect", "100-continue")
        if expected.strip().lower() != "100-continue":
            raise ExpectationFailed(
                f"The server does not support the expectation {expected[:40]!r}: leave the Expect header out."
            )
        offered = (GRAPHQL, JSON, HTML) if self.browser_page is not None and read_only else (GRAPHQL, JSON)
        media_type = negotiate_media_type(headers.getlist("accept"), offered)
        if media_type == HTML and self.browser_page is not None:
            return self.browser_page(request)
        result = await self._execute(request, read_only)
        # Clients of the older media type read the errors of a well-formed request only with status 200.
        status = 200 if result.executed or (media_type == JSON and result.status == 400) else result.status
        return json_response(
            result.body, status, media_type=media_type, headers={"allow": "POST"} if status == 405 else None
        )

    async def _execute(self, request: Request, read_only: bool) -> ExecutionResponse:
        identity = await self.authenticator.authenticate(request.headers)
        if read_only:
            operation = read_url_operation(request)
        else:
            operation = await read_body_operation(request, self.settings.max_body_bytes, self.body_seconds)
        groups = self.settings.explain_groups
        may_explain = self.settings.explain and (not groups or not identity.groups.isdisjoint(groups))
        state = get_request_state(request.scope)
        caller = Caller(
            state.correlation_id,
            read_only=read_only,
            explain=may_explain and request.headers.get("x-explain", "").strip() == "1",
            logs_explain=logs_explain(),
            tenant=identity.tenant,
            subject=identity.subject,
            groups=identity.groups,
        )

        async def run() -> ExecutionResponse:
            database = await self.database.get()
            state.operation = operation
            return await self.executor.run(operation, database, caller)

        result = await cancel_on_disconnect(run(), request.receive)
        state.error_codes, state.explain_entries = result.codes, result.explain_entries
        return result


async def cancel_on_disconnect(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """Return the result of the work. If the client disconnects first, cancel the work, await its end, and raise."""
    work_task = asyncio.create_task(work)
    disconnect_task = asyncio.create_task(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({work_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
        if work_task.done():
            return work_task.result()
        disconnect_task.result()
        raise ClientDisconnect
    finally:
        work_task.cancel()
        disconnect_task.cancel()
        await asyncio.gather(work_task, disconnect_task, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # Drop the parts of an unread body.
