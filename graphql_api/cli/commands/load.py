"""`shardql load`: writes records from a file of JSON lines, or sample data, into a store."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.cli.common_options import (
    ENTITY_ARGUMENT,
    STORE_URLS,
    AdoptTable,
    CatalogAddress,
    LookupStoreUrl,
    Tenant,
    option,
    served_store,
)
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit
from graphql_api.cli.sample_data import sample_records, write_samples
from graphql_api.cli.terminal_output import counted, elapsed, file_bar, opened_with_status, record_bar
from graphql_api.database import Database
from graphql_api.model import EntitySpec, load_catalog
from graphql_api.ops import DEFAULT_BATCH_SIZE, LoadProgress, conflict_free_writer, create_only_writer, load_lines

OpenDatabase = Callable[[], AbstractAsyncContextManager[Database]]


def load(
    address: CatalogAddress,
    entity: Annotated[str | None, ENTITY_ARGUMENT] = None,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="File with one JSON object per line, under stored names.", exists=True, dir_okay=False
        ),
    ] = None,
    *,
    store: Annotated[
        str | None, option("URL", f"Target store: {STORE_URLS}. By default that of shardql serve.")
    ] = None,
    lookup_store: LookupStoreUrl = None,
    sample: Annotated[int | None, option("N", "Load N sample records instead of a file.", min=0)] = None,
    create_only: Annotated[
        bool, typer.Option("--checked", help="Write as clients would: refuse ids that exist already.")
    ] = False,
    batch: Annotated[int, option("N", "Number of records per batch.", min=1)] = DEFAULT_BATCH_SIZE,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over instead of resuming an interrupted load of the file.")
    ] = False,
    tenant: Tenant = None,
    adopt_table: AdoptTable = None,
) -> None:
    """Load records from a file of JSON lines. Each replaces the record with its id.

    An invalid line is written to FILE.rejected with its number and the reason: fix it and load it again. An
    interrupted load resumes when the same command runs again.

    Uniqueness and foreign keys hold for every line: load referenced records first. With --checked, records are
    written as clients would create them: a line whose id exists already is rejected, and versions and times are those
    of the load.

    Exit codes: 0 everything written, 1 some lines rejected, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql sample graphql_api.examples.users:catalog User > users.jsonl
    shardql load graphql_api.examples.users:catalog User users.jsonl --store sqlite:///users.db
    ```
    """
    from graphql_api.server import open_server_database, read_settings  # noqa: PLC0415 - slow import

    from_file = sample is None
    if (entity is not None) != from_file or (file is not None) != from_file:
        raise typer.BadParameter("Provide ENTITY and FILE, or --sample N.")
    if file is not None and not file.is_file():
        raise typer.BadParameter(
            f"{str(file)!r} is not a regular file. Write the lines to one first: an interrupted load resumes within it."
        )
    store = served_store() if store is None else store
    catalog = load_catalog(address)
    settings = read_settings(store=store, lookup_store=lookup_store, adopt_table=adopt_table, read_only=False)
    open_server_store = partial(opened_with_status, partial(open_server_database, catalog, settings, None))

    @asynccontextmanager
    async def open_store() -> AsyncIterator[Database]:
        async with open_server_store() as db:
            yield db.scoped(tenant=tenant)

    started = time.monotonic()
    if sample is not None:
        written = asyncio.run(_load_sample(open_store, address, sample, batch, create_only=create_only))
        parts = [f"{number:,} of {name}" for name, number in written.items()]
        typer.echo(f"Sample data: {' and '.join(parts) or 'no records'} written, {elapsed(started)}.")
    elif entity is not None and file is not None:
        spec = catalog.entity(entity)
        try:
            loading = _load_file(open_store, spec, file, store, batch, resume=not restart, new=create_only)
            progress = asyncio.run(loading)
        except KeyboardInterrupt:
            raise error_exit(f"stopped in {file}. Run the same command again to resume.", INTERRUPTED) from None
        summary = f"{file}: {progress.written:,} records of {spec.type_name} written, {elapsed(started)}"
        if progress.rejected:
            typer.echo(f"{summary}; {counted(progress.rejected, 'line')} rejected, see {file}.rejected")
            raise typer.Exit(FINDINGS)
        typer.echo(f"{summary}.")


async def _load_file(
    open_store: OpenDatabase, entity: EntitySpec, file: Path, store: str, batch: int, *, resume: bool, new: bool
) -> LoadProgress:
    async with open_store() as db:
        put_many = create_only_writer(db.apply_each, entity) if new else conflict_free_writer(db.restore_many, entity)
        # The target includes the directory, for relative URLs, and the id of the table, which may be recreated.
        table_id = "" if db.schema is None else db.schema.latest.record.table_id
        target = f"{store} {Path.cwd()} {table_id} {db.tenant}{' checked' if new else ''}"
        with file_bar(file) as show:
            return await load_lines(put_many, entity, file, show=show, batch=batch, into=target, resume=resume, new=new)


async def _load_sample(
    open_store: OpenDatabase, address: str, count: int, batch: int, *, create_only: bool
) -> Mapping[str, int]:
    async with open_store() as db:
        with record_bar("sample data") as show:
            return await write_samples(db, sample_records(address, count), batch, show, create_only=create_only)
