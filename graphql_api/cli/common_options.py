"""Arguments and options that several commands share."""

from typing import Annotated

import typer

CatalogAddress = Annotated[
    str, typer.Argument(metavar="MODULE:CATALOG", help="The catalog, for example graphql_api.examples.users:catalog.")
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON.")]
