"""`shardql sample`: writes sample data as JSON lines, the format that `load` reads."""

import asyncio
from typing import Annotated

import typer

from graphql_api.cli.common_options import ENTITY_ARGUMENT, CatalogAddress, option
from graphql_api.cli.sample_data import sample_records
from graphql_api.model import EntitySpec, encode_record, load_catalog
from graphql_api.ops import record_line


def sample(
    address: CatalogAddress,
    entity: Annotated[str, ENTITY_ARGUMENT],
    *,
    count: Annotated[int, option("N", "Size of the sample: the argument of sample(count).", min=0)] = 1000,
) -> None:
    """Write sample records of one entity as JSON lines, under stored names.

    The function sample(count) of the catalog's module generates them. The same count gives the same records.

    Try it:

    ```
    shardql sample graphql_api.examples.users:catalog Email --count 500 > emails.jsonl
    ```
    """
    spec = load_catalog(address).entity(entity)
    asyncio.run(_write(spec, address, count))


async def _write(spec: EntitySpec, address: str, count: int) -> None:
    out = typer.get_binary_stream("stdout")
    async for record in sample_records(address, count):
        if isinstance(record, spec.model):
            out.write(record_line(spec, encode_record(spec, record)))
    out.flush()
