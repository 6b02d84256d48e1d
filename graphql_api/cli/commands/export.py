"""`shardql export`: writes the records of an entity, or of one search, as JSON lines or CSV."""

import asyncio
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.cli.common_options import (
    ENTITY_ARGUMENT,
    STORE_URLS,
    CatalogAddress,
    LookupStoreUrl,
    Tenant,
    option,
    served_store,
)
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit, require_file
from graphql_api.cli.terminal_output import counted, elapsed, opened_with_status, record_bar
from graphql_api.errors import ConflictingArguments, InvalidValue
from graphql_api.model import EntitySpec
from graphql_api.ops import Exporter, ExportProgress, Format, every_record
from graphql_api.query import SearchRequest
from graphql_api.schema import Graph


def export(
    address: CatalogAddress,
    entity: Annotated[str, ENTITY_ARGUMENT],
    search: Annotated[
        str | None,
        typer.Argument(
            metavar="SEARCH", help="A field that searches, with its arguments: 'userByName(prefix: \"jo\")'."
        ),
    ] = None,
    *,
    store: Annotated[
        str | None, option("URL", f"Store of the records: {STORE_URLS}. By default that of shardql serve.")
    ] = None,
    lookup_store: LookupStoreUrl = None,
    tenant: Tenant = None,
    output: Annotated[
        Path | None, option("FILE", "File to write. By default the standard output.", dir_okay=False)
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV for other programs, instead of JSON lines.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Overwrite FILE, instead of resuming an interrupted export.")
    ] = False,
) -> None:
    """Write the records of an entity, or of one search, as JSON lines or CSV.

    Without SEARCH, all records are written in the order of their keys. With it, those of all pages of the search, in
    its order. The command `shardql load` reads JSON lines back to exactly the same stored records. Derived properties
    are left out, because a load computes them.

    An interrupted export to a FILE resumes when the same command runs again within a day. Records that are written
    meanwhile are included if their position comes later in the order.

    Exit codes: 0 everything written, 1 attributes left out that the catalog does not declare, 2 usage, 3 store, 4
    catalog.

    Try it:

    ```
    shardql export graphql_api.examples.users:catalog User 'userByName(prefix: "jo")' --output jo.jsonl
    ```
    """
    from graphql_api.server import load_graph, open_server_database, read_settings  # noqa: PLC0415 - slow import

    if restart and output is None:
        raise typer.BadParameter("--restart needs --output.")
    graph = load_graph(address)
    spec = graph.catalog.entity(entity)
    request = every_record(spec) if search is None else _search_request(graph, spec, search)
    store = served_store() if store is None else store
    require_file(store)
    settings = read_settings(store=store, lookup_store=lookup_store, read_only=True)
    open_store = partial(opened_with_status, partial(open_server_database, graph.catalog, settings, None))
    started = time.monotonic()

    async def run() -> ExportProgress:
        async with open_store() as db:
            with record_bar(spec.type_name) as show:
                format: Format = "csv" if csv else "jsonl"
                exporter = Exporter(db.scoped(tenant=tenant), request, format, lambda done: show(done.records))
                if output is None:
                    return await exporter.write_to(typer.get_binary_stream("stdout"))
                return await exporter.write_file(output, f"{address} {store} {tenant}", restart=restart)

    try:
        progress = asyncio.run(run())
    except KeyboardInterrupt:
        remedy = "" if output is None else f" in {output}. Run the same command again to resume"
        raise error_exit(f"stopped{remedy}.", INTERRUPTED) from None
    if output is not None:
        typer.echo(f"{output}: {counted(progress.records, 'record')} of {spec.type_name} written, {elapsed(started)}.")
    if progress.left_out:
        names = ", ".join(progress.left_out)
        problem = f"records have attributes that the catalog does not declare, and that are left out: {names}."
        raise error_exit(f"{problem} Export them with the catalog that declares them.", FINDINGS)


def _search_request(graph: Graph, spec: EntitySpec, search: str) -> SearchRequest:
    from graphql_api.cli.query_plans import search_request_of  # noqa: PLC0415 - slow import

    request = search_request_of(graph, search)
    if request.entity != spec.name:
        found = graph.catalog.entities[request.entity].type_name
        raise InvalidValue(f"{search} finds records of {found}, not of {spec.type_name}.")
    if any(value is not None for value in (request.limit, request.first, request.last, request.after, request.before)):
        raise ConflictingArguments(f"{search} selects one page, and an export reads all pages: omit its paging.")
    if request.next_token is not None:
        raise ConflictingArguments(f"{search} begins at a page, and an export begins at the first: omit nextToken.")
    return replace(request, select=None, on_shard_failure="FAIL")
