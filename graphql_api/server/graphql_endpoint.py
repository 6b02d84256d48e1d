"""The GraphQL endpoint: maps HTTP requests to operations, and execution results to HTTP responses."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any, TypeVar

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from graphql_api.errors import ExpectationFailed, InvalidRequest
from graphql_api.schema import Caller, ExecutionResponse
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.auth import Authenticator
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.graphql_request import read_body_operation, read_url_operation
from graphql_api.server.observability import OperationExecutor, logs_explain
from graphql_api.server.request_state import get_request_state
from graphql_api.server.responses import GRAPHQL, HTML, JSON, json_response, negotiate_media_type, retry_headers
from graphql_api.server.settings import Settings

T = TypeVar("T")
METHODS = ("GET", "HEAD", "OPTIONS", "POST")
MAX_LARGE_BODIES = 64
"""large bodies that are read at the same time; further ones wait, for the time within which a body must arrive"""
MAX_UNITS_HEADER = "x-max-units"
"""the header with the ceiling of the capacity units that a request may use"""
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
    admission: AdmissionController
    browser_page: BrowserPage | None = None
    large_bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LARGE_BODIES))

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
        more_headers = {"allow": "POST"} if status == 405 else retry_headers([*result.errors, *result.row_errors])
        return json_response(result.body, status, media_type=media_type, headers=more_headers)

    async def _execute(self, request: Request, read_only: bool) -> ExecutionResponse:
        identity = await self.authenticator.authenticate(request.headers)
        max_bytes, max_elements = self.settings.max_body_bytes, self.settings.max_elements
        if read_only:
            operation = read_url_operation(request, max_elements)
        else:
            operation = await read_body_operation(
                request, max_bytes, max_elements, self.body_seconds, self.large_bodies
            )
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
            max_units=read_max_units(request.headers, self.settings.max_units),
        )

        async def run() -> ExecutionResponse:
            database = await self.database.get()
            state.operation = operation
            async with self.admission.admit() as waited:
                return await self.executor.run(operation, database, replace(caller, waited_seconds=waited), request)

        result = await cancel_on_disconnect(run(), request.receive)
        state.error_codes, state.explain_entries = result.codes, result.explain_entries
        return result


def read_max_units(headers: Headers, max_units: float | None) -> float | None:
    """Return the ceiling of capacity units: the header `x-max-units`, which can only lower the one of the server."""
    text = headers.get(MAX_UNITS_HEADER)
    if text is None:
        return max_units
    try:
        units = float(text)
    except ValueError:
        units = nan
    if not (units > 0 and isfinite(units)):
        raise InvalidRequest(f"{MAX_UNITS_HEADER} is {text[:40]!r}: send a number of capacity units above 0.")
    return units if max_units is None else min(units, max_units)


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
