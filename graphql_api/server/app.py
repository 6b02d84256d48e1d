"""The ASGI application of a catalog."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from graphql_api.errors import ShardQLError
from graphql_api.server.auth import Identify
from graphql_api.server.cors import AllowOrigins, check_origins
from graphql_api.server.database_lifespan import OpenDatabase, Opened
from graphql_api.server.error_responses import MaskFailures, answer_expected, answer_routing
from graphql_api.server.graphql_endpoint import METHODS, Explains, GraphQLEndpoint, Page
from graphql_api.server.observability import Runs
from graphql_api.server.request_draining import DropLeftovers

_DROPPED = 16
"""times the limit of a body: so much of a larger one is read for nothing, to keep its connection"""
NO_CREDENTIALS = Identify()


@dataclass(frozen=True, slots=True)
class WebOptions:
    """What can be chosen about the way to the server."""

    path: str = "/graphql"
    body_limit: int = 1 << 20
    """bytes"""
    body_deadline: float = 5.0
    """seconds from the first byte that is waited for to the last"""
    cors_origins: tuple[str, ...] = ()
    explains: bool = True
    """whether the header `x-explain: 1` is heard"""
    explain_groups: frozenset[str] = frozenset()
    """and of whom: members of one of them; none: of everybody"""

    def __post_init__(self) -> None:
        check_origins(self.cors_origins)


def build_app(
    engine: Runs,
    open_database: OpenDatabase,
    options: WebOptions,
    extra_routes: Sequence[BaseRoute] = (),
    *,
    page: Page | None = None,
    identify: Identify = NO_CREDENTIALS,
    middleware: Sequence[Middleware] = (),
) -> Starlette:
    """The application: GraphQL at its path, further routes beside it.

    `identify` knows who asks; without it everybody is nobody. `page` answers browsers that open the path.
    `middleware` sees each request with its notes, and each answer, errors included; it must be plain ASGI, so that a
    client's leaving is still heard.
    """
    opened = Opened(open_database)
    explains = Explains(options.explains, options.explain_groups)
    endpoint = GraphQLEndpoint(engine, opened, options.body_limit, options.body_deadline, explains, identify, page)
    routes: list[BaseRoute] = [Route(options.path, endpoint, methods=METHODS, name="graphql"), *extra_routes]
    if page is not None and options.path != "/":
        routes.append(Route("/", _to_the_page, methods=["GET"]))
    app = Starlette(
        routes=routes,
        middleware=[
            *middleware,
            Middleware(DropLeftovers, most=_DROPPED * options.body_limit),
            Middleware(AllowOrigins, origins=options.cors_origins),
            Middleware(MaskFailures),
        ],
        exception_handlers={ShardQLError: answer_expected, HTTPException: answer_routing},
        lifespan=opened.lifespan,
    )
    app.router.redirect_slashes = False
    app.state.opened = opened
    return app


def _to_the_page(request: Request) -> Response:
    """People type the host alone; the way goes on below whatever the application is mounted at."""
    return RedirectResponse(request.url_for("graphql").path)
