"""`shardql serve`: the GraphQL server of a catalog."""

from typing import Annotated

import typer

from graphql_api.cli.exit_codes import errors_told


def serve(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    *,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the records are: sqlite:///relative.db or dynamodb://table?region=eu-west-1; in development "
            "sqlite:///shardql.db unless it is given.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to listen: 127.0.0.1 unless it is given.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="The port, 8000 unless it is given; 0 takes a free one.")
    ] = None,
    production: Annotated[
        bool | None,
        typer.Option(
            "--production/--development",
            help="Production: introspection, suggestions and GraphiQL are off, a store and keys are needed.",
            show_default=False,
        ),
    ] = None,
    create_table: Annotated[
        bool | None,
        typer.Option(
            "--create-table/--no-create-table",
            help="Whether a missing table or index is made; SQLite does so unless told otherwise.",
            show_default=False,
        ),
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only", help="Nothing can be written.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="How many processes answer, 1 unless it is given.")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="json|text", help="How the log is written to the error stream.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="What is logged: debug, info, warning or error.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Fill the store with so many sample records first, once.")
    ] = None,
) -> None:
    """Serves a catalog by GraphQL over HTTP, with GraphiQL for browsers, until Ctrl-C or SIGTERM.

    Every option, and more, can be set in the environment as SHARDQL_…: docs/settings.md lists all settings. The log
    goes to the error stream. A stop finishes the requests that were accepted and ends with 0.

    Exit codes: 0 stopped, 2 usage or settings, 3 store, 4 catalog.

    Try it:

    ```
    shardql serve graphql_api.examples.users:catalog --sample 5000
    ```
    """
    from graphql_api.cli.process.serve_startup import start  # noqa: PLC0415 - the whole server, which no other command needs to load

    with errors_told():
        code = start(
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
