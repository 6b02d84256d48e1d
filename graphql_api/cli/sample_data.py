"""Sample data, which the module of a catalog may provide as `sample(count)`."""

import sys
from collections.abc import AsyncIterator
from typing import Any

from graphql_api.errors import InvalidValue
from graphql_api.model import Entity


def has_sample_data(address: str) -> bool:
    """Return whether the module of a loaded catalog provides sample data."""
    return callable(_sample_function(address))


async def sample_records(address: str, count: int) -> AsyncIterator[Entity]:
    """Yield the sample records of the module of a loaded catalog. `sample` may be a sync or an async generator."""
    generate = _sample_function(address)
    if not callable(generate):
        module_name = address.partition(":")[0]
        raise InvalidValue(
            f"Module {module_name!r} provides no sample data: define sample(count) there, which yields records, or "
            "load a file.",
            argument="catalog",
        )
    records: Any = generate(count)
    if hasattr(records, "__aiter__"):
        async for record in records:
            yield record
    else:
        for record in records:
            yield record


def _sample_function(address: str) -> Any:
    return getattr(sys.modules[address.partition(":")[0]], "sample", None)
