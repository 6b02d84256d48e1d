"""Start-up of a server: builds the application from a catalog and the settings."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette

from graphql_api.connection import Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.errors import InvalidSettings
from graphql_api.model import Catalog, Entity, find_unrestricted_access, load_catalog, load_catalog_or_graph
from graphql_api.playground import catalog_title, graphiql_page, graphiql_routes, sample_tabs
from graphql_api.schema import DocumentExecutor, Graph
from graphql_api.server.app import WebOptions, build_app
from graphql_api.server.auth import build_authenticator
from graphql_api.server.database_lifespan import OpenDatabase
from graphql_api.server.observability import Instrumentation, create_tracing
from graphql_api.server.secret_keys import resolve_secrets
from graphql_api.server.settings import Settings, read_settings, variable_name
from graphql_api.server.settings_checks import settings_problems

log = logging.getLogger("shardql")


def asgi(catalog: Catalog | Graph, store: str | None = None, **settings: Any) -> Starlette:
    """Return the ASGI application of a catalog, for any ASGI server or for mounting in another application.

    Example: `asgi(catalog, "sqlite:///data.db", production=True, token_keys=…)`. Keyword arguments are the settings of
    docs/settings.md; all others come from the environment. The database opens with the lifespan of the application.
    Without a lifespan, it opens with the first request.
    """
    graph = _as_graph(catalog)
    resolved = read_settings(store=store, **settings)
    problems = [*settings_problems(resolved)]
    if problems:
        raise InvalidSettings(problems)
    secrets, _ = resolve_secrets(resolved)
    warn_about_unrestricted_access(graph.catalog, resolved)

    def open_database() -> AbstractAsyncContextManager[Database]:
        return open_server_database(graph.catalog, resolved, secrets)

    return create_application(graph, open_database, resolved, create_instrumentation(resolved), secrets=secrets)


def warn_about_unrestricted_access(catalog: Catalog, settings: Settings) -> None:
    """Log a warning for entities that every caller may read or write by default. Production mode only."""
    if settings.production:
        for warning in find_unrestricted_access([*catalog.entities.values()], is_written=not settings.read_only):
            log.warning("%s", warning.description)


def open_server_database(
    catalog: Catalog, settings: Settings, secrets: Secrets
) -> AbstractAsyncContextManager[Database]:
    """Open the database of a server. Create or extend its table if the settings allow it."""
    return open_catalog(
        catalog,
        settings.store_url,
        secrets=secrets,
        create_table=settings.create_table,
        read_only=settings.read_only,
    )


def create_instrumentation(settings: Settings) -> Instrumentation:
    """Create the health checks, metrics, request log and tracing of a server."""
    return Instrumentation(
        path=settings.path,
        ready_seconds=settings.ready_seconds,
        metrics=settings.metrics,
        tracing=create_tracing() if settings.tracing else None,
    )


def create_application(
    catalog: Catalog | Graph,
    open_database: OpenDatabase,
    settings: Settings,
    instrumentation: Instrumentation,
    sample_records: Iterable[Entity] = (),
    *,
    secrets: Secrets | None = None,
) -> Starlette:
    """Create the application. The sample queries of GraphiQL use values of the `sample_records`.

    In development it also accepts development tokens that were minted with the `secrets`.
    """
    graph = _as_graph(catalog)
    executor = DocumentExecutor(
        graph.read_only_schema if settings.read_only else graph.schema,
        settings.limits(),
        introspection=settings.introspection,
        suggestions=settings.suggestions,
        details=not settings.production,
        documents=read_trusted_documents(settings.documents) if settings.documents is not None else None,
        only_documents=settings.only_documents,
        read_unit_price=settings.read_unit_price,
    )
    browser_page = None
    if settings.graphiql:
        tabs = sample_tabs(graph, sample_records, read_only=settings.read_only)
        browser_page = graphiql_page(catalog_title(graph.catalog), tabs)
    options = WebOptions(
        path=settings.path,
        max_body_bytes=settings.max_body_bytes,
        cors_origins=settings.cors_origins,
        explain=settings.explain,
        explain_groups=frozenset(settings.explain_groups),
    )
    return build_app(
        instrumentation.instrument_executor(executor),
        instrumentation.instrument_database(open_database),
        options,
        [*instrumentation.routes(), *(graphiql_routes(settings.path) if settings.graphiql else ())],
        browser_page=browser_page,
        authenticator=build_authenticator(settings, secrets),
        middleware=[instrumentation.middleware()],
    )


def read_trusted_documents(path: Path) -> Mapping[str, str]:
    """Read the trusted documents, by id."""
    name = variable_name("documents")
    try:
        documents: Any = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidSettings([f"{name} names {path}: {error.strerror}."]) from error
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
