"""`shardql load`: writes records from a file of JSON lines, or sample data, into a store."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.cli.common_options import CatalogAddress
from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, error_exit, report_errors
from graphql_api.cli.progress_bars import file_bar, sample_bar
from graphql_api.cli.sample_data import sample_records
from graphql_api.cli.sample_loading import write_samples
from graphql_api.connection import open_catalog
from graphql_api.evolution import TABLE_RECORD_KEY
from graphql_api.model import Catalog, EntitySpec, load_catalog
from graphql_api.ops import DEFAULT_BATCH_SIZE, LoadProgress, conflict_free_writer, create_only_writer, load_lines
from graphql_api.writes import WRITE_ID


def load(
    address: CatalogAddress,
    entity: Annotated[
        str | None, typer.Argument(metavar="ENTITY", help="Entity of the records, for example User.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="File with one JSON object per line, under stored names.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    *,
    store: Annotated[
        str,
        typer.Option(metavar="URL", help="Target store: sqlite:///relative.db or dynamodb://table?region=eu-west-1."),
    ],
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Load N sample records instead of a file.")
    ] = None,
    create_only: Annotated[
        bool,
        typer.Option("--checked", help="Write as clients would: refuse ids that exist already."),
    ] = False,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Number of records per batch.")] = DEFAULT_BATCH_SIZE,
    anew: Annotated[
        bool, typer.Option("--anew", help="Start over instead of resuming an interrupted load of the file.")
    ] = False,
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
    from_file = sample is None
    if (entity is not None) != from_file or (file is not None) != from_file:
        raise typer.BadParameter("Provide ENTITY and FILE, or --sample N.")
    if file is not None and not file.is_file():
        raise typer.BadParameter(
            f"{str(file)!r} is not a regular file. Write the lines to one first: an interrupted load resumes within it."
        )
    with report_errors():
        catalog = load_catalog(address)
        if sample is not None:
            asyncio.run(_load_sample(catalog, address, sample, store, batch, create_only=create_only))
        elif entity is not None and file is not None:
            _load_file(catalog, catalog.entity(entity), file, store, batch, resume=not anew, create_only=create_only)


def _load_file(
    catalog: Catalog, entity: EntitySpec, file: Path, store: str, batch: int, *, resume: bool, create_only: bool
) -> None:
    async def run() -> LoadProgress:
        async with open_catalog(catalog, store) as db:
            if create_only:
                put_many = create_only_writer(db.apply_each, entity)
            else:
                put_many = conflict_free_writer(db.restore_many, entity)
            # The target includes the directory, for relative URLs, and the write id of a table that was recreated.
            (table,) = await db.store.get_many([TABLE_RECORD_KEY], consistent=True)
            target = f"{store} {Path.cwd()} {table and table[WRITE_ID]}{' checked' if create_only else ''}"
            with file_bar(file) as show:
                return await load_lines(
                    put_many, entity, file, show=show, batch=batch, into=target, resume=resume, new=create_only
                )

    started = time.monotonic()
    try:
        progress = asyncio.run(run())
    except KeyboardInterrupt:
        raise error_exit(f"stopped in {file}. Run the same command again to resume.", INTERRUPTED) from None
    summary = f"{file}: {progress.written:,} records of {entity.type_name} written, {_elapsed(started)}"
    if progress.rejected:
        lines = "line" if progress.rejected == 1 else "lines"
        typer.echo(f"{summary}; {progress.rejected:,} {lines} rejected, see {file}.rejected")
        raise typer.Exit(FINDINGS)
    typer.echo(f"{summary}.")


async def _load_sample(
    catalog: Catalog, address: str, count: int, store: str, batch: int, *, create_only: bool
) -> None:
    started = time.monotonic()
    async with open_catalog(catalog, store) as db:
        specs = catalog.entities.values() if create_only else ()
        writers = {spec.model: create_only_writer(db.apply_each, spec) for spec in specs}
        with sample_bar() as show:
            written = await write_samples(db, sample_records(address, count), batch, show, writers)
    parts = [f"{number:,} of {name}" for name, number in written.items()]
    typer.echo(f"Sample data: {' and '.join(parts) or 'no records'} written, {_elapsed(started)}.")


def _elapsed(started: float) -> str:
    return f"{time.monotonic() - started:,.1f} s"
