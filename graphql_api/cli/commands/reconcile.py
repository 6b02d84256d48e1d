"""`shardql reconcile`: compares the lookups in a store of their own with the records, and repairs them."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from graphql_api.cli.common_options import CatalogAddress, JsonOutput, StoreUrl, option
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit, require_file
from graphql_api.cli.terminal_output import new_table, print_json, step_status
from graphql_api.codecs import readable_key
from graphql_api.connection import opened_with_lookups
from graphql_api.evolution import prepare_table
from graphql_api.model import Catalog, load_catalog
from graphql_api.ops import ReconciliationResult, ReconciliationSettings, reconcile_lookups
from graphql_api.writes import GRACE_SECONDS, MIN_GRACE_SECONDS, LookupStore

_SHOWN = 20
"""mapping items that the output names"""


def reconcile(
    address: CatalogAddress,
    *,
    store: StoreUrl,
    lookup_store: Annotated[str, option("URL", "Store that keeps the mapping items of the lookups.")],
    apply: Annotated[
        bool, typer.Option("--apply", help="Write missing mapping items, and remove dangling ones.")
    ] = False,
    grace: Annotated[
        float,
        option("SECONDS", "Age from which a dangling mapping item may be removed.", min=MIN_GRACE_SECONDS),
    ] = GRACE_SECONDS,
    as_json: JsonOutput = False,
) -> None:
    """Compare the lookups in a store of their own with the records. Change nothing without --apply.

    All records and mapping items are read. Missing mapping items are those of updates that ended after their record.
    Dangling ones have no record with their value. Those younger than the grace age may belong to an insert in flight,
    and stay. Servers keep running.

    Exit codes: 0 nothing is wrong or all was repaired, 1 findings, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql reconcile app:catalog --store sqlite:///app.db --lookup-store sqlite:///lookups.db
    ```
    """
    require_file(store)
    require_file(lookup_store)
    settings = ReconciliationSettings(apply=apply, grace_seconds=grace)
    try:
        result = asyncio.run(_reconcile(load_catalog(address), store, lookup_store, settings))
    except KeyboardInterrupt:
        raise error_exit("stopped. Run the same command again.", INTERRUPTED) from None
    if as_json:
        print_json(_as_json(result))
    else:
        _print(result)
    raise typer.Exit(FINDINGS if result.remaining else 0)


async def _reconcile(
    catalog: Catalog, url: str, lookups: str, settings: ReconciliationSettings
) -> ReconciliationResult:
    async with opened_with_lookups(url, lookups, catalog) as (store, marked):
        assert isinstance(store, LookupStore), "a lookup store was named"
        await prepare_table(store, marked, create_table=False, read_only=True)
        with step_status("reconciling") as show:

            def show_progress(result: ReconciliationResult) -> None:
                show("", f"{result.records:,} records and {result.mappings:,} mapping items read")

            return await reconcile_lookups(store, marked, settings, show_progress)


def _counts(result: ReconciliationResult) -> Mapping[str, Mapping[str, int]]:
    return {
        "missing": result.missing,
        "created": result.created,
        "dangling": result.dangling,
        "removed": result.removed,
        "inFlight": result.in_flight,
    }


def _as_json(result: ReconciliationResult) -> dict[str, Any]:
    listed = [{"kind": kind, "hashKey": key.hash, "rangeKey": key.range} for kind, key in result.listed]
    return {
        "records": result.records,
        "mappings": result.mappings,
        **{name: dict(counts) for name, counts in _counts(result).items()},
        "changed": result.changed,
        "unknown": result.unknown,
        "remaining": result.remaining,
        "listed": listed,
    }


def _print(result: ReconciliationResult) -> None:
    console = Console(highlight=False, markup=False)
    counts = _counts(result)
    lookups = sorted({lookup for of_kind in counts.values() for lookup in of_kind})
    if lookups:
        rows = [(lookup, *(f"{of_kind.get(lookup, 0):,}" for of_kind in counts.values())) for lookup in lookups]
        console.print(new_table(["lookup", "missing", "created", "dangling", "removed", "in flight"], rows))
    for kind, key in result.listed[:_SHOWN]:
        console.print(f"{kind}: {key.hash} / {readable_key(key.range)}", soft_wrap=True)
    if len(result.listed) > _SHOWN:
        console.print(f"… and {len(result.listed) - _SHOWN:,} more: --json lists them.")
    if result.changed:
        console.print(f"{result.changed:,} mapping items changed meanwhile: run the command again.")
    if result.unknown:
        console.print(f"{result.unknown:,} mapping items belong to no lookup of this catalog.")
    outcome = f"{result.remaining:,} to repair with --apply" if result.remaining else "nothing is left to repair"
    console.print(f"{result.records:,} records and {result.mappings:,} mapping items read; {outcome}.")
