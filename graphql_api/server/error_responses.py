"""JSON error responses: every status has an error code, and internal errors are masked by a correlation id."""

from collections.abc import Mapping
from logging import getLogger

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graphql_api.errors import (
    BodyTooLarge,
    BodyTooSlow,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    ShardQLError,
    Unauthenticated,
    UnsupportedMediaType,
)
from graphql_api.server.content_negotiation import GRAPHQL, JSON, negotiate_media_type
from graphql_api.server.disconnect import ClientDisconnected
from graphql_api.server.request_state import CORRELATION_HEADER, get_request_state
from graphql_api.server.strict_json import write_json

log = getLogger("shardql")


def json_response(
    body: object, status: int = 200, *, media_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response with headers that prevent caching and content sniffing."""
    return Response(
        write_json(body),
        status_code=status,
        headers={
            "content-type": f"{media_type}; charset=utf-8",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            "vary": "accept",
            **(headers or {}),
        },
    )


def error_response(scope: Scope, error: ShardQLError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for one error, in the media type that the client prefers."""
    get_request_state(scope).error_codes = (error.code,)
    try:
        media_type = negotiate_media_type(Headers(scope=scope).getlist("accept"), (GRAPHQL, JSON))
    except NotAcceptable:
        media_type = JSON
    body = {"errors": [{"message": error.message, "extensions": error.extensions}]}
    return json_response(
        body, error.status, media_type=media_type, headers={**_error_headers(error), **(headers or {})}
    )


def _error_headers(error: ShardQLError) -> Mapping[str, str]:
    """Return the response headers that belong to this kind of error."""
    match error:
        case BodyTooSlow():
            return {"connection": "close"}
        case Unauthenticated():
            return {"www-authenticate": "Bearer"}
    return {}


async def shardql_error_response(request: Request, error: Exception) -> Response:
    """Return the response for a ShardQLError."""
    assert isinstance(error, ShardQLError)
    return error_response(request.scope, error)


async def routing_error_response(request: Request, error: Exception) -> Response:
    """Return the response for an error of Starlette's routing, such as an unknown path or a method not allowed."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:100]
    headers = dict(error.headers or {})
    match error.status_code:
        case 404:
            replacement: ShardQLError = NotFound(f"There is nothing at {path}: check the path.")
        case 405:
            allowed = ", ".join(sorted(part.strip() for part in headers.pop("Allow", "").split(",")))
            headers["allow"] = allowed
            replacement = MethodNotAllowed(f"{request.method} is not allowed at {path}: use {allowed}.")
        case 413:
            replacement = BodyTooLarge("The body is larger than the server accepts: send less at once.")
        case 415:
            replacement = UnsupportedMediaType(f"{path} does not accept this media type.")
        case status if status < 500:
            replacement = InvalidRequest(f"{path} refuses the request: {error.detail}")
        case _:
            raise error
    return error_response(request.scope, replacement, headers)


class MaskInternalErrors:
    """Middleware that adds the correlation id to each response, and masks internal errors after logging them once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = get_request_state(scope)
        started = False

        async def send_with_correlation_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message)[CORRELATION_HEADER] = state.correlation_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_correlation_id)
        except ClientDisconnected:
            state.client_disconnected = True
        except Exception:
            if started:
                raise  # Part of the response is sent already, so the server closes the connection and logs the error.
            log.exception(
                "%s %s failed, correlation id %s",
                scope["method"],
                scope["path"],
                state.correlation_id,
                extra={"correlation_id": state.correlation_id},
            )
            await error_response(scope, InternalError(state.correlation_id))(scope, receive, send_with_correlation_id)
