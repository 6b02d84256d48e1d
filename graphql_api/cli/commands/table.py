"""`shardql table`: creates a table, describes it, and writes its CloudFormation template."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from graphql_api.cli.common_options import (
    AdoptTable,
    CatalogAddress,
    JsonOutput,
    LookupStoreUrl,
    StoreUrl,
    option,
    with_names,
)
from graphql_api.cli.exit_codes import FINDINGS
from graphql_api.cli.terminal_output import new_table, print_json
from graphql_api.connection import opened_with_lookups, retry_opening
from graphql_api.errors import InvalidValue
from graphql_api.evolution import (
    TableRecord,
    declared_elements,
    describe_generations,
    describe_projection,
    prepare_table,
    reported_state,
    unfinished_elements,
)
from graphql_api.model import Catalog, describe_element, element_remedy, load_catalog, status_data
from graphql_api.ops import (
    Difference,
    TableState,
    cloudformation_template,
    differences,
    index_states,
    lookup_states,
    read_state,
    service_template,
    to_yaml,
)
from graphql_api.storage import Store, TableDefinition
from graphql_api.storage.engines import creates_tables, store_file

table = typer.Typer(
    help="Create the table of a catalog, describe it, and write its CloudFormation template.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

# --- create ----------------------------------------------------------------------------------------------------


@table.command()
def create(
    address: CatalogAddress,
    *,
    store: StoreUrl,
    lookup_store: LookupStoreUrl = None,
    adopt_table: AdoptTable = None,
    as_json: JsonOutput = False,
) -> None:
    """Create the table of a catalog, or announce to an existing table what the catalog adds.

    A new table has all indexes. On a table with records, additions to a known entity are announced only: run
    `shardql migrate` to build them. Engines fill an index from attributes that records have. Only the migration gives
    stored records the attributes of a new index. Existing parts are not changed, so the command is safe to repeat.

    Exit codes: 0 created or announced, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql table create graphql_api.examples.users:catalog --store "dynamodb://users?region=eu-west-1"
    ```
    """
    from graphql_api.server import read_settings  # noqa: PLC0415 - slow import

    lease_seconds = read_settings(store=store).lease_seconds
    prepare = partial(prepare_table, adopt=bool(adopt_table), lease_seconds=lease_seconds)
    before, after = asyncio.run(_create(load_catalog(address), store, lookup_store, prepare))
    added = [name for name in after.index_names if name not in before.index_names]
    recorded = {name: space for name, space in after.spaces.items() if name not in before.spaces}
    unfinished = [] if after.record is None else unfinished_elements(after.record)
    if as_json:
        print_json(
            {
                "madeTable": before.definition is None,
                "addedIndexes": added,
                "recorded": recorded,
                "pending": [*map(status_data, unfinished)],
            }
        )
        return
    if before.definition is None:
        typer.echo(f"Created the table with {_list_indexes(added)}.")
    elif added:
        typer.echo(f"Added {_list_indexes(added)}.")
    if recorded and after.record is not None:
        spaces = "; ".join(f"{name}: {describe_generations(after.record, name)}" for name in recorded)
        typer.echo(f"Recorded format {after.format} and the shard generations {spaces}.")
    for status in unfinished:
        typer.echo(f"! {describe_element(status)}")
    for remedy in dict.fromkeys(map(element_remedy, unfinished)):
        typer.echo(with_names(remedy, address, store))
    if before.definition is not None and not added and not recorded and not unfinished:
        typer.echo("Nothing to do: the table has everything that the catalog needs.")


async def _create(
    catalog: Catalog, url: str, lookups: str | None, prepare: Callable[[Store, Catalog], Awaitable[object]]
) -> tuple[TableState, TableState]:
    async with opened_with_lookups(url, lookups, catalog, create_table=True) as (store, marked):
        with Console(stderr=True).status("waiting for the store"):
            before = await retry_opening(lambda: read_state(store))
        with Console(stderr=True).status("creating the table"):
            await prepare(store, marked)
            after = await read_state(store)
            if (complete := _complete_definition(after, catalog, expires=not creates_tables(url))) is not None:
                await store.ensure_table(complete)
                after = await read_state(store)
        return before, after


def _complete_definition(state: TableState, catalog: Catalog, *, expires: bool) -> TableDefinition | None:
    """Return the definition with the expiry, if that is ready and the table lacks it."""
    if state.definition is None or state.record is None:
        return None
    elements = (one for one in state.record.elements.values() if one.state == "ready")
    ready = {one.element.name for one in elements if one.element.kind == "server-set"}
    needed, present = catalog.table_definition().ttl_attribute, state.definition
    lacks_expiry = expires and needed not in {None, present.ttl_attribute} and f"{needed}.expiry" in ready
    return replace(present, ttl_attribute=needed) if lacks_expiry else None


def _list_indexes(names: Sequence[str]) -> str:
    if not names:
        return "no indexes"
    return f"{len(names)} index{'' if len(names) == 1 else 'es'}: {', '.join(sorted(names))}"


# --- describe --------------------------------------------------------------------------------------------------


@table.command()
def describe(
    address: CatalogAddress, *, store: StoreUrl, lookup_store: LookupStoreUrl = None, as_json: JsonOutput = False
) -> None:
    """Describe a table, and list its differences from the catalog. Change nothing.

    An element of the table that is not ready or unchecked is a difference: `shardql migrate` builds or removes it.

    Exit codes: 0 the table matches, 1 it does not, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql table describe graphql_api.examples.users:catalog --store "dynamodb://users?region=eu-west-1"
    ```
    """
    state, catalog = asyncio.run(_read_state(store, lookup_store, load_catalog(address)))
    problems = [
        replace(one, remedy=one.remedy and with_names(one.remedy, address, store))
        for one in differences(state, catalog, removes_expired=not creates_tables(store))
    ]
    if as_json:
        print_json(_as_json(state, catalog, problems))
    else:
        _print(state, catalog, problems)
    if problems:
        raise typer.Exit(FINDINGS)


async def _read_state(url: str, lookups: str | None, catalog: Catalog) -> tuple[TableState, Catalog]:
    """Return the state of a table, and the catalog whose lookups are where they are kept."""
    file = store_file(url)
    if file is not None and not file.exists():
        return TableState(), catalog
    async with opened_with_lookups(url, lookups, catalog, read_only=True) as (store, marked):
        return await read_state(store), marked


def _as_json(state: TableState, catalog: Catalog, problems: Sequence[Difference]) -> dict[str, Any]:
    definition, record = state.definition, state.record
    return {
        "exists": definition is not None,
        "format": state.format,
        "epoch": None if record is None else record.epoch,
        "leaseSeconds": None if record is None else record.lease_seconds,
        "ttlAttribute": definition.ttl_attribute if definition is not None else None,
        "indexes": [
            {
                "name": index.name,
                "hashKey": index.hash_attribute,
                "rangeKey": index.range_attribute,
                "rangeType": index.range_type,
                "projection": index.projection,
                "status": status,
            }
            for index, status in index_states(definition, catalog.table_definition())
        ],
        "lookups": [] if record is None else _lookups_as_json(record, catalog),
        "spaces": state.spaces,
        "elements": [] if record is None else _elements_as_json(record, catalog),
        "differences": [one.message for one in problems],
    }


def _lookups_as_json(record: TableRecord, catalog: Catalog) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "entity": one.entity,
            "secondaryKey": one.secondary_key,
            "recordKey": one.record_key,
            "hashKey": f"{one.head}!",
            "lookupStore": one.store,
            "state": one.state,
            "progress": one.progress or None,
            "declared": one.is_declared,
        }
        for one in lookup_states(record, catalog)
    ]


def _elements_as_json(record: TableRecord, catalog: Catalog) -> list[dict[str, Any]]:
    return [
        {
            "kind": one.element.kind,
            "entity": one.element.entity,
            "name": one.element.name,
            "state": one.state,
            "checked": one.is_checked,
            "progress": record.progress_of(one) or None,
            "epoch": one.epoch,
            "declared": key in declared_elements(catalog),
        }
        for key, one in record.elements.items()
    ]


def _print(state: TableState, catalog: Catalog, problems: Sequence[Difference]) -> None:
    console = Console(highlight=False, markup=False)
    if state.definition is not None:
        rows = [
            (
                index.name,
                index.hash_attribute,
                f"{index.range_attribute}{' (number)' if index.range_type == 'N' else ''}",
                describe_projection(index),
                status,
            )
            for index, status in index_states(state.definition, catalog.table_definition())
        ]
        console.print(new_table(["index", "hash key", "range key", "projection", ""], rows))
        lookups = [] if state.record is None else lookup_states(state.record, catalog)
        if lookups:
            columns = ["lookup", "entity", "secondary key", "record key", ""]
            keys = ((", ".join(one.secondary_key), ", ".join(one.record_key)) for one in lookups)
            cells = [(one.name, one.entity, *key, one.state) for one, key in zip(lookups, keys, strict=True)]
            console.print(new_table(columns, cells))
        console.print(f"format {state.format if state.format is not None else 'not recorded yet'}")
        if state.record is not None:
            for name in state.spaces:
                console.print(f"shards of {name}: {describe_generations(state.record, name)}")
            console.print(_count_elements(state.record, catalog), soft_wrap=True)
        if state.definition.ttl_attribute is not None:
            console.print(f"removes records by {state.definition.ttl_attribute}")
    for problem in problems:
        console.print(f"! {problem.message}", soft_wrap=True)
    for remedy in dict.fromkeys(problem.remedy for problem in problems if problem.remedy):
        console.print(remedy, soft_wrap=True)
    if not problems:
        console.print("The table has everything that the catalog needs.")


def _count_elements(record: TableRecord, catalog: Catalog) -> str:
    """Return the number of elements by state, and of those that only other catalogs declare."""
    counts = Counter(map(reported_state, record.elements.values()))
    others = len(record.elements.keys() - declared_elements(catalog).keys())
    text = f"elements: {', '.join(f'{count} {state}' for state, count in counts.items()) or 'none'}"
    return f"{text}; declared only by other catalogs: {others}" if others else text


# --- template --------------------------------------------------------------------------------------------------


@table.command()
def template(
    address: CatalogAddress,
    *,
    name: Annotated[
        str | None, option("NAME", "Name of the table. By default CloudFormation generates one.", "--table")
    ] = None,
    with_service: Annotated[
        bool, typer.Option("--with-service", help="Add an ECS service on Fargate that serves the catalog.")
    ] = False,
    variables: Annotated[
        list[str] | None, option("NAME=VALUE", "A variable of the service, such as a setting. Repeatable.", "--env")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON instead of YAML.")] = False,
) -> None:
    """Write a CloudFormation template: the table of a catalog, and roles with least privilege.

    The table is billed on demand and has point-in-time recovery and deletion protection. There is one policy and role
    for servers, one for read-only servers, and one for migrations. The service has a load balancer, keys in Secrets
    Manager, and scales by its CPU time.

    Exit codes: 0 written, 2 usage, 4 catalog.

    Try it:

    ```
    shardql table template graphql_api.examples.users:catalog --table users > users.yaml
    aws cloudformation deploy --template-file users.yaml --stack-name users --capabilities CAPABILITY_IAM
    ```
    """
    definition = load_catalog(address).table_definition()
    if with_service:
        document = service_template(definition, address, name, dict(map(_read_variable, variables or ())))
    elif variables:
        raise InvalidValue("Only a service has variables: add --with-service, or leave out --env.", argument="env")
    else:
        document = cloudformation_template(definition, name)
    if as_json:
        print_json(document)
    else:
        typer.echo(to_yaml(document), nl=False)


def _read_variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise InvalidValue(f"{text!r} is no variable: write NAME=VALUE.", argument="env")
    return name, value
