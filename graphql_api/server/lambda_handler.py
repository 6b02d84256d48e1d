"""The handler of an AWS Lambda function: passes HTTP events to the application (docs/how-to/deploying.md)."""

import asyncio
from collections.abc import Mapping
from functools import cached_property
from logging import getLogger
from typing import Any

from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from graphql_api.codecs import write_json
from graphql_api.errors import InvalidRequest, InvalidSettings, InvalidValue, error_body
from graphql_api.model import Catalog
from graphql_api.schema import Graph
from graphql_api.server.app import application_of
from graphql_api.server.responses import GRAPHQL, JSON
from graphql_api.server.settings import read_settings

log = getLogger("shardql")

Event = Mapping[str, Any]

_TEXT_TYPES = ["text/", JSON, "application/javascript", GRAPHQL, "image/svg+xml"]
"""media types of bodies that a response to Lambda carries as text"""
_GZIP_MIN_BYTES = 1024
_GZIP_LEVEL = 4
"""a function has a fraction of a core"""


def aws_lambda(
    catalog: Catalog | Graph, store: str | None = None, *, base_path: str = "/", **settings: Any
) -> "LambdaHandler":
    """Return the handler of an AWS Lambda function that serves a catalog: `handler = aws_lambda(catalog)`.

    It answers events of function URLs, of HTTP and REST APIs of API Gateway, and of Application Load Balancers.
    `base_path` is a path prefix that API Gateway adds, such as the stage `/prod`. All other arguments are those of
    `asgi`. The database is opened with the first event, and stays open while the function is frozen.
    """
    return LambdaHandler(application_of(catalog, read_settings(store=store, **settings), warms=False), base_path)


class LambdaHandler:
    """Answers one event at a time, all of them on one event loop, as the runtime of Lambda calls it.

    Tasks in the background run only while an event is answered. None of them is needed: leases are checked, and
    renewed if necessary, by the requests themselves.
    """

    def __init__(self, app: Starlette, base_path: str = "/") -> None:
        try:
            from mangum import Mangum  # noqa: PLC0415 - only this handler needs the extra
        except ModuleNotFoundError as missing:
            remedy = "install it with pip install 'shardql[lambda]'"
            raise InvalidSettings([f"aws_lambda needs the package {missing.name}: {remedy}."]) from missing
        self._app = app
        self._base_path = base_path
        self._adapter_class = Mangum

    def __call__(self, event: Event, context: Any) -> dict[str, Any]:
        """Return the response to an event."""
        asyncio.set_event_loop(self._loop)  # Mangum runs the application on the loop of the thread.
        try:
            request = self._adapter.infer(event, context)
        except RuntimeError as unknown:
            raise InvalidValue(
                "The event is no HTTP request of a function URL, API Gateway or load balancer.", argument="event"
            ) from unknown
        try:
            assert request.scope
        except ValueError as problem:
            # A client may send headers that cannot be parsed, such as `Host: a:b`.
            log.warning("An event cannot be read as a request: %s", problem)
            return _refusal(InvalidRequest("The headers of the request are malformed: correct Host."))
        response: dict[str, Any] = self._adapter(event, context)
        return response

    def close(self) -> None:
        """Close the database. The runtime of Lambda never does; tests and other hosts may."""
        if "_loop" in vars(self):
            self._loop.run_until_complete(self._app.state.opened.close())
            self._loop.close()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    @cached_property
    def _adapter(self) -> Any:
        return self._adapter_class(
            _Compression(self._app),
            lifespan="off",  # Mangum would open and close the database for each event.
            api_gateway_base_path=self._base_path,
            text_mime_types=_TEXT_TYPES,
        )


class _Compression:
    """Compresses responses, except to REST APIs: those return a binary body as its base64 text, unless configured."""

    def __init__(self, app: ASGIApp) -> None:
        self._plain = app
        self._compressed = GZipMiddleware(app, minimum_size=_GZIP_MIN_BYTES, compresslevel=_GZIP_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = scope["aws.event"]
        is_rest_api = "resource" in event and "version" not in event
        await (self._plain if is_rest_api else self._compressed)(scope, receive, send)


def _refusal(error: InvalidRequest) -> dict[str, Any]:
    return {
        "statusCode": error.status,
        "headers": {"content-type": f"{JSON}; charset=utf-8", "cache-control": "no-store"},
        "body": write_json({"errors": [error_body(error)]}).decode(),
        "isBase64Encoded": False,
    }
