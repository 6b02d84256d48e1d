"""`shardql serve`: runs the GraphQL server of a catalog."""

from typing import Annotated

import typer

from graphql_api.cli.common_options import STORE_URLS, AdoptTable, CatalogAddress, LookupStoreUrl, option


def serve(
    address: CatalogAddress,
    *,
    store: Annotated[
        str | None, option("URL", f"Store: {STORE_URLS}; in development by default sqlite:///shardql.db.")
    ] = None,
    lookup_store: LookupStoreUrl = None,
    host: Annotated[str | None, option("ADDRESS", "Address to listen on, by default 127.0.0.1.")] = None,
    port: Annotated[int | None, option("N", "Port to listen on, by default 8000; 0 chooses a free port.")] = None,
    production: Annotated[
        bool | None,
        typer.Option(
            "--production/--development",
            help="Production mode: introspection, suggestions and GraphiQL are off; a store and keys are required.",
        ),
    ] = None,
    create_table: Annotated[
        bool | None,
        typer.Option(
            "--create-table/--no-create-table",
            help="Whether to create a missing table, and the indexes of new entities, by default only in SQLite.",
        ),
    ] = None,
    read_only: Annotated[bool | None, typer.Option("--read-only", help="Refuse all writes.")] = None,
    migrate: Annotated[
        bool | None,
        typer.Option(
            "--migrate/--no-migrate",
            help="Whether to build new indexes and constraints first, by default only in SQLite and in development.",
        ),
    ] = None,
    adopt_table: AdoptTable = None,
    workers: Annotated[int | None, option("N", "Number of worker processes, by default 1.")] = None,
    log_format: Annotated[str | None, option("json|text", "Format of the log on the error stream.")] = None,
    log_level: Annotated[str | None, option("LEVEL", "Lowest level to log: debug, info, warning or error.")] = None,
    sample: Annotated[int | None, option("N", "Write N sample records first, unless they exist.", min=1)] = None,
) -> None:
    """Serve a catalog as GraphQL over HTTP, with GraphiQL for browsers, until Ctrl-C or SIGTERM.

    Every option, and more, can be set in the environment as SHARDQL_…: docs/reference/settings.md lists all settings.
    The log goes to the error stream. On a stop signal, accepted requests are finished and the exit code is 0.

    Exit codes: 0 stopped, 2 usage or settings, 3 store, 4 catalog.

    Try it:

    ```
    shardql serve graphql_api.examples.users:catalog --sample 5000
    ```
    """
    from graphql_api.cli.process.serve_startup import start_server  # noqa: PLC0415 - slow import, only needed here

    code = start_server(
        address,
        sample,
        store=store,
        lookup_store=lookup_store,
        host=host,
        port=port,
        production=production,
        create_table=create_table,
        read_only=read_only,
        migrate=migrate,
        adopt_table=adopt_table,
        workers=workers,
        log_format=log_format,
        log_level=log_level,
    )
    raise typer.Exit(code)
