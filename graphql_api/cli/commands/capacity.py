"""`shardql capacity`: what records cost in bytes, shards, write units and storage."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from graphql_api.cli.exit_codes import FINDINGS, errors_told
from graphql_api.cli.sample_data import offers_samples, sample_records
from graphql_api.model import Catalog, Entity, EntitySpec, camel_case, load_catalog
from graphql_api.ops import EntityCapacity, entity_capacity, mean_size, read_records, stored_items, typical_record

MAX_DESIGN_BYTES = 400 * 1024
"""a record is never larger"""


def capacity(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    *,
    records: Annotated[
        list[str] | None,
        typer.Option(metavar="[ENTITY=]N", help="How many records are planned: of each entity, or of this one."),
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(metavar="ENTITY=FILE", help="Records to measure: JSON lines under stored names, as for load."),
    ] = None,
    measured: Annotated[
        int,
        typer.Option(
            "--sample-records",
            metavar="N",
            min=1,
            help="How much to measure: lines of a file, or sample(N) of the module.",
        ),
    ] = 1000,
    design_bytes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_DESIGN_BYTES, help="Plan with records of this size."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="TENANT", help="Count keys with this tenant in them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows what records cost: bytes by property, shards for so many, write units and storage over all indexes.

    Records are measured as they would be stored, with generated attributes and names. They come from a file, else from
    the function sample(count) of the catalog's module, else each property has a value that is typical for its type.

    Exit codes: 0 fine, 1 shards are too few for the records planned, 2 usage, 4 catalog.

    Try it:

    ```
    shardql capacity graphql_api.examples.users:catalog --records User=3e9
    ```
    """
    with errors_told():
        catalog = load_catalog(address)
        planned = _planned(catalog, records or [])
        sampled = _samples(catalog, address, sample or [], measured)
        sizes = {
            name: mean_size(stored_items(entity, samples, tenant))
            for name, (entity, samples, _) in sampled.items()
            if samples
        }
        found = [
            entity_capacity(
                catalog,
                entity,
                samples,
                source,
                records=planned[name],
                design_bytes=design_bytes,
                tenant=tenant,
                parent_bytes=sizes,
            )
            for name, (entity, samples, source) in sampled.items()
        ]
    if as_json:
        typer.echo(orjson.dumps([_as_json(each) for each in found], option=orjson.OPT_INDENT_2))
    else:
        console = Console()
        for each in found:
            _print(console, each)
    if any(each.findings for each in found):
        raise typer.Exit(FINDINGS)


# --- what is given ---------------------------------------------------------------------------------------------


def _planned(catalog: Catalog, given: Sequence[str]) -> dict[str, int | None]:
    """How many records of each entity are planned; what names an entity counts more than what does not."""
    planned: dict[str, int | None] = dict.fromkeys(catalog.entities)
    for words in sorted(given, key=lambda words: "=" in words):
        entity, _, number = words.rpartition("=")
        names = [catalog.entity(entity).name] if entity else [*planned]
        planned.update(dict.fromkeys(names, _count(number)))
    return planned


def _count(text: str) -> int:
    try:
        number = Decimal(text.replace(",", ""))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number != number.to_integral_value() or not 1 <= number <= Decimal("1e18"):
        raise typer.BadParameter(f"{text!r} is no number of records: write 3000000 or 3e6.", param_hint="--records")
    return int(number)


def _samples(
    catalog: Catalog, address: str, given: Sequence[str], count: int
) -> Mapping[str, tuple[EntitySpec, Sequence[Entity], str]]:
    """The sample records of each entity, and where they are from."""
    files = dict(_file(catalog, words) for words in given)
    made: dict[str, list[Entity]] = {name: [] for name in catalog.entities}
    if offers_samples(address) and made.keys() - files.keys():
        asyncio.run(_collect(catalog, address, count, made))
    samples: dict[str, tuple[EntitySpec, Sequence[Entity], str]] = {}
    for name, entity in catalog.entities.items():
        if name in files:
            samples[name] = entity, [*read_records(entity, files[name], count)], str(files[name])
        elif made[name]:
            samples[name] = entity, made[name], f"sample({count}) of {address.partition(':')[0]}"
        else:
            samples[name] = entity, [typical_record(entity)], "made up: typical values of each type"
    return samples


