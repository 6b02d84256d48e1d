"""The command line: `shardql <command>`, one module per command."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graphql_api.cli.commands.capacity import capacity
from graphql_api.cli.commands.doctor import doctor
from graphql_api.cli.commands.explain import explain
from graphql_api.cli.commands.load import load
from graphql_api.cli.commands.migrate import migrate
from graphql_api.cli.commands.new import new
from graphql_api.cli.commands.sample import sample
from graphql_api.cli.commands.schema import schema
from graphql_api.cli.commands.serve import serve
from graphql_api.cli.commands.show import show
from graphql_api.cli.commands.table import table
from graphql_api.cli.commands.token import token
from graphql_api.cli.common_options import version_of
from graphql_api.cli.exit_codes import report_errors
from graphql_api.storage.engines import describe_store_urls


class ErrorReportingGroup(TyperGroup):
    """All commands: expected errors end them with a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with report_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="shardql",
    cls=ErrorReportingGroup,
    epilog="A catalog is named as MODULE:CATALOG, for example graphql_api.examples.users:catalog. A store is named by "
    f"a URL: {describe_store_urls()}.",
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
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Exact search over any number of shards of a single-table database, declared once in Python."""


for command in (capacity, doctor, explain, load, migrate, new, sample, serve, show, token):
    app.command()(command)
app.add_typer(schema, name="schema")
app.add_typer(table, name="table")
