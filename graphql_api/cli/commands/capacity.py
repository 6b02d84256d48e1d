"""`shardql capacity`: estimates bytes, shards, write units and storage of records."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column
from rich.text import Text

from graphql_api.cli.common_options import CatalogAddress, JsonOutput, option
from graphql_api.cli.exit_codes import FINDINGS
from graphql_api.cli.sample_data import collect_samples
from graphql_api.cli.terminal_output import fact_grid, new_table, print_group, print_json
from graphql_api.model import Catalog, Entity, camel_case, load_catalog
from graphql_api.ops import EntityCapacity, entity_capacity, mean_size, read_records, stored_items, typical_record

MAX_DESIGN_BYTES = 400 * 1024
"""Maximum size of a record."""


def capacity(
    address: CatalogAddress,
    *,
    records: Annotated[
        list[str] | None, option("[ENTITY=]N", "Planned number of records, of one entity or of each.")
    ] = None,
    sample: Annotated[
        list[str] | None, option("ENTITY=FILE", "Records to measure, as JSON lines in the format of load.")
    ] = None,
    sample_size: Annotated[
        int,
        option(
            "N", "How many records to measure: lines of a file, or sample(N) of the module.", "--sample-records", min=1
        ),
    ] = 1000,
    design_bytes: Annotated[
        int | None, option("N", "Plan with records of this size.", min=1, max=MAX_DESIGN_BYTES)
    ] = None,
    tenant: Annotated[str | None, option("TENANT", "Count keys that contain this tenant.")] = None,
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
    catalog = load_catalog(address)
    planned = _planned_records(catalog, records or [])
    samples = _samples(catalog, address, sample or [], sample_size)
    sizes = {
        name: mean_size(stored_items(catalog.entity(name), sampled, tenant))
        for name, (sampled, _) in samples.items()
        if sampled
    }
    estimate = partial(entity_capacity, catalog, design_bytes=design_bytes, tenant=tenant, parent_bytes=sizes)
    capacities = [
        estimate(catalog.entity(name), sampled, source, records=planned[name])
        for name, (sampled, source) in samples.items()
    ]
    if as_json:
        print_json([_camel_case_keys(asdict(each)) for each in capacities])
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
    for text in sorted(options, key=lambda text: "=" in text):
        entity, _, number = text.rpartition("=")
        names = [catalog.entity(entity).name] if entity else [*planned]
        planned.update(dict.fromkeys(names, _parse_count(number)))
    return planned


def _parse_count(text: str) -> int:
    with suppress(InvalidOperation):
        number = Decimal(text.replace(",", ""))
        if number.is_finite() and number == number.to_integral_value() and 1 <= number <= Decimal("1e18"):
            return int(number)
    raise typer.BadParameter(f"{text!r} is not a number of records: write 3000000 or 3e6.", param_hint="--records")


def _samples(
    catalog: Catalog, address: str, options: Sequence[str], count: int
) -> Mapping[str, tuple[Sequence[Entity], str]]:
    """Return sample records of each entity, by its name, and a text on their source."""
    files: dict[str, Path] = {}
    for text in options:
        entity_name, _, path = text.partition("=")
        if not entity_name or not path:
            raise typer.BadParameter(f"{text!r} is not of the form ENTITY=FILE.", param_hint="--sample")
        files[catalog.entity(entity_name).name] = Path(path)
    generated: dict[str, list[Entity]] = {name: [] for name in catalog.entities}
    if generated.keys() - files.keys():
        for record in asyncio.run(collect_samples(address, count)):
            generated[catalog.entity(type(record)).name].append(record)
    samples: dict[str, tuple[Sequence[Entity], str]] = {}
    for name, entity in catalog.entities.items():
        if name in files:
            samples[name] = [*read_records(entity, files[name], count)], str(files[name])
        elif generated[name]:
            samples[name] = generated[name], f"sample({count}) of {address.partition(':')[0]}"
        else:
            samples[name] = [typical_record(entity)], "generated: typical values of each type"
    return samples


# --- output ----------------------------------------------------------------------------------------------------


def _camel_case_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel_case(name): _camel_case_keys(part) for name, part in value.items()}
    return [_camel_case_keys(part) for part in value] if isinstance(value, list | tuple) else value


def _print(console: Console, result: EntityCapacity) -> None:
    attributes = new_table(
        [
            Column(no_wrap=True),
            Column("attribute", footer="total", no_wrap=True),
            Column("example", max_width=60),  # The only column that shrinks on a narrow terminal.
            Column("bytes", footer=_number(result.bytes), justify="right", no_wrap=True),
            Column("in", justify="right", no_wrap=True),
        ],
        [
            (
                "⚙" if part.generated else "",
                part.name,
                Text(part.example.replace("\x01", ""), no_wrap=True, overflow="ellipsis"),
                _number(part.bytes),
                f"{part.share:.0%}",
            )
            for part in result.attributes
        ],
        show_footer=True,
    )
    indexes = new_table(
        ["index", "projection", *_number_columns("bytes", "write units", "in")],
        [
            (one.name, one.projection, _number(one.bytes), _number(one.write_units), f"{one.share:.0%}")
            for one in result.indexes
        ],
    )
    constraint_items = new_table(
        ["additional item", "of", *_number_columns("bytes", "write units", "per record")],
        [
            (
                item.kind,
                item.name,
                _number(item.bytes),
                _number(item.write_units),
                "request with a key" if item.share is None else f"{item.share:.3g}",
            )
            for item in result.constraint_items
        ],
    )
    title = f"{result.entity}: {_plural(result.sampled, 'record')}, {result.source}"
    findings = [Text(f"\n! {finding}", style="bold red") for finding in result.findings]
    print_group(console, title, attributes, indexes, constraint_items, fact_grid(_facts(result)), *findings)


def _number_columns(*headings: str) -> list[Column]:
    return [Column(heading, justify="right") for heading in headings]


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
        records = _plural(result.records, "record")
        facts["shards"] += f", and {result.shards_needed:,} needed for {records}"
        facts["storage"] += f"; {storage.total_bytes / 10**9:,.1f} GB for {records}"
    return facts


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