def _file(catalog: Catalog, words: str) -> tuple[str, Path]:
    entity, equals, path = words.partition("=")
    if not entity or not equals or not path:
        raise typer.BadParameter(f"{words!r} is not of the form ENTITY=FILE.", param_hint="--sample")
    return catalog.entity(entity).name, Path(path)


async def _collect(catalog: Catalog, address: str, count: int, made: dict[str, list[Entity]]) -> None:
    async for record in sample_records(address, count):
        made[catalog.entity(type(record)).name].append(record)


# --- what is printed -------------------------------------------------------------------------------------------


def _as_json(found: EntityCapacity) -> dict[str, Any]:
    facts: dict[str, Any] = _camel_cased(asdict(found))
    facts["storage"]["multiplier"] = found.storage.multiplier
    return facts


def _camel_cased(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel_case(name): _camel_cased(part) for name, part in value.items()}
    return [_camel_cased(part) for part in value] if isinstance(value, list | tuple) else value


def _print(console: Console, found: EntityCapacity) -> None:
    console.print(Text(f"{found.entity}: {_plural(found.sampled, 'record')}, {found.source}", style="bold"))
    console.print(_attributes(found))
    console.print(_indexes(found))
    console.print(_beside(found))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _facts(found).items():
        grid.add_row(name, Text(value))
    console.print(grid)
    for finding in found.findings:
        console.print(Text(f"\n! {finding}", style="bold red"))
    console.print()


def _attributes(found: EntityCapacity) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("", footer="", no_wrap=True)
    table.add_column("attribute", footer="total", no_wrap=True)
    table.add_column("example", max_width=60)  # The only one that becomes narrower where room is short.
    table.add_column("bytes", justify="right", footer=_number(found.bytes), no_wrap=True)
    table.add_column("in", justify="right", no_wrap=True)
    for part in found.attributes:
        example = Text(part.example.replace("\x01", ""), no_wrap=True, overflow="ellipsis")
        table.add_row("⚙" if part.generated else "", part.name, example, _number(part.bytes), f"{part.share:.0%}")
    return table


def _indexes(found: EntityCapacity) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("index")
    table.add_column("carries")
    for heading in ("bytes", "write units", "in"):
        table.add_column(heading, justify="right")
    for index in found.indexes:
        units = _number(index.write_units)
        table.add_row(index.name, index.projection, _number(index.bytes), units, f"{index.share:.0%}")
    return table


def _beside(found: EntityCapacity) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("beside a record")
    table.add_column("of")
    for heading in ("bytes", "write units", "for each"):
        table.add_column(heading, justify="right")
    for item in found.beside:
        share = "request with a key" if item.share is None else f"{item.share:.3g}"
        table.add_row(item.kind, item.name, _number(item.bytes), _number(item.write_units), share)
    return table


def _facts(found: EntityCapacity) -> dict[str, str]:
    units, together, storage = found.write_units, found.transaction, found.storage
    facts = {
        "design size": f"{found.design_bytes:,} bytes (measured: {_number(found.bytes)}, at most {found.largest:,})",
        "10 GB hold": f"{_plural(found.records_per_partition, 'record')} of that size",
        "shards": f"{found.shards:,}",
        "write units": f"create {_number(units.create)}, update {_number(units.update)} at least and "
        f"{_number(units.move)} at most, in plain puts and loads",
        "in transactions": f"create {_number(together.create)}, update {_number(together.update)} at least and "
        f"{_number(together.move)} at most, remove {_number(together.remove)}; {_number(together.key)} more under an "
        "idempotency key",
        "storage": f"{_number(storage.all_bytes)} bytes a record with all indexes and what stands beside it, "
        f"{storage.multiplier:.1f} times the table alone",
    }
    if not found.is_put_plainly:
        del facts["write units"]
    if found.records is not None and found.shards_needed is not None and storage.total_bytes is not None:
        facts["shards"] += f", and {found.shards_needed:,} needed for {_plural(found.records, 'record')}"
        facts["storage"] += f"; {storage.total_bytes / 10**9:,.1f} GB for {_plural(found.records, 'record')}"
    return facts


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
