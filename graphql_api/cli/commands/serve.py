"""`shardql serve`: runs the GraphQL server of a catalog."""

from typing import Annotated

import typer

from graphql_api.cli.common_options import CatalogAddress
from graphql_api.cli.exit_codes import report_errors


def serve(
    address: CatalogAddress,
    *,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Store: sqlite:///relative.db or dynamodb://table?region=eu-west-1; in development by default "
            "sqlite:///shardql.db.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on, by default 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port to listen on, by default 8000; 0 chooses a free port.")
    ] = None,
    production: Annotated[
        bool | None,
        typer.Option(
            "--production/--development",
            help="Production mode: introspection, suggestions and GraphiQL are off; a store and keys are required.",
            show_default=False,
        ),
    ] = None,
    create_table: Annotated[
        bool | None,
        typer.Option(
            "--create-table/--no-create-table",
            help="Whether to create a missing table or index, by default only in SQLite.",
            show_default=False,
        ),
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only", help="Refuse all writes.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Number of worker processes, by default 1.")] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="json|text", help="Format of the log on the error stream.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Lowest level to log: debug, info, warning or error.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Write N sample records first, unless they exist."),
    ] = None,
) -> None:
    """Serve a catalog as GraphQL over HTTP, with GraphiQL for browsers, until Ctrl-C or SIGTERM.

    Every option, and more, can be set in the environment as SHARDQL_…: docs/settings.md lists all settings. The log
    goes to the error stream. On a stop signal, accepted requests are finished and the exit code is 0.

    Exit codes: 0 stopped, 2 usage or settings, 3 store, 4 catalog.

    Try it:

    ```
    shardql serve graphql_api.examples.users:catalog --sample 5000
    ```
    """
    from graphql_api.cli.process.serve_startup import start_server  # noqa: PLC0415 - slow import, only needed here

    with report_errors():
        code = start_server(
            address,
            sample,
            store=store,
            host=host,
            port=port,
            production=production,
            create_table=create_table,
            read_only=read_only,
            workers=workers,
            log_format=log_format,
            log_level=log_level,
        )
    raise typer.Exit(code)
