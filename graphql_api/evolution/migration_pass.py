"""One pass over the whole table, in segments, that repairs records or removes what dropped elements left.

Each page is complete, also in the physical indexes, before the checkpoint of its segment moves. Pages are processed in
batches. Before each batch the process renews its copy of the table's record, and the batch is written under its fence.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphql_api.clock import Clock
from graphql_api.codecs import KeyRange, hash_key_parts
from graphql_api.errors import ConditionFailed, Conflict, ItemTooLarge, ShardQLError, StoreError, StoreRefused
from graphql_api.evolution.derived_versions import stored_name
from graphql_api.evolution.element_removal import ElementRemoval
from graphql_api.evolution.migration_checkpoints import (
    PassWork,
    SegmentClaim,
    SegmentProgress,
    advanced,
    store_violations,
)
from graphql_api.evolution.migration_settings import MigrationSettings
from graphql_api.evolution.record_repair import RecordRepairer, Violation
from graphql_api.evolution.schema_copy import SchemaCopy
from graphql_api.evolution.table_record import RecordedElement
from graphql_api.evolution.table_schema import TableSchema
from graphql_api.model import HASH_ATTRIBUTE, Catalog, EntitySpec, IndexSpec
from graphql_api.runtime import RetryStrategy
from graphql_api.storage import Item, Key, Put, RangeRead, Store, Write, resume_after, schema_changed_error
from graphql_api.writes import expect_unchanged, item_key, possible_keys, retry_on_conflict

BATCH_SIZE = 100
"""records between two renewals of the copy"""
_MAX_CONCURRENT_REPAIRS = 16
_KEYS_LOOKED_UP = 10
"""records of each page that must be found in each new index"""
_LOOKUP_PAGE = 100

BATCH_RETRIES = RetryStrategy(max_attempts=10, first_backoff_seconds=0.1, max_backoff_seconds=15.0)
"""of a batch that the store does not answer"""


class RateLimit:
    """A limit of items per second, over all segments."""

    def __init__(self, rate: float | None, clock: Clock, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._rate, self._clock, self._sleep = rate, clock, sleep
        self._free_at = clock()

    async def wait(self, records: int) -> None:
        """Wait until this number of records may be processed."""
        if self._rate is None:
            return
        now = self._clock()
        start = max(now, self._free_at)
        self._free_at = start + records / self._rate
        if start > now:
            await self._sleep(start - now)


@dataclass(slots=True)
class TablePass:
    """A pass over the table by one process."""

    store: Store
    schema: TableSchema
    work: PassWork
    owner: str
    claim_seconds: float
    settings: MigrationSettings
    rate: RateLimit
    on_progress: Callable[[Collection[SegmentProgress]], Awaitable[None]]
    """called with the progress of each segment whose progress is known"""
    before_page: Callable[[SchemaCopy], None]
    """called before each page with the newest copy; raises an error if the pass cannot go on"""
    indexes: Sequence[IndexSpec] = ()
    """the indexes in which records must be found before a checkpoint moves"""
    _progress: dict[int, SegmentProgress] = field(default_factory=dict)

    async def run(self) -> None:
        """Complete the pass, also what other processes have begun."""
        await run_all(self._run_segment(segment) for segment in range(self.work.segments))

    async def _run_segment(self, segment: int) -> None:
        work = self.work
        timer, sleep = self.settings.timer, self.settings.sleep
        claim = SegmentClaim(self.store, work, segment, self.owner, self.claim_seconds, timer, sleep)
        progress = await self._fenced(claim.acquire)
        while not progress.is_done:
            await self._report(segment, progress)
            self.before_page(await self._copy())
            page = await self.store.scan(segment, work.segments, progress.after)
            written = await self._process(page.items, claim, progress)
            following = None
            if written is not None:
                following = advanced(progress, page.after, len(page.items), written)
            if following is None or not await self._fenced(partial(claim.save, following)):
                following = await self._fenced(claim.acquire)  # another process has taken the segment over
            progress = following
        await self._report(segment, progress)

    async def _report(self, segment: int, progress: SegmentProgress) -> None:
        self._progress[segment] = progress
        await self.on_progress(self._progress.values())

    async def _process(self, items: Sequence[Item], claim: SegmentClaim, progress: SegmentProgress) -> int | None:
        """Process a page. Return the number of written items; None if another process has claimed the segment."""
        written, violations, beaten_at = 0, list[Violation](), self.settings.timer()
        page = _Page(self)
        for start in range(0, len(items), BATCH_SIZE):
            batch = items[start : start + BATCH_SIZE]
            await self.rate.wait(len(batch))
            count, found = await self._retried(partial(page.process, batch))
            written += count
            violations += found
            if self.settings.timer() - beaten_at > self.claim_seconds / 3:
                beaten_at = self.settings.timer()
                if not await self._fenced(partial(claim.save, progress)):
                    return None
        if violations:
            await self._fenced(partial(store_violations, self.store, self.work, violations))
        await self._find_in_indexes(items)
        return written

    async def _retried(self, process: Callable[[SchemaCopy], Awaitable[Any]]) -> Any:
        """Process a batch under the fence, and again if the store does not answer or the record's epoch changes."""

        async def attempt() -> Any:
            copy = await self._copy()
            with self.schema.fence(copy):
                return await process(copy)

        return await BATCH_RETRIES.run(attempt)

    async def _copy(self) -> SchemaCopy:
        """Return the newest copy. Raise SchemaChanged if this catalog can no longer write the records to repair."""
        copy = await self.work.copy(self.schema)
        repaired = {one.element.entity for one in self.work.elements} if self.work.kind == "repair" else set[str]()
        if not repaired.isdisjoint(copy.catalog.write_blockers):
            raise schema_changed_error()
        return copy

    async def _fenced(self, write: Callable[[], Awaitable[Any]]) -> Any:
        with self.schema.fence(await self.work.copy(self.schema)):
            return await write()

    # --- lag of indexes ----------------------------------------------------------------------------------------

    async def _find_in_indexes(self, items: Sequence[Item]) -> None:
        """Wait until indexes contain the last records of a page, and the current records of their histories."""
        for index in self.indexes:
            parts = ((item, hash_key_parts(item[HASH_ATTRIBUTE])) for item in items)
            own = [(item, part.tenant) for item, part in parts if part is not None and part.head == index.entity]
            entity = (await self.work.copy(self.schema)).catalog.entities[index.entity]
            wanted = [key for item, tenant in own[-_KEYS_LOOKED_UP:] for key in _written_keys(entity, item, tenant)]
            pauses = RetryStrategy(
                first_backoff_seconds=0.05, max_backoff_seconds=2.0, sleep=self.settings.sleep
            ).start()
            while wanted:
                await self.work.copy(self.schema)
                stored = await self.store.get_many(wanted, consistent=True)
                wanted = [item_key(item) for item in stored if item is not None and not await self._is_in(index, item)]
                if wanted:
                    await pauses.pause()

    async def _is_in(self, index: IndexSpec, item: Item) -> bool:
        """Return whether an index contains a record under the keys that it has now, if it has any."""
        if index.hash_attribute not in item or index.range_attribute not in item:
            return True
        value, key = item[index.range_attribute], item_key(item)
        read: RangeRead | None = RangeRead(
            index.physical, item[index.hash_attribute], 0, KeyRange(value, value), _LOOKUP_PAGE
        )
        while read is not None:
            (page,) = await self.store.read_ranges([read], want=_LOOKUP_PAGE)
            if isinstance(page, StoreError):
                if page.retryable:
                    return False
                raise page
            if any(row.key == key for row in page.rows):
                return True
            read = None if page.scanned_to is None else resume_after(read, page.scanned_to, may_tie=index.raw)
        return False


