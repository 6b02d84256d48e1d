"""The server of a catalog: the application that settings describe, over a database."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette

from graphql_api.database import Database
from graphql_api.errors import InvalidSettings
from graphql_api.model import Catalog, Entity, left_open, load_catalog, load_declared
from graphql_api.opening import Secrets, open_catalog
from graphql_api.playground import graphiql_page, graphiql_routes, tabs_of, title_of
from graphql_api.schema import Engine, Graph
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.auth import identify_of
from graphql_api.server.database_lifespan import OpenDatabase
from graphql_api.server.development_keys import token_secrets
from graphql_api.server.observability import Operations, open_tracing
from graphql_api.server.settings import Settings, read_settings, variable
from graphql_api.server.settings_checks import unfit

log = logging.getLogger("shardql")


def asgi(catalog: Catalog | Graph, store: str | None = None, **settings: Any) -> Starlette:
    """The server of a catalog, for any ASGI server to run, or to mount in another application.

    `asgi(catalog, "sqlite:///data.db", production=True, token_keys=…)`: every setting of docs/settings.md can be given,
    and those that are not come from the environment. The database opens with the application's lifespan, or with the
    first request where nobody runs that.
    """
    graph = _graph(catalog)
    chosen = read_settings(store=store, **settings)
    problems = [*unfit(chosen)]
    if problems:
        raise InvalidSettings(problems)
    secrets, _ = token_secrets(chosen)
    tell_what_is_open(graph.catalog, chosen)

    def opening() -> AbstractAsyncContextManager[Database]:
        return open_served(graph.catalog, chosen, secrets)

    return application(graph, opening, chosen, operations_of(chosen), secrets=secrets)


def tell_what_is_open(catalog: Catalog, settings: Settings) -> None:
    """In production, what everybody may read or write has to be meant so."""
    if settings.production:
        for unsaid in left_open([*catalog.entities.values()], is_written=not settings.read_only):
            log.warning("%s", unsaid.told)


def open_served(catalog: Catalog, settings: Settings, secrets: Secrets) -> AbstractAsyncContextManager[Database]:
    """The database of a server, made or completed as the settings say."""
    return open_catalog(
        catalog,
        settings.store_url,
        secrets=secrets,
        create_table=settings.create_table,
        read_only=settings.read_only,
    )


def operations_of(settings: Settings) -> Operations:
    """What the people who run the server see of it."""
    return Operations(
        path=settings.path,
        ready_seconds=settings.ready_seconds,
        metrics=settings.metrics,
        tracing=open_tracing() if settings.tracing else None,
    )


def application(
    declared: Catalog | Graph,
    open_database: OpenDatabase,
    settings: Settings,
    operations: Operations,
    records: Iterable[Entity] = (),
    *,
    secrets: Secrets | None = None,
) -> Starlette:
    """The application, watched by `operations`; the queries that GraphiQL begins with find some of the `records`.

    In development, tokens that were minted with the `secrets` are taken too.
    """
    graph = _graph(declared)
    engine = Engine(
        graph.read_only_schema if settings.read_only else graph.schema,
        settings.limits(),
        introspection=settings.introspection,
        suggestions=settings.suggestions,
        details=not settings.production,
        documents=read_documents(settings.documents) if settings.documents is not None else None,
        only_documents=settings.only_documents,
        read_unit_price=settings.read_unit_price,
    )
    page = None
    if settings.graphiql:
        page = graphiql_page(title_of(graph.catalog), tabs_of(graph, records, read_only=settings.read_only))
    options = WebOptions(
        path=settings.path,
        body_limit=settings.max_body_bytes,
        cors_origins=settings.cors_origins,
        explains=settings.explain,
        explain_groups=frozenset(settings.explain_groups),
    )
    return build_app(
        operations.engine(engine),
        operations.opening(open_database),
        options,
        [*operations.routes(), *(graphiql_routes(settings.path) if settings.graphiql else ())],
        page=page,
        identify=identify_of(settings, secrets),
        middleware=[operations.middleware()],
    )


def read_documents(path: Path) -> Mapping[str, str]:
    """Trusted documents by their ids."""
    name = variable("documents")
    try:
        found: Any = orjson.loads(path.read_bytes())
    except OSError as problem:
        raise InvalidSettings([f"{name} names {path}: {problem.strerror}."]) from problem
    except orjson.JSONDecodeError as problem:
        raise InvalidSettings([f"{name} names {path}, which is not JSON: {problem}."]) from problem
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise InvalidSettings([f"{name} names {path}, which is not an object of queries by their ids."])
    return found


def load_graph(address: str) -> Graph:
    """The schema at `module:attribute`, where a catalog stands or a `Graph` with additions to one."""
    declared = load_declared(address)
    return _graph(declared if isinstance(declared, Graph) else load_catalog(address))


def _graph(declared: Catalog | Graph) -> Graph:
    return declared if isinstance(declared, Graph) else Graph(declared)
