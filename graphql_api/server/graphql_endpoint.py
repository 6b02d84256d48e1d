"""The GraphQL endpoint: maps HTTP requests to operations, and execution results to HTTP responses."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graphql_api.errors import ExpectationFailed, UrlTooLong
from graphql_api.schema import Caller, ExecutionResponse, Operation
from graphql_api.server.auth import Authenticator, Identity
from graphql_api.server.content_negotiation import GRAPHQL, HTML, JSON, negotiate_media_type
from graphql_api.server.csrf import check_not_cross_site
from graphql_api.server.database_lifespan import DatabaseHolder
from graphql_api.server.disconnect import cancel_on_disconnect
from graphql_api.server.error_responses import json_response
from graphql_api.server.graphql_parameters import parse_body, parse_query_string
from graphql_api.server.observability import OperationExecutor, logs_explain
from graphql_api.server.request_body import check_media_type, read_body
from graphql_api.server.request_state import get_request_state

METHODS = ("GET", "HEAD", "OPTIONS", "POST")
MAX_URL_BYTES = 16 << 10
"""Bytes of path and query string."""

BrowserPage = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class ExplainPolicy:
    """Decides who may use the header `x-explain: 1`."""

    enabled: bool = True
    groups: frozenset[str] = frozenset()
    """Groups whose members may use it. Empty means every caller."""

    def allows(self, identity: Identity) -> bool:
        """Return whether this principal may use the header."""
        return self.enabled and (not self.groups or not self.groups.isdisjoint(identity.groups))


@dataclass(frozen=True, slots=True)
class GraphQLEndpoint:
    """The ASGI endpoint of one path. `browser_page` is served to browsers that open it, if there is one."""

    executor: OperationExecutor
    database: DatabaseHolder
    max_body_bytes: int
    body_deadline: float
    explain_policy: ExplainPolicy
    authenticator: Authenticator
    browser_page: BrowserPage | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive), receive)
        await response(scope, receive, send)

    async def _respond(self, request: Request, receive: Receive) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": ", ".join(METHODS)})
        headers = request.headers
        _check_expectation(headers)
        read_only = request.method != "POST"
        offered = (GRAPHQL, JSON, HTML) if self.browser_page is not None and read_only else (GRAPHQL, JSON)
        media_type = negotiate_media_type(headers.getlist("accept"), offered)
        if media_type == HTML and self.browser_page is not None:
            return self.browser_page(request)
        identity = await self.authenticator.authenticate(headers)
        operation = (
            self._operation_from_url(request) if read_only else await self._operation_from_body(headers, receive)
        )
        state = get_request_state(request.scope)
        caller = Caller(
            state.correlation_id,
            read_only=read_only,
            explain=self.explain_policy.allows(identity) and headers.get("x-explain", "").strip() == "1",
            logs_explain=logs_explain(),
            tenant=identity.tenant,
            subject=identity.subject,
            groups=identity.groups,
        )
        result = await cancel_on_disconnect(self._execute(operation, caller), receive)
        state.error_codes, state.explain_entries = result.codes, result.explain_entries
        return _http_response(result, media_type)

    def _operation_from_url(self, request: Request) -> Operation:
        query_string = request.scope["query_string"]
        if len(query_string) + len(request.scope.get("raw_path") or b"") > MAX_URL_BYTES:
            raise UrlTooLong(f"The URL is longer than {MAX_URL_BYTES:,} bytes: POST the query instead.")
        operation = parse_query_string(query_string)
        check_not_cross_site(request.headers)
        return operation

    async def _operation_from_body(self, headers: Headers, receive: Receive) -> Operation:
        check_media_type(headers)
        body = await read_body(headers, receive, max_bytes=self.max_body_bytes, seconds=self.body_deadline)
        return parse_body(body)

    async def _execute(self, operation: Operation, caller: Caller) -> ExecutionResponse:
        return await self.executor.run(operation, await self.database.get(), caller)


def _check_expectation(headers: Headers) -> None:
    expected = headers.get("expect", "100-continue")
    if expected.strip().lower() != "100-continue":
        raise ExpectationFailed(
            f"The server does not support the expectation {expected[:40]!r}: leave the Expect header out."
        )


def _http_response(result: ExecutionResponse, media_type: str) -> Response:
    """Return the HTTP response. With `application/json`, a refused query has status 200 if the request is well-formed.

    Clients of that older media type read the errors of a GraphQL response only with status 200.
    """
    status = 200 if result.executed or (media_type == JSON and result.status == 400) else result.status
    headers = {"allow": "POST"} if status == 405 else {}
    return json_response(result.body, status, media_type=media_type, headers=headers)
