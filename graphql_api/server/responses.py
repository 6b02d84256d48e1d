"""Responses: content negotiation, and errors as JSON. Every status of an error has an error code."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from graphql_api.codecs import write_json
from graphql_api.errors import (
    BodyTooLarge,
    BodyTooSlow,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    ShardQLError,
    Unauthenticated,
    UnsupportedMediaType,
    error_body,
)
from graphql_api.server.admission_control import overloaded_error
from graphql_api.server.request_state import get_request_state

GRAPHQL = "application/graphql-response+json"
JSON = "application/json"
HTML = "text/html"
EVENT_STREAM = "text/event-stream"
_EXACT_ORDER = (GRAPHQL, JSON, HTML, EVENT_STREAM)
"""Order of preference among media types that are named exactly, with equal quality."""
_MAX_KNOWN_CHARACTERS = 200
"""of a header whose media type is remembered"""
_WILDCARD_ORDER = (JSON, GRAPHQL, HTML, EVENT_STREAM)
"""The same for wildcards such as `*/*`: clients that predate GRAPHQL expect JSON."""
_HEADERS: Mapping[type[ShardQLError], Mapping[str, str]] = {
    BodyTooSlow: {"connection": "close"},
    Unauthenticated: {"www-authenticate": "Bearer"},
}
"""The response headers that belong to a kind of error."""


def negotiate_media_type(accept: Sequence[str], offered: Sequence[str]) -> str:
    """Return the offered media type that the `Accept` headers prefer. Without such headers, return JSON."""
    if not accept or (len(accept) == 1 and len(accept[0]) <= _MAX_KNOWN_CHARACTERS):
        return _known_media_type(*accept, offered=tuple(offered))
    return _preferred_media_type(accept, offered)


@lru_cache(256)
def _known_media_type(*accept: str, offered: Sequence[str]) -> str:
    return _preferred_media_type(accept, offered)


def _preferred_media_type(accept: Sequence[str], offered: Sequence[str]) -> str:
    ranges = [_media_range(text) for value in accept for text in value.split(",") if text.partition(";")[0].strip()]
    if not ranges:
        return JSON
    ranked = []
    for media_type in offered:
        names = ("*/*", media_type.partition("/")[0] + "/*", media_type)  # in ascending specificity
        matching = ((names.index(name), quality) for name, quality in ranges if name in names)
        specificity, quality = max(matching, key=itemgetter(0), default=(0, 0.0))
        if quality > 0:
            order = _EXACT_ORDER if names[specificity] == media_type else _WILDCARD_ORDER
            ranked.append((quality, specificity, -order.index(media_type), media_type))
    if not ranked:
        raise NotAcceptable(
            f"Accept: {', '.join(accept)[:100]} matches no media type of this server: accept {GRAPHQL} or {JSON}.",
            argument="accept",
        )
    return max(ranked)[-1]


def _media_range(text: str) -> tuple[str, float]:
    """Return a media range and its quality, which is 0 if it is invalid."""
    name, *parameters = (piece.strip().lower() for piece in text.split(";"))
    try:
        quality = float(next((piece[2:] for piece in parameters if piece.startswith("q=")), 1.0))
    except ValueError:
        quality = 0.0
    return name, quality if 0 <= quality <= 1 else 0.0


def json_response(
    body: object, status: int = 200, *, media_type: str = JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response with headers that prevent caching and content sniffing."""
    response = Response(status_code=status)
    response.body = write_json(body)
    response.raw_headers = [
        *_raw_headers(media_type),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()),
        (b"content-length", b"%d" % len(response.body)),
    ]
    return response


@cache
def _raw_headers(media_type: str) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers of all responses of one media type. The server offers a few of them."""
    return (
        (b"content-type", f"{media_type}; charset=utf-8".encode("latin-1")),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"vary", b"accept"),
    )


def retry_headers(errors: Iterable[Mapping[str, Any]]) -> Mapping[str, str]:
    """Return the header that says when to retry, if one of the errors in a body is retryable."""
    extensions = [error["extensions"] for error in errors]
    seconds = [each.get("retryAfter", 1) for each in extensions if each.get("retryable")]
    return {"retry-after": str(max(seconds))} if seconds else {}


async def error_response(
    request: HTTPConnection, error: Exception, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response for a ShardQLError, in the media type that the client prefers."""
    assert isinstance(error, ShardQLError)
    get_request_state(request.scope).error_codes = (error.code,)
    try:
        media_type = negotiate_error_type(request.headers.getlist("accept"))
    except NotAcceptable:
        media_type = JSON
    return _error_json(error, media_type, headers)


async def send_error(scope: Scope, receive: Receive, send: Send, error: ShardQLError) -> None:
    """Answer a request, or the handshake of a WebSocket connection, with an error."""
    response = await error_response(HTTPConnection(scope), error)
    if scope["type"] == "http":
        await response(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await WebSocket(scope, receive, send).send_denial_response(response)
    else:  # The ASGI server can only answer with status 403.
        await WebSocket(scope, receive, send).close()


def overloaded_response(retry_after: int, media_type: str) -> Response:
    """Return the response to an operation that is refused because of overload."""
    return _error_json(overloaded_error(retry_after), media_type)


def negotiate_error_type(accept: Sequence[str]) -> str:
    """Return the media type that the `Accept` headers prefer for an error."""
    return negotiate_media_type(accept, (GRAPHQL, JSON))


def _error_json(error: ShardQLError, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    body = error_body(error)
    headers = {**_HEADERS.get(type(error), {}), **retry_headers([body]), **(headers or {})}
    return json_response({"errors": [body]}, error.status, media_type=media_type, headers=headers)


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
    return await error_response(request, replacement, headers)
