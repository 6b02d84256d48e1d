"""The ASGI application of a catalog: checks its settings, builds it from them, and lists its routes and middleware."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route, WebSocketRoute

from graphql_api.connection import Secrets
from graphql_api.database import Database
from graphql_api.errors import InvalidSettings, ShardQLError
from graphql_api.model import Catalog, Entity, find_unrestricted_access, load_catalog, load_catalog_or_graph
from graphql_api.playground import CatalogDescription, catalog_title, graphiql_page, graphiql_routes, sample_tabs
from graphql_api.projections import EventSource
from graphql_api.schema import DocumentExecutor, Graph, StreamExecutor, StreamingExecutor
from graphql_api.server.admission_control import AdmissionController
from graphql_api.server.allowed_hosts import check_hosts
from graphql_api.server.auth import Authenticator, build_authenticator, credential_problems
from graphql_api.server.data_page import DataPage, path_to_grid, root_routes
from graphql_api.server.database_lifespan import DatabaseHolder, OpenDatabase, open_server_database, warm_connections
from graphql_api.server.event_endpoint import EVENTS_PATH, EventEndpoint
from graphql_api.server.graphql_endpoint import METHODS, BrowserPage, GraphQLEndpoint
from graphql_api.server.middleware import GuardRequests, check_origins
from graphql_api.server.observability import Instrumentation, OperationExecutor, log_unfinished_elements
from graphql_api.server.responses import error_response, routing_error_response
from graphql_api.server.secret_keys import resolve_secrets
from graphql_api.server.settings import (
    GRID_PATH,
    RESERVED_PATHS,
    Settings,
    errors_of_file,
    read_settings,
    variable_name,
)
from graphql_api.server.subscriptions import SubscriptionService
from graphql_api.server.websocket_endpoint import WebSocketEndpoint

log = logging.getLogger("shardql")
_DRAIN_FACTOR = 16
"""An oversized body is drained up to this multiple of the body limit, which keeps its connection usable."""


def asgi(catalog: Catalog | Graph, store: str | None = None, **settings: Any) -> Starlette:
    """Return the ASGI application of a catalog, for any ASGI server or for mounting in another application.

    Example: `asgi(catalog, "sqlite:///data.db", production=True, token_keys=…)`. Keyword arguments are the settings of
    docs/reference/settings.md; all others come from the environment. The database opens with the lifespan of the
    application, or without a lifespan with the first request. Until then nothing is written, and missing keys are no
    error: tools may import the module.
    """
    return application_of(catalog, read_settings(store=store, **settings))


def application_of(catalog: Catalog | Graph, settings: Settings, *, warms: bool = True) -> Starlette:
    """Return the application of a catalog with these settings. It `warms` the connections of its widest search."""
    graph = _as_graph(catalog)

    @cache
    def secrets() -> Secrets:
        return resolve_secrets(settings)[0]

    @asynccontextmanager
    async def open_database() -> AsyncIterator[Database]:
        if problems := [*settings_problems(settings)]:
            raise InvalidSettings(problems)
        warn_about_production(graph.catalog, settings)
        async with open_server_database(graph.catalog, settings, secrets()) as database:
            log_unfinished_elements(database)
            if warms:
                await warm_connections(database)
            yield database

    return create_application(graph, open_database, settings, Instrumentation(settings), secrets=secrets)


def settings_problems(settings: Settings) -> Iterator[str]:
    """Yield each reason why a server cannot start with this combination of settings, each valid by itself."""
    yield from _key_problems(settings)
    explain, explain_groups, documents = map(variable_name, ("explain", "explain_groups", "documents"))
    if settings.production and settings.explain and not settings.explain_groups:
        yield (
            f"Production limits explain output to named groups, since it shows tables and keys: "
            f"set {explain_groups}, or turn {explain} off. "
            f"With {variable_name('log_level')}=debug, the log has the same output."
        )
    if settings.explain_groups and not settings.explain:
        yield f"{explain_groups} names groups, but {explain} is off: remove one of them."
    yield from _grid_problems(settings)
    yield from credential_problems(settings)
    if settings.production and settings.store is None:
        yield f"Production needs a store: pass --store or set {variable_name('store')}."
    if settings.only_documents and settings.documents is None:
        yield (
            f"{variable_name('only_documents')} is on, but there are no trusted documents: name a file in {documents}."
        )
    if settings.path in RESERVED_PATHS:
        yield (
            f"{variable_name('path')} is {settings.path}, which is reserved for operations: "
            "choose another path for GraphQL."
        )
    if settings.read_only and settings.create_table:
        yield "A read-only server creates no table: leave out --create-table or the read-only mode."
    if settings.read_only and (settings.migrate or settings.adopt_table):
        option = "--migrate" if settings.migrate else "--adopt-table"
        yield f"A read-only server does not change the table: leave out {option} or the read-only mode."


def _grid_problems(settings: Settings) -> Iterator[str]:
    grid, groups = variable_name("grid"), variable_name("grid_groups")
    if settings.grid and settings.production and not settings.grid_groups:
        yield (
            f"Production limits the data page to named groups, since it shows the catalog: set {groups}, "
            f"or turn {grid} off."
        )
    if settings.grid_groups and not settings.grid:
        yield f"{groups} names groups, but {grid} is off: remove one of them."
    if settings.grid and settings.only_documents:
        yield f"The data page sends documents of its own: turn {grid} or {variable_name('only_documents')} off."
    if settings.grid and settings.path == GRID_PATH:
        yield f"{variable_name('path')} is {GRID_PATH}, the path of the data page: choose another, or turn {grid} off."


def _key_problems(settings: Settings) -> Iterator[str]:
    for name, purpose in (
        ("token_keys", "seals page tokens, the same on every server"),
        ("record_key", "signs record keys, the same on every server and never changed"),
    ):
        is_set, has_file = bool(getattr(settings, name)), getattr(settings, f"{name}_file") is not None
        variable, file_variable = variable_name(name), variable_name(f"{name}_file")
        if is_set and has_file:
            yield f"{variable} and {file_variable} are both set: keep one of them."
        if settings.production and not is_set and not has_file:
            yield (
                f"Production needs a key that {purpose}: set {variable} or {file_variable}. "
                "`openssl rand -base64 32` generates one."
            )


def warn_about_production(catalog: Catalog, settings: Settings) -> None:
    """Log warnings in production: entities that every caller may read or write, and names that are refused."""
    if not settings.production:
        return
    for warning in find_unrestricted_access([*catalog.entities.values()], is_written=not settings.read_only):
        log.warning("%s", warning.description)
    if not settings.allowed_hosts:
        log.warning(
            "Requests to names such as api.example.com are refused: list the names that clients use in %s.",
            variable_name("allowed_hosts"),
        )


def create_application(
    catalog: Catalog | Graph,
    open_database: OpenDatabase,
    settings: Settings,
    instrumentation: Instrumentation,
    sample_records: Iterable[Entity] = (),
    *,
    secrets: Callable[[], Secrets] | None = None,
) -> Starlette:
    """Create the application. The sample queries of GraphiQL use values of the `sample_records`.

    In development it also accepts development tokens that were minted with the `secrets`, which are read on first use.
    """
    graph = _as_graph(catalog)
    schema = graph.read_only_schema if settings.read_only else graph.schema
    executor = DocumentExecutor(
        schema,
        settings.limits(),
        introspection=settings.introspection,
        suggestions=settings.suggestions,
        federation_sdl=settings.federation_sdl,
        details=not settings.production,
        documents=read_trusted_documents(settings.documents) if settings.documents is not None else None,
        only_documents=settings.only_documents,
        compiled=settings.compiled_documents,
        read_unit_price=settings.read_unit_price,
        write_unit_price=settings.write_unit_price,
    )
    browser_page = None
    if settings.graphiql:
        tabs = sample_tabs(graph, sample_records, read_only=settings.read_only)
        browser_page = graphiql_page(catalog_title(graph.catalog), tabs, path_to_grid(settings))
    return build_app(
        instrumentation.instrument_executor(executor),
        instrumentation.instrument_database(open_database),
        settings,
        [*instrumentation.routes(), *(graphiql_routes(settings.path) if settings.graphiql else ())],
        browser_page=browser_page,
        authenticator=build_authenticator(settings, secrets),
        middleware=[instrumentation.middleware()],
        admission=AdmissionController(*settings.admission_limits(), instrumentation.admission_changed),
        streams=instrumentation.instrument_streams(StreamExecutor(executor)) if graph.has_subscriptions else None,
        on_subscriptions=instrumentation.subscriptions_changed,
        sources={} if settings.read_only else graph.sources,
        title=catalog_title(graph.catalog),
        description=CatalogDescription.of(graph, schema) if settings.grid else None,
    )


def read_trusted_documents(path: Path) -> Mapping[str, str]:
    """Read the trusted documents, by id."""
    name = variable_name("documents")
    with errors_of_file("documents", path):
        text = path.read_bytes()
    try:
        documents: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidSettings([f"{name} names {path}, which is not JSON: {error}."]) from error
    if not isinstance(documents, dict) or not all(isinstance(text, str) for text in documents.values()):
        raise InvalidSettings([f"{name} names {path}, which is not a JSON object of queries by id."])
    return documents


def load_graph(address: str) -> Graph:
    """Load the schema at `module:attribute`, which holds a `Catalog`, or a `Graph` that extends one."""
    declared = load_catalog_or_graph(address)
    return _as_graph(declared if isinstance(declared, Graph) else load_catalog(address))


def _as_graph(catalog: Catalog | Graph) -> Graph:
    return catalog if isinstance(catalog, Graph) else Graph(catalog)


def build_app(
    executor: OperationExecutor,
    open_database: OpenDatabase,
    settings: Settings,
    extra_routes: Sequence[BaseRoute] = (),
    *,
    browser_page: BrowserPage | None = None,
    authenticator: Authenticator | None = None,
    middleware: Sequence[Middleware] = (),
    body_seconds: float = 5.0,
    admission: AdmissionController | None = None,
    streams: StreamingExecutor | None = None,
    on_subscriptions: Callable[[int], object] = lambda _: None,
    sources: Mapping[str, EventSource] = MappingProxyType({}),
    title: str = "ShardQL",
    description: CatalogDescription | None = None,
) -> Starlette:
    """Build the application: the GraphQL endpoint, that of events for `sources` with a rule, and the extra routes.

    Without an `authenticator`, every caller is anonymous. `browser_page` is served to browsers that open the path.
    `admission` limits the operations in progress; by default the settings describe it. `streams` executes
    subscriptions; without it, there are no streams of events and no WebSocket connections. `on_subscriptions` receives
    the number of open subscriptions.
    `description` is served to the data page, which is off without it.
    `middleware` runs outside all other middleware, so it sees every response, errors included. It must be plain ASGI:
    a wrapper such as Starlette's `BaseHTTPMiddleware` would hide the disconnect of a client.
    """
    check_origins(settings.cors_origins)
    check_hosts(settings.allowed_hosts)
    database = DatabaseHolder(open_database)
    admission = admission or AdmissionController(*settings.admission_limits())
    authenticator = authenticator or Authenticator()
    subscriptions = None
    if streams is not None:
        subscriptions = SubscriptionService(streams, database, admission, settings.max_subscriptions, on_subscriptions)
    endpoint = GraphQLEndpoint(
        executor, database, settings, body_seconds, authenticator, admission, browser_page, subscriptions
    )
    routes: list[BaseRoute] = [Route(settings.path, endpoint, methods=METHODS, name="graphql"), *extra_routes]
    if subscriptions is not None:
        socket_endpoint = WebSocketEndpoint(subscriptions, authenticator, settings)
        routes.append(WebSocketRoute(settings.path, socket_endpoint.respond, name="subscriptions"))
    posted = {name: source for name, source in sources.items() if source.allow is not None}
    if posted:
        events = EventEndpoint(
            posted, database, settings, body_seconds, authenticator, admission, endpoint.large_bodies
        )
        routes.append(Route(EVENTS_PATH, events.respond, methods=["POST"]))
    if description is not None:
        routes += DataPage(title, description, settings, database, authenticator).routes()
    routes += root_routes(title, settings, graphiql=browser_page is not None, grid=description is not None)
    app = Starlette(
        routes=routes,
        middleware=[
            *middleware,
            Middleware(
                GuardRequests,
                origins=settings.cors_origins,
                hosts=(*settings.allowed_hosts, settings.host),
                max_bytes=_DRAIN_FACTOR * settings.max_body_bytes,
            ),
        ],
        exception_handlers={ShardQLError: error_response, HTTPException: routing_error_response},
        lifespan=database.lifespan,
    )
    app.router.redirect_slashes = False
    app.state.opened = database
    app.state.admission = admission
    app.state.subscriptions = subscriptions
    return app