class _Page:
    """The records of one page, and how they are processed."""

    def __init__(self, table_pass: TablePass) -> None:
        self._pass = table_pass
        self._store = table_pass.store
        self._repairer: RecordRepairer | None = None
        self._epoch: int | None = None

    async def process(self, items: Sequence[Item], copy: SchemaCopy) -> tuple[int, list[Violation]]:
        """Process a batch. Return the number of written items, and the violations."""
        work = self._pass.work
        if work.kind == "removal":
            return await self._remove(items, ElementRemoval(copy.record, work.elements)), []
        if self._repairer is None or self._epoch != copy.record.epoch:
            elements = [copy.record.elements[key] for key in work.epochs]
            self._repairer = RecordRepairer(self._store, copy.catalog, elements, self._pass.settings.clock)
            self._epoch = copy.record.epoch
        return await self._repair(items, self._repairer)

    async def _repair(self, items: Sequence[Item], repairer: RecordRepairer) -> tuple[int, list[Violation]]:
        """Repair records: at once those that only get new attributes, and the others one by one."""
        puts: list[Put] = []
        others: list[Item] = []
        violations: list[Violation] = []
        for item in items:
            repair = repairer.repair_of(item)
            if repair is not None and repair.only_rewrites:
                new, found = repairer.rewrite(repair, item)
                violations += [*repairer.check(repair, item), *found]
                puts += [] if new is item else [Put(new, expect_unchanged(item))]
            elif repair is not None:
                others.append(item)
        count, conflicting = await self._write(puts, repairer, violations)
        changed = await self._store.get_many(conflicting, consistent=True) if conflicting else ()
        groups: dict[Any, list[Item]] = {}
        for item in [*others, *(item for item in changed if item is not None)]:
            groups.setdefault(repairer.group_of(item), []).append(item)
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_REPAIRS)

        async def repair_group(group: list[Item]) -> None:
            nonlocal count
            async with semaphore:
                for item in group:
                    written, found = await repairer.repair(item)
                    count += written
                    violations.extend(found)

        await run_all(repair_group(group) for group in groups.values())
        return count, violations

    async def _write(
        self, puts: Sequence[Put], repairer: RecordRepairer, violations: list[Violation]
    ) -> tuple[int, list[Key]]:
        """Write records with new attributes. Return their number, and the keys of records that have changed."""
        conflicting: list[Key] = []
        refused = 0
        for put, problem in zip(puts, await self._store.write(puts) if puts else (), strict=True):
            if isinstance(problem, ConditionFailed | Conflict):
                conflicting.append(item_key(put.item))
            elif isinstance(problem, StoreRefused | ItemTooLarge):
                violations.append(repairer.refused(put.item, problem))
                refused += 1
            elif problem is not None:
                raise problem
        return len(puts) - refused - len(conflicting), conflicting

    async def _remove(self, items: Sequence[Item], removal: ElementRemoval) -> int:
        writes = [write for item in items if (write := removal.write_of(item)) is not None]
        count = 0
        for write, problem in zip(writes, await self._store.write(writes) if writes else (), strict=True):
            if isinstance(problem, ConditionFailed | Conflict):
                key = item_key(write.item) if isinstance(write, Put) else write.key
                await retry_on_conflict(partial(self._remove_from, key, removal), f"the item {key.hash} / {key.range}")
            elif problem is not None:
                raise problem
            count += 1
        return count

    async def _remove_from(self, key: Key, removal: ElementRemoval) -> None:
        """Remove the effects on an item that another process has changed."""
        (item,) = await self._store.get_many([key], consistent=True)
        write: Write | None = None if item is None else removal.write_of(item)
        if write is not None:
            (problem,) = await self._store.write([write])
            if problem is not None:
                raise problem


