"""The command line: `shardql <command>`, one module per command."""

import gc
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

COLLECTION_THRESHOLDS = (100_000, 20, 20)
"""new objects until the youngest are collected, and such collections until older ones are, too

Imports make hundreds of thousands of objects that stay. The operations in progress of a server have tens of thousands
under overload. Collections would only visit them.
"""
SUMMARIES = {
    "capacity": "Estimate the cost of records: bytes by property, shards, write units, and storage with all indexes.",
    "compare": "Compare the metrics of two moments or of two servers. Print what has changed, the worst first.",
    "doctor": "Check catalog, schema, settings, trusted documents, keys, credentials, store and table. Change nothing.",
    "explain": "Show the plan and the price of each search of a GraphQL query, without running it.",
    "export": "Write the records of an entity, or of one search, as JSON lines or CSV.",
    "load": "Load records from a file of JSON lines. Each replaces the record with its id.",
    "migrate": "Plan a migration: what the catalog changes in a table with records. Change nothing without --apply or "
    "--drop.",
    "new": "Create a project: a catalog of two entities with sample data, tests, a container file and a README.",
    "project": "Apply events from a file by the projections of a source. Each event is applied exactly once.",
    "reconcile": "Compare the lookups in a store of their own with the records. Change nothing without --apply.",
    "sample": "Write sample records of one entity as JSON lines, under stored names.",
    "serve": "Serve a catalog as GraphQL over HTTP, with GraphiQL for browsers, until Ctrl-C or SIGTERM.",
    "show": "Show the example catalog at work: searches over 17 shards, page by page, each with its explain output.",
    "stubs": "Write stubs, so that type checkers and editors know the arguments of each search, read and write.",
    "token": "Mint a bearer token that a server in development mode accepts, without an identity provider.",
    "verify": "Verify that stored items are what the table's elements derive from the records. Change nothing without "
    "--repair.",
    "schema": "Print the GraphQL schema of catalogs, and check it for changes that affect clients.",
    "table": "Create the table of a catalog, describe it, and write its CloudFormation template.",
}
"""commands and their summaries: the list of commands needs no import of their modules"""


def load_command(name: str) -> Any:
    """Import a command, or a group of commands."""
    definition = getattr(import_module(f"graphql_api.cli.commands.{name}"), name)
    if isinstance(definition, typer.Typer):
        application = definition
    else:
        application = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        application.command(name)(definition)
    command = typer.main.get_command(application)
    command.name = name
    return command


class CommandGroup(TyperGroup):
    """All commands, imported when they run. Expected errors end them with a message and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Import the command that the words name."""
        gc.set_threshold(*COLLECTION_THRESHOLDS)
        name, _, words = super().resolve_command(ctx, args)
        return name, load_command(str(name)), words

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from graphql_api.cli.common_options import with_names_of  # noqa: PLC0415 - slow import
        from graphql_api.cli.exit_codes import report_errors  # noqa: PLC0415 - slow import

        with report_errors(partial(with_names_of, [*ctx.args])):
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and how catalogs and stores are named."""
        from graphql_api.storage.engines import describe_store_urls  # noqa: PLC0415 - slow import

        self.epilog = (
            "A catalog is named as MODULE:CATALOG, for example graphql_api.examples.users:catalog. "
            f"A store is named by a URL: {describe_store_urls()}."
        )
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="shardql",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(*, requested: bool) -> None:
    if requested:
        from graphql_api.cli.package_versions import version_of  # noqa: PLC0415 - slow import

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


def _placeholder(name: str) -> Callable[[], None]:
    """Return what represents a command in the list of commands."""

    def command() -> None:
        raise AssertionError(f"{name} is imported before it runs")

    return command


for _name, _summary in SUMMARIES.items():
    app.command(_name, help=_summary)(_placeholder(_name))
