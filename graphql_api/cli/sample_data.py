"""Sample data: the module of a catalog may provide it as `sample(count)`, a sync or an async generator."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable

from pydantic import ValidationError

from graphql_api.database import Database
from graphql_api.errors import InvalidValue, ShardQLError
from graphql_api.model import Entity
from graphql_api.ops import DEFAULT_BATCH_SIZE, create_only_writer, put_with_retries, validation_messages

_LOOKUP_BATCH_SIZE = 100


def has_sample_data(address: str) -> bool:
    """Return whether the module of a loaded catalog provides sample data."""
    return callable(getattr(sys.modules[address.partition(":")[0]], "sample", None))


async def sample_records(address: str, count: int) -> AsyncIterator[Entity]:
    """Yield the sample records of the module of a loaded catalog."""
    module_name = address.partition(":")[0]
    if not has_sample_data(address):
        raise InvalidValue(
            f"Module {module_name!r} provides no sample data: define sample(count) there, which yields records, or "
            "load a file.",
            argument="catalog",
        )
    try:
        records = sys.modules[module_name].sample(count)
        if hasattr(records, "__aiter__"):
            async for record in records:
                yield record
        else:
            for record in records:
                yield record
    except ShardQLError:
        raise
    except Exception as error:
        reason = "; ".join(validation_messages(error)) if isinstance(error, ValidationError) else str(error)
        raise InvalidValue(
            f"sample({count}) of module {module_name!r} raises {type(error).__name__}: {reason}. Correct or remove it.",
            argument="catalog",
        ) from error


async def collect_samples(address: str, count: int) -> list[Entity]:
    """Return the sample records of the module of a loaded catalog, or an empty list if it provides none."""
    return [record async for record in sample_records(address, count)] if has_sample_data(address) else []


async def write_samples(
    db: Database,
    records: AsyncIterator[Entity],
    batch_size: int,
    show: Callable[[int], object],
    *,
    create_only: bool = False,
) -> Counter[str]:
    """Write the records in batches, grouped by entity. Return the number of records by entity.

    With `create_only`, a record whose id is taken by a different record is an error. Otherwise it replaces that one.
    """
    written: Counter[str] = Counter()
    async for batch in _batches(records, batch_size):
        groups: dict[type[Entity], list[Entity]] = {}
        for record in batch:
            groups.setdefault(type(record), []).append(record)
        for model, group in groups.items():
            spec = db.catalog.entity(model)
            put_many = create_only_writer(db.apply_each, spec) if create_only else db.put_many
            for error in await put_with_retries(put_many, group):
                if error is not None:
                    raise error
            written[model.__name__] += len(group)
        show(written.total())
    return written


async def write_samples_once(db: Database, address: str, count: int, show: Callable[[int], object]) -> int:
    """Write the sample data of a catalog, unless it is complete. Return the number of records written.

    Records whose id exists already are never changed. After an interrupted run, only missing records are written.
    """
    first: Entity | None = None
    last: dict[type[Entity], Entity] = {}
    async for record in sample_records(address, count):
        first = first or record
        last[type(record)] = record
    if first is None or all(await _exist(db, last.values())):
        return 0
    records = sample_records(address, count)
    if any(await _exist(db, [first])):
        records = _missing_records(db, records)
    return (await write_samples(db, records, DEFAULT_BATCH_SIZE, show)).total()


async def stored_samples(db: Database, address: str, count: int = 20) -> list[Entity]:
    """Return some sample records that are stored. The result is empty if the module provides no sample data."""
    records = await collect_samples(address, count)
    return [record for record, exists in zip(records, await _exist(db, records), strict=True) if exists]


async def _missing_records(db: Database, records: AsyncIterator[Entity]) -> AsyncIterator[Entity]:
    async for batch in _batches(records, _LOOKUP_BATCH_SIZE):
        for record, exists in zip(batch, await _exist(db, batch), strict=True):
            if not exists:
                yield record


async def _batches(records: AsyncIterator[Entity], size: int) -> AsyncIterator[list[Entity]]:
    batch: list[Entity] = []
    async for record in records:
        batch.append(record)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def _exist(db: Database, records: Iterable[Entity]) -> list[bool]:
    """Return for each record whether a record with its id is stored."""
    reads = []
    for record in records:
        primary_key = db.catalog.entity(type(record)).primary_key
        reads.append(db.get(type(record), **{part.name: getattr(record, part.name) for part in primary_key}))
    return [stored is not None for stored in await asyncio.gather(*reads)]
