"""Writes sample records in batches."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from graphql_api.cli.sample_data import has_sample_data, sample_records
from graphql_api.database import Database
from graphql_api.model import Entity
from graphql_api.ops import DEFAULT_BATCH_SIZE, PutMany, put_with_retries

LOOKUP_BATCH_SIZE = 100
NO_WRITERS: Mapping[type[Entity], PutMany] = {}


async def write_samples(
    db: Database,
    records: AsyncIterator[Entity],
    batch: int,
    show: Callable[[int], object],
    writers: Mapping[type[Entity], PutMany] = NO_WRITERS,
) -> Counter[str]:
    """Write the records in batches, and return the number of records by entity.

    Within a batch, records are grouped by entity. `writers` replaces the default `put_many` for some entities.
    """
    written: Counter[str] = Counter()
    pending: dict[type[Entity], list[Entity]] = {}
    pending_count = 0
    async for record in records:
        pending.setdefault(type(record), []).append(record)
        pending_count += 1
        if pending_count >= batch:
            await _write_batch(db, pending, written, writers)
            show(written.total())
            pending, pending_count = {}, 0
    await _write_batch(db, pending, written, writers)
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
    is_partial = any(await _exist(db, [first]))
    records = sample_records(address, count)
    missing = _missing_records(db, records) if is_partial else records
    return (await write_samples(db, missing, DEFAULT_BATCH_SIZE, show)).total()


async def stored_samples(db: Database, address: str, count: int = 20) -> list[Entity]:
    """Return some sample records that are stored. The result is empty if the module provides no sample data."""
    if not has_sample_data(address):
        return []
    records = [record async for record in sample_records(address, count)]
    return [record for record, exists in zip(records, await _exist(db, records), strict=True) if exists]


async def _missing_records(db: Database, records: AsyncIterator[Entity]) -> AsyncIterator[Entity]:
    """Yield the records that are not stored."""
    batch: list[Entity] = []
    async for record in records:
        batch.append(record)
        if len(batch) >= LOOKUP_BATCH_SIZE:
            for missing in await _not_stored(db, batch):
                yield missing
            batch = []
    for missing in await _not_stored(db, batch):
        yield missing


async def _not_stored(db: Database, records: list[Entity]) -> list[Entity]:
    return [record for record, exists in zip(records, await _exist(db, records), strict=True) if not exists]


async def _exist(db: Database, records: Iterable[Entity]) -> list[bool]:
    """Return for each record whether a record with its id is stored."""

    async def exists(record: Entity) -> bool:
        spec = db.catalog.entity(type(record))
        key = {part.name: getattr(record, part.name) for part in spec.primary_key}
        return await db.record(spec, None, key) is not None

    return list(await asyncio.gather(*map(exists, records)))


async def _write_batch(
    db: Database,
    pending: dict[type[Entity], list[Entity]],
    written: Counter[str],
    writers: Mapping[type[Entity], PutMany],
) -> None:
    for model, records in pending.items():
        for error in await put_with_retries(writers.get(model, db.put_many), records):
            if error is not None:
                raise error
        written[model.__name__] += len(records)
