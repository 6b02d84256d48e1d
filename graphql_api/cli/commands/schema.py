"""`shardql schema`: prints the GraphQL schema of catalogs, and checks it for changes that affect clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphql_api.cli.common_options import JsonOutput
from graphql_api.cli.exit_codes import FINDINGS, suggest_file
from graphql_api.cli.terminal_output import print_json
from graphql_api.errors import InvalidValue

if TYPE_CHECKING:
    from graphql_api.schema import SchemaChanges

schema = typer.Typer(
    help="Print the GraphQL schema of catalogs, and check it for changes that affect clients.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

DEFAULT_FILE = "schema.graphql"


@schema.command(name="print")
def print_schema(
    addresses: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE:CATALOG...", help="One or more catalogs, for example graphql_api.examples.users:catalog."
        ),
    ],
) -> None:
    """Print the GraphQL schema of a catalog in SDL, always in the same order.

    Several catalogs give one merged schema. Definitions that they share appear once; conflicting definitions of one
    name are refused.

    Exit codes: 0 printed, 4 catalog.

    Try it:

    ```
    shardql schema print graphql_api.examples.users:catalog > schema.graphql
    ```
    """
    typer.echo(_sdl(addresses), nl=False)


@schema.command()
def check(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE:CATALOG... [FILE]",
            help="One or more catalogs, and the file with the printed schema, by default schema.graphql.",
        ),
    ],
    *,
    write: Annotated[bool, typer.Option("--write", help="Update the file, after printing the changes.")] = False,
    as_json: JsonOutput = False,
) -> None:
    """Compare the schema of catalogs with the printed one, and classify the changes.

    A change is breaking if a valid query may fail, dangerous if a query may be answered differently, and safe
    otherwise.

    Exit codes: 0 equal or updated, 1 different, 2 usage, 4 catalog.

    Try it:

    ```
    shardql schema check graphql_api.examples.users:catalog schema.graphql
    ```
    """
    # The last argument is a file unless it has a colon, as addresses of catalogs do.
    has_file = len(arguments) > 1 and ":" not in arguments[-1]
    *addresses, name = arguments if has_file else [*arguments, DEFAULT_FILE]
    file = Path(name)
    current = _sdl(addresses)
    changes = _compare(file, current, missing_ok=write)
    differs = changes is None or changes.differs
    if write and differs:
        file.write_text(current, "utf-8")
    if as_json:
        kinds = {kind: getattr(changes, kind, ()) for kind in ("breaking", "dangerous", "safe")}
        print_json({"file": str(file), "differs": differs, "written": write and differs, **kinds})
    elif changes is None:
        typer.echo(f"{file} is written.")
    else:
        for kind in ("breaking", "dangerous"):
            for change in getattr(changes, kind):
                typer.echo(f"{kind:9} {change}")
        typer.echo(_summary(file, addresses, changes, written=write))
    if differs and not write:
        raise typer.Exit(FINDINGS)


def _compare(file: Path, current: str, *, missing_ok: bool) -> "SchemaChanges | None":
    """Return the changes since the file was written. With `missing_ok`, return None if it contains no schema."""
    from graphql_api.schema import compare_schemas  # noqa: PLC0415 - slow import that few commands need

    try:
        return compare_schemas(file.read_text("utf-8"), current)
    except FileNotFoundError:
        problem = f"There is no file {file}.{suggest_file(file)}"
    except UnicodeDecodeError as error:
        problem = f"{file} is not UTF-8 text: {error.reason} at byte {error.start}."
    except InvalidValue as error:
        problem = f"{file} {error.message}"
    if missing_ok:
        return None
    raise InvalidValue(f"{problem} The option --write writes a new one.")


def _summary(file: Path, addresses: Sequence[str], changes: "SchemaChanges", *, written: bool) -> str:
    catalogs, safe = " and ".join(addresses), len(changes.safe)
    if not changes.differs:
        return f"{file} is the schema of {catalogs}."
    also = f" There {'is also 1 safe change' if safe == 1 else f'are also {safe} safe changes'}." if safe else ""
    if written:
        return f"{file} is updated.{also}"
    breaking = "Clients will break: deprecate fields before you remove them. " if changes.breaking else ""
    command = f"shardql schema check {' '.join(addresses)} {file} --write"
    return f"{file} is no longer the schema of {catalogs}.{also} {breaking}To accept all changes: {command}"


def _sdl(addresses: Sequence[str]) -> str:
    from graphql_api.schema import print_sdl  # noqa: PLC0415 - slow import that few commands need
    from graphql_api.server import load_graph  # noqa: PLC0415 - slow import that few commands need

    return print_sdl({address: load_graph(address).schema for address in addresses})
