"""`shardql load`: records from a file of JSON lines, or sample data, into a store."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from graphql_api.cli.exit_codes import FINDINGS, INTERRUPTED, errors_told, failed
from graphql_api.cli.progress_bars import file_bar, sample_bar
from graphql_api.cli.sample_data import sample_records
from graphql_api.cli.sample_loading import fill
from graphql_api.evolution import META_KEY
from graphql_api.model import Catalog, EntitySpec, load_catalog
from graphql_api.opening import open_catalog
from graphql_api.ops import BATCH, LoadProgress, checked, in_turns, load_lines
from graphql_api.writes import WRITE_ID


def load(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    entity: Annotated[
        str | None, typer.Argument(metavar="ENTITY", help="What each line is a record of, for instance User.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="One JSON object a line, under stored names.", exists=True, dir_okay=False),
    ] = None,
    *,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Where to: sqlite:///relative.db or dynamodb://table?region=eu-west-1.")
    ],
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Load so many sample records instead of a file.")
    ] = None,
    checks: Annotated[
        bool,
        typer.Option("--checked", help="Write as clients would: refuse ids that are taken."),
    ] = False,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="How many records are written at once.")] = BATCH,
    anew: Annotated[
        bool, typer.Option("--anew", help="Start over where an earlier load of the file was stopped.")
    ] = False,
) -> None:
    """Loads records from a file of JSON lines, each in place of the one with its id.

    A line that is no record is left out and kept in FILE.rejected with its number and the reason: mend it and load it
    again. A load that was stopped goes on where it was when the same command is given again.

    What an entity declares to be unique or to be named by foreign keys holds for every line: load what is named before
    what names it. With --checked records are written as clients would create them: a line whose id another record has
    already is rejected too, and versions and moments are those of the load.

    Exit codes: 0 everything written, 1 some lines rejected, 2 usage, 3 store, 4 catalog.

    Try it:

    ```
    shardql sample graphql_api.examples.users:catalog User > users.jsonl
    shardql load graphql_api.examples.users:catalog User users.jsonl --store sqlite:///users.db
    ```
    """
    from_file = sample is None
    if (entity is not None) != from_file or (file is not None) != from_file:
        raise typer.BadParameter("Give ENTITY and FILE, or --sample N.")
    if file is not None and not file.is_file():
        raise typer.BadParameter(
            f"{str(file)!r} is no file on a disk. Write its lines into one first: a stopped load goes on within it."
        )
    with errors_told():
        catalog = load_catalog(address)
        if sample is not None:
            asyncio.run(_load_sample(catalog, address, sample, store, batch, checks=checks))
        elif entity is not None and file is not None:
            _load_file(catalog, catalog.entity(entity), file, store, batch, anew=anew, checks=checks)


def _load_file(
    catalog: Catalog, entity: EntitySpec, file: Path, store: str, batch: int, *, anew: bool, checks: bool
) -> None:
    async def run() -> LoadProgress:
        async with open_catalog(catalog, store) as db:
            put_many = checked(db.apply_each, entity) if checks else in_turns(db.restore_many, entity)
            # A relative URL is another store in another directory, and so is one that was removed and made anew.
            (table,) = await db.store.get_many([META_KEY], consistent=True)
            into = f"{store} {Path.cwd()} {table and table[WRITE_ID]}{' checked' if checks else ''}"
            with file_bar(file) as show:
                return await load_lines(
                    put_many, entity, file, show=show, batch=batch, into=into, resume=not anew, new=checks
                )

    started = time.monotonic()
    try:
        done = asyncio.run(run())
    except KeyboardInterrupt:
        raise failed(f"stopped in {file}. The same command goes on from there.", INTERRUPTED) from None
    told = f"{file}: {done.written:,} records of {entity.type_name} written, {_seconds(started)}"
    if done.rejected:
        lines = "line" if done.rejected == 1 else "lines"
        typer.echo(f"{told}; {done.rejected:,} {lines} rejected, see {file}.rejected")
        raise typer.Exit(FINDINGS)
    typer.echo(f"{told}.")


async def _load_sample(catalog: Catalog, address: str, count: int, store: str, batch: int, *, checks: bool) -> None:
    started = time.monotonic()
    async with open_catalog(catalog, store) as db:
        put = {spec.model: checked(db.apply_each, spec) for spec in catalog.entities.values() if checks}
        with sample_bar() as show:
            written = await fill(db, sample_records(address, count), batch, show, put)
    parts = [f"{number:,} of {name}" for name, number in written.items()]
    typer.echo(f"Sample data: {' and '.join(parts) or 'no records'} written, {_seconds(started)}.")


def _seconds(started: float) -> str:
    return f"{time.monotonic() - started:,.1f} s"
