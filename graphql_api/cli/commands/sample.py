"""`shardql sample`: sample data as JSON lines, the form that `load` reads."""

import asyncio
from typing import Annotated

import orjson
import typer

from graphql_api.cli.exit_codes import errors_told
from graphql_api.cli.sample_data import sample_records
from graphql_api.model import Entity, EntitySpec, load_catalog


def sample(
    address: Annotated[
        str, typer.Argument(metavar="MODULE:CATALOG", help="Where the catalog is: graphql_api.examples.users:catalog.")
    ],
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="Which records to write, for instance User.")],
    *,
    count: Annotated[
        int, typer.Option(metavar="N", min=0, help="The size of the sample, as its module counts it.")
    ] = 1000,
) -> None:
    """Writes sample records of one entity as JSON lines, under stored names.

    The module of the catalog makes them up by its function sample(count). The same count gives the same records.

    Try it:

    ```
    shardql sample graphql_api.examples.users:catalog Email --count 500 > emails.jsonl
    ```
    """
    with errors_told():
        spec = load_catalog(address).entity(entity)
        asyncio.run(_write(spec, address, count))


async def _write(spec: EntitySpec, address: str, count: int) -> None:
    out = typer.get_binary_stream("stdout")
    async for record in sample_records(address, count):
        if isinstance(record, spec.model):
            out.write(json_line(spec, record))
    out.flush()


def json_line(spec: EntitySpec, record: Entity) -> bytes:
    """A record as `load` reads it; what is derived is left out, and so is null."""
    values = record.model_dump(mode="json")
    kept = {part.stored: values[part.name] for part in spec.properties.values() if part.function is None}
    return orjson.dumps({name: value for name, value in kept.items() if value is not None}) + b"\n"
