"""The GraphQL endpoint: maps HTTP requests to operations, and execution results to HTTP responses."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite, nan

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graphql_api.errors import ExpectationFailed, InvalidRequest
from graphql_api.schema import Caller, ExecutionResponse, Operation
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.auth import Authenticator, Identity
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.disconnects import cancel_on_disconnect
from graphql_api.server.event_stream import EventStreamResponse
from graphql_api.server.graphql_request import read_body_operation, read_url_operation
from graphql_api.server.observability import OperationExecutor, logs_explain
from graphql_api.server.request_state import get_request_state
from graphql_api.server.responses import (
    EVENT_STREAM,
    GRAPHQL,
    HTML,
    JSON,
    json_response,
    negotiate_media_type,
    retry_headers,
)
from graphql_api.server.settings import Settings
from graphql_api.server.subscriptions import SubscriptionService

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
    subscriptions: SubscriptionService | None = None
    """None if the schema has none. Then there are no streams of events."""
    large_bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LARGE_BODIES))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as an ASGI application: Starlette wraps a function once more to catch its errors."""
        response = await self.respond(Request(scope, receive, send))
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": ", ".join(METHODS)})
        headers, read_only = request.headers, request.method != "POST"
        expected = headers.get("expect")
        if expected is not None and expected.strip().lower() != "100-continue":
            raise ExpectationFailed(
                f"The server does not support the expectation {expected[:40]!r}: leave the Expect header out."
            )
        media_type = negotiate_media_type(headers.getlist("accept"), self._offered_types(request.method))
        if media_type == EVENT_STREAM and self.subscriptions is not None:
            return await self._stream(request, self.subscriptions, read_only)
        if media_type == HTML and self.browser_page is not None:
            return self.browser_page(request)
        result = await self._execute(request, read_only)
        # Clients of the older media type read the errors of a well-formed request only with status 200.
        status = 200 if result.executed or (media_type == JSON and result.status == 400) else result.status
        more_headers = {"allow": "POST"} if status == 405 else retry_headers([*result.errors, *result.row_errors])
        return json_response(result.body, status, media_type=media_type, headers=more_headers)

    def _offered_types(self, method: str) -> tuple[str, ...]:
        offered: tuple[str, ...] = (GRAPHQL, JSON)
        if self.browser_page is not None and method != "POST":
            offered += (HTML,)
        if self.subscriptions is not None and method != "HEAD":
            offered += (EVENT_STREAM,)
        return offered

    async def _read(self, request: Request, read_only: bool) -> tuple[Identity, Operation, Caller]:
        """Return the principal of a request, its operation, and the caller."""
        identity = await self.authenticator.authenticate(request.headers)
        max_bytes, max_elements = self.settings.max_body_bytes, self.settings.max_elements
        if read_only:
            operation = read_url_operation(request, max_elements)
        else:
            operation = await read_body_operation(
                request, max_bytes, max_elements, self.body_seconds, self.large_bodies
            )
        state = get_request_state(request.scope)
        caller = caller_of(request.headers, identity, self.settings, state.correlation_id, read_only=read_only)
        return identity, operation, caller

    async def _stream(self, request: Request, subscriptions: SubscriptionService, read_only: bool) -> Response:
        """Return the response that sends a server-sent event for each response of the operation."""
        identity, operation, caller = await self._read(request, read_only)
        state = get_request_state(request.scope)
        state.operation = operation
        responses = subscriptions.stream(operation, caller, request, state)
        end = partial(subscriptions.wait_for_end, identity)
        return EventStreamResponse(responses, end, self.settings.keep_alive_seconds)

    async def _execute(self, request: Request, read_only: bool) -> ExecutionResponse:
        _, operation, caller = await self._read(request, read_only)
        state = get_request_state(request.scope)

        async def run() -> ExecutionResponse:
            database = await self.database.get()
            state.operation = operation
            async with self.admission.admit() as waited:
                return await self.executor.run(operation, database, replace(caller, waited_seconds=waited), request)

        result = await cancel_on_disconnect(run(), request.receive)
        state.error_codes, state.explain_entries = result.codes, result.explain_entries
        return result


def caller_of(
    headers: Headers, identity: Identity, settings: Settings, correlation_id: str, *, read_only: bool
) -> Caller:
    """Return the caller of an operation, with the options in the headers."""
    groups = settings.explain_groups
    may_explain = settings.explain and (not groups or not identity.groups.isdisjoint(groups))
    return Caller(
        correlation_id,
        read_only=read_only,
        explain=may_explain and headers.get("x-explain", "").strip() == "1",
        logs_explain=logs_explain(),
        tenant=identity.tenant,
        subject=identity.subject,
        groups=identity.groups,
        max_units=read_max_units(headers, settings.max_units),
    )


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
