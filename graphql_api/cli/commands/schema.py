"""`shardql schema`: prints the GraphQL schema of catalogs, and says what a change of it does to clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from graphql_api.cli.exit_codes import FINDINGS, errors_told
from graphql_api.cli.file_suggestions import nearest_file
from graphql_api.errors import InvalidValue

if TYPE_CHECKING:
    from graphql_api.schema import SchemaChanges

schema = typer.Typer(
    help="Prints the GraphQL schema of catalogs, and says what a change of it does to clients.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

PRINTED = "schema.graphql"


@schema.command(name="print")
def print_schema(
    addresses: Annotated[
        list[str],
        typer.Argument(metavar="MODULE:CATALOG...", help="Where the catalogs are: graphql_api.examples.users:catalog."),
    ],
) -> None:
    """Prints a catalog's GraphQL schema in its own language, always in the same order.

    Several catalogs give one schema that offers what all of them offer: what they have in common stands there once,
    and a name that means two things is refused.

    Exit codes: 0 printed, 4 catalog.

    Try it:

    ```
    shardql schema print graphql_api.examples.users:catalog > schema.graphql
    ```
    """
    with errors_told():
        typer.echo(_text(addresses), nl=False)


@schema.command()
def check(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE:CATALOG... [FILE]",
            help="Where the catalogs are, and the schema as it was printed: schema.graphql unless it is given.",
        ),
    ],
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the file anew, after telling what changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compares the schema of catalogs with the printed one, and says which changes break clients and which may.

    A change is breaking where a query that was right may fail, dangerous where it may be answered otherwise, and safe
    where no client notices that does not ask for it.

    Exit codes: 0 equal or written anew, 1 they differ, 2 usage, 4 catalog.

    Try it:

    ```
    shardql schema check graphql_api.examples.users:catalog schema.graphql
    ```
    """
    with errors_told():
        addresses, file = _addresses_and_file(words)
        now = _text(addresses)
        changes = _changes(file, now, or_none=write)
        differs = changes is None or changes.differs
        if write and differs:
            file.write_text(now, "utf-8")
    if as_json:
        kinds = {
            kind: getattr(changes, kind) if changes is not None else () for kind in ("breaking", "dangerous", "safe")
        }
        shown = {"file": str(file), "differs": differs, "written": write and differs, **kinds}
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
    elif changes is None:
        typer.echo(f"{file} is written.")
    else:
        for kind in ("breaking", "dangerous"):
            for told in getattr(changes, kind):
                typer.echo(f"{kind:9} {told}")
        typer.echo(_verdict(file, addresses, changes, written=write))
    if differs and not write:
        raise typer.Exit(FINDINGS)


def _changes(file: Path, now: str, *, or_none: bool) -> "SchemaChanges | None":
    """What changed since the file was written; None, where that is admitted, if there is no schema in it."""
    from graphql_api.schema import compare  # noqa: PLC0415 - Strawberry, which few commands need to load

    try:
        return compare(file.read_text("utf-8"), now)
    except FileNotFoundError:
        problem = f"There is no file {file}.{nearest_file(file)}"
    except UnicodeDecodeError as broken:
        problem = f"{file} is no text in UTF-8: {broken.reason} at byte {broken.start}."
    except InvalidValue as broken:
        problem = f"{file} {broken.message}"
    if or_none:
        return None
    raise InvalidValue(f"{problem} The option --write writes it anew.")


def _verdict(file: Path, addresses: Sequence[str], changes: "SchemaChanges", *, written: bool) -> str:
    catalogs, safe = " and ".join(addresses), len(changes.safe)
    if not changes.differs:
        return f"{file} is the schema of {catalogs}."
    beside = f" There {'is 1 safe change' if safe == 1 else f'are {safe} safe changes'} besides." if safe else ""
    if written:
        return f"{file} is written anew.{beside}"
    breaks = "Clients break: deprecate what they use before it goes. " if changes.breaking else ""
    again = f"shardql schema check {' '.join(addresses)} {file} --write"
    return f"{file} is no longer the schema of {catalogs}.{beside} {breaks}If all this is meant: {again}"


def _text(addresses: Sequence[str]) -> str:
    from graphql_api.schema import print_sdl  # noqa: PLC0415 - as above
    from graphql_api.server import load_graph  # noqa: PLC0415 - as above

    return print_sdl({address: load_graph(address).schema for address in addresses})


def _addresses_and_file(words: Sequence[str]) -> tuple[list[str], Path]:
    """The last word is a file unless it is the address of a catalog, which has a colon."""
    *addresses, last = words
    if ":" in last or not addresses:
        return [*words], Path(PRINTED)
    return addresses, Path(last)
