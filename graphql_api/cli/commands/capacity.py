"""`shardql capacity`: estimates bytes, shards, write units and storage of records."""

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

from graphql_api.cli.common_options import CatalogAddress, JsonOutput
from graphql_api.cli.exit_codes import FINDINGS, report_errors
from graphql_api.cli.sample_data import has_sample_data, sample_records
from graphql_api.model import Catalog, Entity, EntitySpec, camel_case, load_catalog
from graphql_api.ops import EntityCapacity, entity_capacity, mean_size, read_records, stored_items, typical_record

MAX_DESIGN_BYTES = 400 * 1024
"""Maximum size of a record."""


def capacity(
    address: CatalogAddress,
    *,
    records: Annotated[
        list[str] | None,
        typer.Option(metavar="[ENTITY=]N", help="Planned number of records, of one entity or of each."),
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(metavar="ENTITY=FILE", help="Records to measure, as JSON lines in the format of load."),
    ] = None,
    sample_size: Annotated[
        int,
        typer.Option(
            "--sample-records",
            metavar="N",
            min=1,
            help="How many records to measure: lines of a file, or sample(N) of the module.",
        ),
    ] = 1000,
    design_bytes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_DESIGN_BYTES, help="Plan with records of this size."),
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="TENANT", help="Count keys that contain this tenant.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """Estimate the cost of records: bytes by property, shards, write units, and storage with all indexes.

    Records are measured in their stored format, with generated attributes and attribute names. They come from a file,
    or from the function sample(count) of the catalog's module. Otherwise each property has a value typical of its type.

    Exit codes: 0 no findings, 1 too few shards for the planned records, 2 usage, 4 catalog.

    Try it:

    ```
    shardql capacity graphql_api.examples.users:catalog --records User=3e9
    ```
    """
    with report_errors():
        catalog = load_catalog(address)
        planned = _planned_records(catalog, records or [])
        samples = _samples(catalog, address, sample or [], sample_size)
        sizes = {
            name: mean_size(stored_items(entity, sampled, tenant))
            for name, (entity, sampled, _) in samples.items()
            if sampled
        }
        capacities = [
            entity_capacity(
                catalog,
                entity,
                sampled,
                source,
                records=planned[name],
                design_bytes=design_bytes,
                tenant=tenant,
                parent_bytes=sizes,
            )
            for name, (entity, sampled, source) in samples.items()
        ]
    if as_json:
        typer.echo(orjson.dumps([_as_json(each) for each in capacities], option=orjson.OPT_INDENT_2))
    else:
        console = Console()
        for each in capacities:
            _print(console, each)
    if any(each.findings for each in capacities):
        raise typer.Exit(FINDINGS)


# --- arguments -------------------------------------------------------------------------------------------------


def _planned_records(catalog: Catalog, options: Sequence[str]) -> dict[str, int | None]:
    """Return the planned number of records by entity. An option for one entity overrides an option for all."""
    planned: dict[str, int | None] = dict.fromkeys(catalog.entities)
    for option in sorted(options, key=lambda option: "=" in option):
        entity, _, number = option.rpartition("=")
        names = [catalog.entity(entity).name] if entity else [*planned]
        planned.update(dict.fromkeys(names, _parse_count(number)))
    return planned


def _parse_count(text: str) -> int:
    try:
        number = Decimal(text.replace(",", ""))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number != number.to_integral_value() or not 1 <= number <= Decimal("1e18"):
        raise typer.BadParameter(f"{text!r} is not a number of records: write 3000000 or 3e6.", param_hint="--records")
    return int(number)


def _samples(
    catalog: Catalog, address: str, options: Sequence[str], count: int
) -> Mapping[str, tuple[EntitySpec, Sequence[Entity], str]]:
    """Return by entity name: the entity, its sample records, and a text on their source."""
    files = dict(_parse_sample_option(catalog, option) for option in options)
    generated: dict[str, list[Entity]] = {name: [] for name in catalog.entities}
    if has_sample_data(address) and generated.keys() - files.keys():
        asyncio.run(_collect_samples(catalog, address, count, generated))
    samples: dict[str, tuple[EntitySpec, Sequence[Entity], str]] = {}
    for name, entity in catalog.entities.items():
        if name in files:
            samples[name] = entity, [*read_records(entity, files[name], count)], str(files[name])
        elif generated[name]:
            samples[name] = entity, generated[name], f"sample({count}) of {address.partition(':')[0]}"
        else:
            samples[name] = entity, [typical_record(entity)], "generated: typical values of each type"
    return samples


def _parse_sample_option(catalog: Catalog, option: str) -> tuple[str, Path]:
    entity, equals, path = option.partition("=")
    if not entity or not equals or not path:
        raise typer.BadParameter(f"{option!r} is not of the form ENTITY=FILE.", param_hint="--sample")
    return catalog.entity(entity).name, Path(path)


async def _collect_samples(catalog: Catalog, address: str, count: int, samples: dict[str, list[Entity]]) -> None:
    async for record in sample_records(address, count):
        samples[catalog.entity(type(record)).name].append(record)


# --- output ----------------------------------------------------------------------------------------------------


def _as_json(result: EntityCapacity) -> dict[str, Any]:
    output: dict[str, Any] = _camel_case_keys(asdict(result))
    output["storage"]["multiplier"] = result.storage.multiplier
    return output


def _camel_case_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel_case(name): _camel_case_keys(part) for name, part in value.items()}
    return [_camel_case_keys(part) for part in value] if isinstance(value, list | tuple) else value


def _print(console: Console, result: EntityCapacity) -> None:
    console.print(Text(f"{result.entity}: {_plural(result.sampled, 'record')}, {result.source}", style="bold"))
    console.print(_attribute_table(result))
    console.print(_index_table(result))
    console.print(_constraint_item_table(result))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _facts(result).items():
        grid.add_row(name, Text(value))
    console.print(grid)
    for finding in result.findings:
        console.print(Text(f"\n! {finding}", style="bold red"))
    console.print()


def _attribute_table(result: EntityCapacity) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("", footer="", no_wrap=True)
    table.add_column("attribute", footer="total", no_wrap=True)
    table.add_column("example", max_width=60)  # The only column that shrinks on a narrow terminal.
    table.add_column("bytes", justify="right", footer=_number(result.bytes), no_wrap=True)
    table.add_column("in", justify="right", no_wrap=True)
    for part in result.attributes:
        example = Text(part.example.replace("\x01", ""), no_wrap=True, overflow="ellipsis")
        table.add_row("⚙" if part.generated else "", part.name, example, _number(part.bytes), f"{part.share:.0%}")
    return table


def _index_table(result: EntityCapacity) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("index")
    table.add_column("projection")
    for heading in ("bytes", "write units", "in"):
        table.add_column(heading, justify="right")
    for index in result.indexes:
        units = _number(index.write_units)
        table.add_row(index.name, index.projection, _number(index.bytes), units, f"{index.share:.0%}")
    return table


def _constraint_item_table(result: EntityCapacity) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("additional item")
    table.add_column("of")
    for heading in ("bytes", "write units", "per record"):
        table.add_column(heading, justify="right")
    for item in result.beside:
        share = "request with a key" if item.share is None else f"{item.share:.3g}"
        table.add_row(item.kind, item.name, _number(item.bytes), _number(item.write_units), share)
    return table


def _facts(result: EntityCapacity) -> dict[str, str]:
    units, transaction, storage = result.write_units, result.transaction, result.storage
    facts = {
        "design size": f"{result.design_bytes:,} bytes (measured: {_number(result.bytes)}, at most {result.largest:,})",
        "10 GB hold": f"{_plural(result.records_per_partition, 'record')} of that size",
        "shards": f"{result.shards:,}",
        "write units": f"create {_number(units.create)}, update at least {_number(units.update)} and at most "
        f"{_number(units.move)}, in plain puts and loads",
        "in transactions": f"create {_number(transaction.create)}, update at least {_number(transaction.update)} and "
        f"at most {_number(transaction.move)}, remove {_number(transaction.remove)}; {_number(transaction.key)} more "
        "with an idempotency key",
        "storage": f"{_number(storage.all_bytes)} bytes per record with all indexes and additional items, "
        f"{storage.multiplier:.1f} times the table alone",
    }
    if not result.is_put_plainly:
        del facts["write units"]
    if result.records is not None and result.shards_needed is not None and storage.total_bytes is not None:
        facts["shards"] += f", and {result.shards_needed:,} needed for {_plural(result.records, 'record')}"
        facts["storage"] += f"; {storage.total_bytes / 10**9:,.1f} GB for {_plural(result.records, 'record')}"
    return facts


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
