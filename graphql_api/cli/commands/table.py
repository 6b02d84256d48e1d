"""`shardql table`: creates a table, describes it, and writes its CloudFormation template."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from graphql_api.cli.common_options import CatalogAddress, JsonOutput
from graphql_api.cli.exit_codes import FINDINGS, report_errors
from graphql_api.clock import system_clock
from graphql_api.evolution import describe_generations, describe_projection, prepare_table
from graphql_api.model import Catalog, load_catalog
from graphql_api.ops import TableState, cloudformation_template, differences, index_states, read_state, to_yaml
from graphql_api.storage.engines import creates_tables, open_store

table = typer.Typer(
    help="Create the table of a catalog, describe it, and write its CloudFormation template.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

StoreUrl = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Store: dynamodb://users?region=eu-west-1, sqlite:///relative.db or sqlite:////absolute.db.",
    ),
]


# --- create ----------------------------------------------------------------------------------------------------


@table.command()
def create(address: CatalogAddress, *, store: StoreUrl, as_json: JsonOutput = False) -> None:
    """Create the table of a catalog, or its missing indexes, and record its format and shard generations.

    Existing parts are not changed, so the command is safe to repeat. It returns when all indexes contain all records.

    Exit codes: 0 the table matches, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql table create graphql_api.examples.users:catalog --store "dynamodb://users?region=eu-west-1"
    ```
    """
    with report_errors():
        before, after = asyncio.run(_create(load_catalog(address), store))
    added = _added_indexes(before, after)
    recorded = {name: space for name, space in after.spaces.items() if before.spaces.get(name) != space}
    if as_json:
        output = {"madeTable": before.definition is None, "addedIndexes": added, "recorded": recorded}
        typer.echo(orjson.dumps(output, default=int, option=orjson.OPT_INDENT_2))
        return
    if before.definition is None:
        typer.echo(f"Created the table with {_list_indexes(added)}.")
    elif added:
        typer.echo(f"Added {_list_indexes(added)}.")
    if recorded:
        typer.echo(f"Recorded format {after.format} and the shard generations {_describe_spaces(recorded)}.")
    if before.definition is not None and not added and not recorded:
        typer.echo("Nothing to do: the table has everything that the catalog needs.")


async def _create(catalog: Catalog, url: str) -> tuple[TableState, TableState]:
    store = await open_store(url)
    try:
        before = await read_state(store)
        with Console(stderr=True).status("creating the table and filling its indexes"):
            await prepare_table(store, catalog, system_clock())
        return before, await read_state(store)
    finally:
        await store.close()


def _added_indexes(before: TableState, after: TableState) -> list[str]:
    """Return the names of the indexes that were added."""
    known = {index.name for index in before.definition.indexes} if before.definition is not None else set()
    return [index.name for index in after.definition.indexes if index.name not in known] if after.definition else []


def _list_indexes(names: Sequence[str]) -> str:
    if not names:
        return "no indexes"
    return f"{len(names)} index{'' if len(names) == 1 else 'es'}: {', '.join(sorted(names))}"


def _describe_spaces(spaces: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {describe_generations(space['generations'])}" for name, space in spaces.items())


# --- describe --------------------------------------------------------------------------------------------------


@table.command()
def describe(address: CatalogAddress, *, store: StoreUrl, as_json: JsonOutput = False) -> None:
    """Describe a table, and list its differences from the catalog. Change nothing.

    Exit codes: 0 the table matches, 1 it does not, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql table describe graphql_api.examples.users:catalog --store "dynamodb://users?region=eu-west-1"
    ```
    """
    with report_errors():
        catalog = load_catalog(address)
        state = asyncio.run(_read_state(store))
    problems = [*differences(state, catalog, removes_expired=not creates_tables(store))]
    if as_json:
        typer.echo(orjson.dumps(_as_json(state, catalog, problems), default=int, option=orjson.OPT_INDENT_2))
    else:
        _print(state, catalog, problems)
    if problems:
        raise typer.Exit(FINDINGS)


async def _read_state(url: str) -> TableState:
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
                "standing": index.status,
            }
            for index in index_states(definition, catalog.table_definition())
        ],
        "spaces": state.spaces,
        "differences": problems,
    }


def _print(state: TableState, catalog: Catalog, problems: Sequence[str]) -> None:
    console = Console(highlight=False, markup=False)
    if state.definition is not None:
        rows = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in ("index", "hash key", "range key", "projection", ""):
            rows.add_column(heading)
        for index in index_states(state.definition, catalog.table_definition()):
            definition = index.definition
            numeric = " (number)" if definition.range_type == "N" else ""
            range_key = f"{definition.range_attribute}{numeric}"
            projection = describe_projection(definition)
            rows.add_row(definition.name, definition.hash_attribute, range_key, projection, index.status)
        console.print(rows)
        console.print(f"format {state.format if state.format is not None else 'not recorded yet'}")
        for name, space in state.spaces.items():
            console.print(f"shards of {name}: {describe_generations(space['generations'])}")
        if state.definition.ttl_attribute is not None:
            console.print(f"removes records by {state.definition.ttl_attribute}")
    for problem in problems:
        console.print(f"! {problem}", soft_wrap=True)
    if not problems:
        console.print("The table has everything that the catalog needs.")


# --- template --------------------------------------------------------------------------------------------------


@table.command()
def template(
    address: CatalogAddress,
    *,
    name: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="Name of the table. By default CloudFormation generates one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")] = False,
) -> None:
    """Write a CloudFormation template: the table of a catalog, and roles with least privilege.

    The table is billed on demand and has point-in-time recovery and deletion protection. There is one policy and role
    for servers, and one for read-only servers.

    Try it:

    ```
    shardql table template graphql_api.examples.users:catalog --table users > users.yaml
    aws cloudformation deploy --template-file users.yaml --stack-name users --capabilities CAPABILITY_IAM
    ```
    """
    with report_errors():
        document = cloudformation_template(load_catalog(address).table_definition(), name)
    typer.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2) if as_json else to_yaml(document), nl=as_json)