def _written_keys(entity: EntitySpec, item: Item, tenant: str | None) -> Sequence[Key]:
    """Return the key of a record, and those that the current record of its history can have."""
    current = entity.written_current
    if current is not None:
        with suppress(ShardQLError, KeyError):  # A record that does not fit is a violation, and has no current record.
            ids = [part.column.codec.load(item[part.stored]) for part in entity.ids]
            return [item_key(item), *possible_keys(entity, [*ids, current], tenant)]
    return [item_key(item)]


def rewritten_indexes(catalog: Catalog, elements: Iterable[RecordedElement]) -> list[IndexSpec]:
    """Return the indexes in which a pass that builds these elements writes entries.

    These are new ones, those with new keys, and all indexes of histories that get current records.
    """
    found = [*elements]
    new = {(one.element.entity, one.element.name) for one in found if one.element.kind == "index"}
    derived = {(one.element.entity, stored_name(one)) for one in found if one.element.kind == "derived property"}
    histories = {one.element.entity for one in found if one.element.kind == "current record"}
    return [
        index
        for entity in catalog.entities.values()
        for index in entity.written_indexes
        if index.physical is not None
        and (
            entity.name in histories
            or (entity.name, index.physical) in new
            or any((entity.name, part.stored) in derived for part in (*index.hash, *index.range_properties))
        )
    ]


async def run_all(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently. The first error cancels the others, and is raised as it is."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
