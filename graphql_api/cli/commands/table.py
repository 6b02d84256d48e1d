"""`shardql table`: makes a table, says what one is like, and writes the CloudFormation template for it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from graphql_api.cli.exit_codes import FINDINGS, errors_told
from graphql_api.clock import system_clock
from graphql_api.evolution import admit_table, in_words, projection_words
from graphql_api.model import Catalog, load_catalog
from graphql_api.ops import TableState, as_yaml, cloudformation_template, differences, index_states, read_state
from graphql_api.storage.engines import makes_tables, open_store

table = typer.Typer(
    help="Makes the table of a catalog, says what one is like, and writes a template for it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Address = Annotated[
    str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
]
StoreUrl = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Which table: dynamodb://users?region=eu-west-1, sqlite:///relative.db or sqlite:////abs.db.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


# --- create ----------------------------------------------------------------------------------------------------


@table.command()
def create(address: Address, *, store: StoreUrl, as_json: Json = False) -> None:
    """Makes the table of a catalog, or the indexes that one lacks, and records its format and shard generations.

    What is there already stays as it is, so the command may be given again at any time. It returns when all indexes
    hold all records.

    Exit codes: 0 the table fits, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql table create graphql_api.examples.users:catalog --store "dynamodb://users?region=eu-west-1"
    ```
    """
    with errors_told():
        before, after = asyncio.run(_create(load_catalog(address), store))
    added = _names(after, but=before)
    recorded = {name: space for name, space in after.spaces.items() if before.spaces.get(name) != space}
    if as_json:
        made = {"madeTable": before.definition is None, "addedIndexes": added, "recorded": recorded}
        typer.echo(orjson.dumps(made, default=int, option=orjson.OPT_INDENT_2))
        return
    if before.definition is None:
        typer.echo(f"Made the table with {_counted(added)}.")
    elif added:
        typer.echo(f"Added {_counted(added)}.")
    if recorded:
        typer.echo(f"Recorded format {after.format} and the shard generations {_spaces(recorded)}.")
    if before.definition is not None and not added and not recorded:
        typer.echo("Nothing to do: the table has all that the catalog needs.")


async def _create(catalog: Catalog, url: str) -> tuple[TableState, TableState]:
    store = await open_store(url)
    try:
        before = await read_state(store)
        with Console(stderr=True).status("making what is missing, and filling it"):
            await admit_table(store, catalog, system_clock())
        return before, await read_state(store)
    finally:
        await store.close()


def _names(state: TableState, *, but: TableState) -> list[str]:
    """The indexes of a table that it had not before."""
    known = {index.name for index in but.definition.indexes} if but.definition is not None else set()
    return [index.name for index in state.definition.indexes if index.name not in known] if state.definition else []


def _counted(names: Sequence[str]) -> str:
    if not names:
        return "no indexes"
    return f"{len(names)} index{'' if len(names) == 1 else 'es'}: {', '.join(sorted(names))}"


def _spaces(spaces: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {in_words(space['generations'])}" for name, space in spaces.items())


# --- describe --------------------------------------------------------------------------------------------------


@table.command()
def describe(address: Address, *, store: StoreUrl, as_json: Json = False) -> None:
    """Says what a table is like, and in what it is not as the catalog needs it. Changes nothing.

    Exit codes: 0 the table fits, 1 it does not, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql table describe graphql_api.examples.users:catalog --store "dynamodb://users?region=eu-west-1"
    ```
    """
    with errors_told():
        catalog = load_catalog(address)
        state = asyncio.run(_state(store))
    problems = [*differences(state, catalog, removes_expired=not makes_tables(store))]
    if as_json:
        typer.echo(orjson.dumps(_as_json(state, catalog, problems), default=int, option=orjson.OPT_INDENT_2))
    else:
        _print(state, catalog, problems)
    if problems:
        raise typer.Exit(FINDINGS)


async def _state(url: str) -> TableState:
    store = await open_store(url)
    try:
        return await read_state(store)
    finally:
        await store.close()


def _as_json(state: TableState, catalog: Catalog, problems: Sequence[str]) -> dict[str, Any]:
    definition = state.definition
    return {
        "exists": definition is not None,
        "format": state.format,
        "ttlAttribute": definition.ttl_attribute if definition is not None else None,
        "indexes": [
            {
                "name": index.definition.name,
                "hashKey": index.definition.hash_attribute,
                "rangeKey": index.definition.range_attribute,
                "rangeType": index.definition.range_type,
                "projection": index.definition.projection,
                "standing": index.standing,
            }
            for index in index_states(definition, catalog.table_definition())
        ],
        "spaces": state.spaces,
        "differences": problems,
    }


def _print(state: TableState, catalog: Catalog, problems: Sequence[str]) -> None:
    console = Console(highlight=False, markup=False)
    if state.definition is not None:
        shown = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in ("index", "hash key", "range key", "carries", ""):
            shown.add_column(heading)
        for index in index_states(state.definition, catalog.table_definition()):
            one = index.definition
            numeric = " (number)" if one.range_type == "N" else ""
            range_key = f"{one.range_attribute}{numeric}"
            shown.add_row(one.name, one.hash_attribute, range_key, projection_words(one), index.standing)
        console.print(shown)
        console.print(f"format {state.format if state.format is not None else 'not recorded yet'}")
        for name, space in state.spaces.items():
            console.print(f"shards of {name}: {in_words(space['generations'])}")
        if state.definition.ttl_attribute is not None:
            console.print(f"removes records by {state.definition.ttl_attribute}")
    for problem in problems:
        console.print(f"! {problem}", soft_wrap=True)
    if not problems:
        console.print("The table has all that the catalog needs.")


# --- template --------------------------------------------------------------------------------------------------


@table.command()
def template(
    address: Address,
    *,
    name: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="Its name; CloudFormation makes one up otherwise.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")] = False,
) -> None:
    """Writes a CloudFormation template: the table of a catalog, and roles with no more rights than servers need.

    The table is billed on demand and has point-in-time recovery and deletion protection. One policy and role is for
    servers, another one for servers that only read.

    Try it:

    ```
    shardql table template graphql_api.examples.users:catalog --table users > users.yaml
    aws cloudformation deploy --template-file users.yaml --stack-name users --capabilities CAPABILITY_IAM
    ```
    """
    with errors_told():
        written = cloudformation_template(load_catalog(address).table_definition(), name)
    typer.echo(orjson.dumps(written, option=orjson.OPT_INDENT_2) if as_json else as_yaml(written), nl=as_json)
