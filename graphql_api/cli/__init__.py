"""The command line: `shardql <command>`, one module per command."""

from typing import Annotated

import typer

from graphql_api.cli.commands.capacity import capacity
from graphql_api.cli.commands.doctor import doctor
from graphql_api.cli.commands.explain import explain
from graphql_api.cli.commands.load import load
from graphql_api.cli.commands.new import new
from graphql_api.cli.commands.sample import sample
from graphql_api.cli.commands.schema import schema
from graphql_api.cli.commands.serve import serve
from graphql_api.cli.commands.show import show
from graphql_api.cli.commands.table import table
from graphql_api.cli.commands.token import token
from graphql_api.cli.doctor_checks import version_of

app = typer.Typer(
    name="shardql",
    epilog="A catalog is named as MODULE:CATALOG, for example graphql_api.examples.users:catalog. A store is named by "
    "a URL: sqlite:///relative.db, sqlite:////absolute.db or dynamodb://table?region=eu-west-1.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(*, requested: bool) -> None:
    if requested:
        typer.echo(f"shardql {version_of('shardql')}")
        raise typer.Exit


@app.callback()
def shardql(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Exact search over any number of shards of a single-table database, declared once in Python."""


app.command()(capacity)
app.command()(doctor)
app.command()(explain)
app.command()(load)
app.command()(new)
app.command()(sample)
app.command()(serve)
app.command()(show)
app.command()(token)
app.add_typer(schema, name="schema")
app.add_typer(table, name="table")
