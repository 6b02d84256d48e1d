"""`shardql doctor`: whether everything that a server stands on is as it should be."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import orjson
import typer

from graphql_api.cli.exit_codes import errors_told, print_anywhere

MARKS = {
    "fine": ("✓", typer.colors.GREEN),
    "note": ("·", typer.colors.BLUE),
    "finding": ("!", typer.colors.YELLOW),
    "wrong": ("✗", typer.colors.RED),
}


def doctor(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    *,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Which store to look at; the one that serve would take unless it is given."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every setting.")] = False,
) -> None:
    """Looks over catalog, schema, settings, trusted documents, keys, credentials, store and table. Changes nothing.

    Each line is a thing that is well (✓), that has a price worth knowing (·), that should be otherwise (!), or that
    cannot work (✗), with what to do.

    Exit codes: 0 all is well, 1 findings, 2 settings, 3 store, 4 catalog.

    Try it:

    ```
    shardql doctor graphql_api.examples.users:catalog --store sqlite:///users.db
    ```
    """
    from graphql_api.cli.doctor_checks import examine  # noqa: PLC0415 - the GraphQL engine, which few commands load

    with errors_told():
        found = asyncio.run(examine(address, store))
    if as_json:
        shown = {
            "exitCode": found.code,
            "checks": [asdict(check) for check in found.checks],
            "settings": [asdict(setting) for setting in found.settings],
        }
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
    else:
        print_anywhere()
        width = max(len(check.about) for check in found.checks)
        for check in found.checks:
            mark, colour = MARKS[check.standing]
            remedy = f" {check.remedy}" if check.remedy else ""
            typer.echo(f"{typer.style(mark, fg=colour)} {check.about:{width}}  {check.told}{remedy}")
    raise typer.Exit(found.code)
