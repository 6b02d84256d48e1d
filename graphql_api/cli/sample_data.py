"""Sample data, which the module of a catalog may offer as `sample(count)`."""

import sys
from collections.abc import AsyncIterator
from typing import Any

from graphql_api.errors import InvalidValue
from graphql_api.model import Entity


def offers_samples(address: str) -> bool:
    """Whether the module of a loaded catalog makes up records."""
    return callable(_sample_function(address))


async def sample_records(address: str, count: int) -> AsyncIterator[Entity]:
    """The records that the module of a loaded catalog makes up; `sample` may be a generator of either kind."""
    make = _sample_function(address)
    if not callable(make):
        module_name = address.partition(":")[0]
        raise InvalidValue(
            f"Module {module_name!r} offers no sample data: define sample(count) there, which yields records, or load "
            "a file.",
            argument="catalog",
        )
    made: Any = make(count)
    if hasattr(made, "__aiter__"):
        async for record in made:
            yield record
    else:
        for record in made:
            yield record


def _sample_function(address: str) -> Any:
    return getattr(sys.modules[address.partition(":")[0]], "sample", None)
