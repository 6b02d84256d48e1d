"""Writes sample records in batches, with a count of what was written."""

from collections import Counter
from collections.abc import AsyncIterator, Callable

from graphql_api.catalog.entity import Entity
from graphql_api.upkeep.load_lines import put_patiently
from graphql_api.wiring import Database


async def fill(db: Database, records: AsyncIterator[Entity], batch: int, show: Callable[[int], object]) -> Counter[str]:
    """Writes the records in their order, as far as one entity allows; counts them by entity."""
    written: Counter[str] = Counter()
    waiting: dict[type[Entity], list[Entity]] = {}
    held = 0
    async for record in records:
        waiting.setdefault(type(record), []).append(record)
        held += 1
        if held >= batch:
            await _write(db, waiting, written)
            show(written.total())
            waiting, held = {}, 0
    await _write(db, waiting, written)
    show(written.total())
    return written


async def _write(db: Database, waiting: dict[type[Entity], list[Entity]], written: Counter[str]) -> None:
    for model, records in waiting.items():
        for problem in await put_patiently(db.put_many, records):
            if problem is not None:
                raise problem
        written[model.__name__] += len(records)
