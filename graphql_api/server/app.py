"""The ASGI application of a catalog: routes, middleware and error handlers."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from graphql_api.errors import ShardQLError
from graphql_api.server.auth import Authenticator
from graphql_api.server.cors import AllowOrigins, check_origins
from graphql_api.server.database_lifespan import DatabaseHolder, OpenDatabase
from graphql_api.server.error_responses import MaskInternalErrors, routing_error_response, shardql_error_response
from graphql_api.server.graphql_endpoint import METHODS, BrowserPage, ExplainPolicy, GraphQLEndpoint
from graphql_api.server.observability import OperationExecutor
from graphql_api.server.request_draining import DrainRequest

_DRAIN_FACTOR = 16
"""An oversized body is drained up to this multiple of the body limit, which keeps its connection usable."""
NO_AUTHENTICATION = Authenticator()


@dataclass(frozen=True, slots=True)
class WebOptions:
    """The HTTP options of the GraphQL endpoint."""

    path: str = "/graphql"
    max_body_bytes: int = 1 << 20
    body_deadline: float = 5.0
    """Seconds within which a whole request body must arrive."""
    cors_origins: tuple[str, ...] = ()
    explain: bool = True
    """Whether the header `x-explain: 1` is honoured."""
    explain_groups: frozenset[str] = frozenset()
    """Groups whose members may use `x-explain: 1`. Empty means every caller."""

    def __post_init__(self) -> None:
        check_origins(self.cors_origins)


def build_app(
    executor: OperationExecutor,
    open_database: OpenDatabase,
    options: WebOptions,
    extra_routes: Sequence[BaseRoute] = (),
    *,
    browser_page: BrowserPage | None = None,
    authenticator: Authenticator = NO_AUTHENTICATION,
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """Build the application: the GraphQL endpoint and the extra routes.

    Without an `authenticator`, every caller is anonymous. `browser_page` is served to browsers that open the path.
    `middleware` runs outside all other middleware, so it sees every response, errors included. It must be plain ASGI:
    a wrapper such as Starlette's `BaseHTTPMiddleware` would hide the disconnect of a client.
    """
    database = DatabaseHolder(open_database)
    endpoint = GraphQLEndpoint(
        executor,
        database,
        options.max_body_bytes,
        options.body_deadline,
        ExplainPolicy(options.explain, options.explain_groups),
        authenticator,
        browser_page,
    )
    routes: list[BaseRoute] = [Route(options.path, endpoint, methods=METHODS, name="graphql"), *extra_routes]
    if browser_page is not None and options.path != "/":
        routes.append(Route("/", _redirect_to_graphql, methods=["GET"]))
    app = Starlette(
        routes=routes,
        middleware=[
            *middleware,
            Middleware(DrainRequest, max_bytes=_DRAIN_FACTOR * options.max_body_bytes),
            Middleware(AllowOrigins, origins=options.cors_origins),
            Middleware(MaskInternalErrors),
        ],
        exception_handlers={ShardQLError: shardql_error_response, HTTPException: routing_error_response},
        lifespan=database.lifespan,
    )
    app.router.redirect_slashes = False
    app.state.opened = database
    return app


def _redirect_to_graphql(request: Request) -> Response:
    """Redirect the root path to GraphiQL, since people type only the host. The mount path is kept."""
    return RedirectResponse(request.url_for("graphql").path)
