"""`shardql doctor`: checks everything that a server needs."""

import asyncio
from typing import Annotated

import typer

from graphql_api.cli.common_options import CatalogAddress, LookupStoreUrl, option
from graphql_api.cli.terminal_output import print_json, replace_unencodable_output

MARKS = {
    "fine": ("✓", typer.colors.GREEN),
    "note": ("·", typer.colors.BLUE),
    "finding": ("!", typer.colors.YELLOW),
    "wrong": ("✗", typer.colors.RED),
}


def doctor(
    address: CatalogAddress,
    *,
    store: Annotated[str | None, option("URL", "Store to check, by default the one that serve would use.")] = None,
    lookup_store: LookupStoreUrl = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every setting.")] = False,
) -> None:
    """Check catalog, schema, settings, trusted documents, keys, credentials, store and table. Change nothing.

    Each line reports something that is in order (✓), has a cost or a risk (·), should be changed (!), or cannot work
    (✗), with a remedy.

    Exit codes: 0 no findings, 1 findings, 2 settings, 3 store, 4 catalog.

    Try it:

    ```
    shardql doctor graphql_api.examples.users:catalog --store sqlite:///users.db
    ```
    """
    from graphql_api.cli.doctor_checks import run_checks  # noqa: PLC0415 - slow import that few commands need

    report = asyncio.run(run_checks(address, store, lookup_store))
    if as_json:
        checks = [
            {"topic": check.topic, "status": check.status, "message": check.message, "remedy": check.remedy}
            for check in report.checks
        ]
        print_json({"exitCode": report.code, "checks": checks, "settings": report.settings})
    else:
        replace_unencodable_output()
        width = max(len(check.topic) for check in report.checks)
        for check in report.checks:
            mark, colour = MARKS[check.status]
            remedy = f" {check.remedy}" if check.remedy else ""
            typer.echo(f"{typer.style(mark, fg=colour)} {check.topic:{width}}  {check.message}{remedy}")
    raise typer.Exit(report.code)
