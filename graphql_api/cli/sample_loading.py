"""Writes sample records in batches, with a count of what was written."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from graphql_api.cli.sample_data import offers_samples, sample_records
from graphql_api.database import Database
from graphql_api.model import Entity
from graphql_api.ops import BATCH, PutMany, put_patiently

LOOKED_FOR_AT_ONCE = 100
ORDINARY: Mapping[type[Entity], PutMany] = {}


async def fill(
    db: Database,
    records: AsyncIterator[Entity],
    batch: int,
    show: Callable[[int], object],
    put: Mapping[type[Entity], PutMany] = ORDINARY,
) -> Counter[str]:
    """Writes the records in their order, as far as one entity allows; counts them by entity.

    `put`: what writes the records of an entity, where it is something else than ordinary.
    """
    written: Counter[str] = Counter()
    waiting: dict[type[Entity], list[Entity]] = {}
    held = 0
    async for record in records:
        waiting.setdefault(type(record), []).append(record)
        held += 1
        if held >= batch:
            await _write(db, waiting, written, put)
            show(written.total())
            waiting, held = {}, 0
    await _write(db, waiting, written, put)
    show(written.total())
    return written


async def fill_once(db: Database, address: str, count: int, show: Callable[[int], object]) -> int:
    """Writes the sample of a catalog's module unless it is there to its last record; the number of records written.

    What stands there is left as it is, changed or not: a sample that was broken off is only completed.
    """
    first: Entity | None = None
    last: dict[type[Entity], Entity] = {}
    async for record in sample_records(address, count):
        first = first or record
        last[type(record)] = record
    if first is None or all(await _stand(db, last.values())):
        return 0
    begun = any(await _stand(db, [first]))
    records = sample_records(address, count)
    return (await fill(db, _missing(db, records) if begun else records, BATCH, show)).total()


async def stored_samples(db: Database, address: str, count: int = 20) -> list[Entity]:
    """Some records of the store, where the module of a catalog can say how to find any."""
    if not offers_samples(address):
        return []
    records = [record async for record in sample_records(address, count)]
    stand = await _stand(db, records)
    return [record for record, stands in zip(records, stand, strict=True) if stands]


async def _missing(db: Database, records: AsyncIterator[Entity]) -> AsyncIterator[Entity]:
    """Those of the records that do not stand in the store."""
    held: list[Entity] = []
    async for record in records:
        held.append(record)
        if len(held) >= LOOKED_FOR_AT_ONCE:
            for missing in await _not_there(db, held):
                yield missing
            held = []
    for missing in await _not_there(db, held):
        yield missing


async def _not_there(db: Database, records: list[Entity]) -> list[Entity]:
    return [record for record, stands in zip(records, await _stand(db, records), strict=True) if not stands]


async def _stand(db: Database, records: Iterable[Entity]) -> list[bool]:
    """Whether there is a record with the id of each."""

    async def stands(record: Entity) -> bool:
        spec = db.catalog.entity(type(record))
        return await db.record(spec, None, {part.name: getattr(record, part.name) for part in spec.primary}) is not None

    return list(await asyncio.gather(*map(stands, records)))


async def _write(
    db: Database,
    waiting: dict[type[Entity], list[Entity]],
    written: Counter[str],
    put: Mapping[type[Entity], PutMany],
) -> None:
    for model, records in waiting.items():
        for problem in await put_patiently(put.get(model, db.put_many), records):
            if problem is not None:
                raise problem
        written[model.__name__] += len(records)
