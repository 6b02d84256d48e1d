"""Refuse operations before the application sees them: under overload, a refusal must cost next to nothing."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache

from starlette.types import Scope

from graphql_api.cli.process.request_scanner import RequestScanner
from graphql_api.errors import NotAcceptable
from graphql_api.server import (
    CORRELATION_HEADER,
    AdmissionController,
    correlation_id,
    get_request_state,
    negotiate_error_type,
    overloaded_response,
)

_FULL_SERVICE_HEADERS = frozenset({b"origin", b"expect"})
"""requests with these headers are refused by the application, which adds CORS headers or closes the connection"""
HeaderLines = Sequence[tuple[bytes, bytes]]


class EarlyRefusal:
    """Answers the operations of one server for which there is no place. The application would answer the same.

    `requests`: those that the application is working on. `default_headers`: those of all responses of the server.
    """

    def __init__(self, admission: AdmissionController, path: str, on_refused: Callable[[], object]) -> None:
        self._admission = admission
        self._path = path.encode("ascii")
        self._scanner = RequestScanner(self._path)
        self._on_refused = on_refused
        self._default_headers: HeaderLines = ()
        self._response_start = b""

    def unparsed_response(self, data: bytes, requests: int, default_headers: HeaderLines) -> bytes | None:
        """Return the response to the bytes of one plain request, or None if they must be parsed."""
        if not self._is_full(requests):
            return None
        request = self._scanner.scan(data)
        media_type = None if request is None else _media_type(request.accept)
        if request is None or media_type is None:
            return None
        return self._refuse(correlation_id(request.client_id), media_type, default_headers)

    def response(
        self, scope: Scope, path: bytes, requests: int, default_headers: HeaderLines, *, closes: bool
    ) -> bytes | None:
        """Return the response to a request, or None if the application must answer it.

        `closes`: whether the connection closes after the request.
        """
        if path != self._path or not self._is_full(requests):
            return None
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        accept = []
        for name, value in headers:
            if name in _FULL_SERVICE_HEADERS:
                return None
            if name == b"accept":
                accept.append(value.decode("latin-1"))
        media_type = _media_type(tuple(accept))
        if media_type is None:
            return None
        if closes:
            default_headers = [*default_headers, (b"connection", b"close")]
        return self._refuse(get_request_state(scope).correlation_id, media_type, default_headers)

    def _is_full(self, requests: int) -> bool:
        admission = self._admission
        return admission.is_full(max(0, requests - admission.in_flight - admission.queued))

    def _refuse(self, request_id: str, media_type: str, default_headers: HeaderLines) -> bytes:
        """Count a refusal, and return its response."""
        self._on_refused()
        if default_headers is not self._default_headers:  # uvicorn replaces them every second.
            self._default_headers = default_headers
            lines = b"".join(b"%b: %b\r\n" % header for header in default_headers)
            self._response_start = b"HTTP/1.1 503 Service Unavailable\r\n%b%b: " % (lines, _CORRELATION_NAME)
        rest = _rest_of_response(self._admission.refuse(), media_type)
        return self._response_start + request_id.encode("ascii") + rest


_CORRELATION_NAME = CORRELATION_HEADER.encode("ascii")


@lru_cache(maxsize=1024)
def _media_type(accept: tuple[str, ...]) -> str | None:
    """Return the media type of the response, or None if the client accepts none."""
    with suppress(NotAcceptable):
        return negotiate_error_type(accept)
    return None


@lru_cache(maxsize=1024)
def _rest_of_response(retry_after: int, media_type: str) -> bytes:
    """Return what follows the correlation id."""
    response = overloaded_response(retry_after, media_type)
    response.headers.add_vary_header("origin")
    headers = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
    return b"\r\n" + headers + b"\r\n" + bytes(response.body)
