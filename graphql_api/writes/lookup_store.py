"""A store that keeps the mapping items of lookups in another store, which no transaction can include.

A write is a sequence of steps, of which each may be repeated safely:

- An insert writes its mapping items first, then the record. If the record is not written, they dangle.
- An update writes the record first. Then it repairs the mapping items: it writes new ones, and removes old ones.
- A deletion removes the record first, then its mapping items.

Searches compare each mapping item with its record, so a dangling one finds nothing. A mapping item may belong to an
insert that is in flight, whose record does not exist yet. So no process removes one that is younger than the grace age.
A writer that paused between the two steps for longer than `MAX_INSERT_SECONDS` writes its mapping items again.
"""

from asyncio import gather
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from logging import getLogger
from typing import Any

from graphql_api.clock import Clock, Instant, read_clocks, seconds_between
from graphql_api.codecs import hash_key_parts
from graphql_api.errors import ConditionFailed, StoreError, StoreUnavailable
from graphql_api.model import is_mapping_key, mapped_record
from graphql_api.runtime import RetryStrategy, current_statistics
from graphql_api.storage import (
    Check,
    CheckableStore,
    ComparingStore,
    Delete,
    ForwardingStore,
    GroupedPages,
    Item,
    Key,
    Put,
    RangeRead,
    ReadGroups,
    ReadResult,
    ScanPage,
    ShardReads,
    Store,
    TransactionWrite,
    Write,
    WriteFence,
    current_fence,
    is_number,
    pages_of_groups,
    schema_changed_error,
    unfenced,
)
from graphql_api.writes.item_keys import WRITTEN_AT, is_same_item, item_key, write_key
from graphql_api.writes.lookup_steps import WriteSteps, steps_of
from graphql_api.writes.transactions import expect_unchanged, with_new_write_id

log = getLogger("shardql")

GRACE_SECONDS = 900.0
"""age from which a dangling mapping item may be removed, unless another one is given"""
MIN_GRACE_SECONDS = 60.0
MAX_INSERT_SECONDS = MIN_GRACE_SECONDS / 2
"""between the mapping items of an insert and its record; then they are written again, since they may be removed"""
REPAIR_RETRIES = RetryStrategy(max_attempts=4, first_backoff_seconds=0.05, max_backoff_seconds=0.5)
"""of the mapping items of a record that is written already"""

_SECOND_STORE = Key("shardql~lookups!", "scan")
"""the position of a scan at which the items of the second store begin"""


def may_be_in_flight(mapping: Item, now: float, grace_seconds: float) -> bool:
    """Return whether a mapping item may belong to an insert whose record is not written yet.

    A time in the future counts as young, since clocks differ. Without a time, an item was written by another program.
    """
    written: Any = mapping.get(WRITTEN_AT)
    return is_number(written) and now - float(written) < grace_seconds


class LookupStore(ForwardingStore):
    """A store of records whose mapping items are in another store."""

    def __init__(self, records: Store, mappings: Store, clock: Clock, grace_seconds: float = GRACE_SECONDS) -> None:
        super().__init__(records)
        self.mappings = mappings
        self.grace_seconds = grace_seconds
        self._clock = clock

    def _instant(self) -> Instant:
        """Return the time by clocks of which one goes on while the process is frozen."""
        return *read_clocks(), self._clock()

    def _has_paused_since(self, began: Instant) -> bool:
        return seconds_between(began, self._instant()) > MAX_INSERT_SECONDS

    # --- reading -----------------------------------------------------------------------------------------------

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        """Read ranges of records and indexes, and ranges of mapping items. A search reads one of both kinds only."""
        if not isinstance(reads, ReadGroups):
            return await self._store_of(reads).read_ranges(reads, want)
        stores = [self._store_of(group.reads) for group in reads.groups]

        async def read_part(store: Store) -> Iterator[Sequence[ReadResult]]:
            part = ReadGroups([group for group, own in zip(reads.groups, stores, strict=True) if own is store])
            return iter(pages_of_groups(part, await store.read_ranges(part, part.want)))

        used = [*dict.fromkeys(stores)]
        pages = dict(zip(used, await gather(*map(read_part, used)), strict=True))
        return GroupedPages([next(pages[store]) for store in stores])

    def _store_of(self, reads: Sequence[RangeRead]) -> Store:
        """Return the store of the ranges that one search reads."""
        hash_text = reads.keys.last if isinstance(reads, ShardReads) else reads[0].hash_key if reads else ""
        return self.mappings if is_mapping_key(hash_text) else self.inner

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        """Read items of both stores by key."""
        mapped = [key for key in keys if is_mapping_key(key.hash)]
        if not mapped:
            return await self.inner.get_many(keys, consistent)
        rest = [key for key in keys if not is_mapping_key(key.hash)]
        found = dict(zip(mapped, await self.mappings.get_many(mapped, consistent), strict=True))
        if rest:
            found |= zip(rest, await self.inner.get_many(rest, consistent), strict=True)
        return [found[key] for key in keys]

    async def scan(self, segment: int, of: int, after: Key | None) -> ScanPage:
        """Read one page of a segment of the records, and then of the mapping items."""
        if after is None or not (after == _SECOND_STORE or is_mapping_key(after.hash)):
            page = await self.inner.scan(segment, of, after)
            return page if page.after is not None else replace(page, after=_SECOND_STORE)
        page = await self.mappings.scan(segment, of, None if after == _SECOND_STORE else after)
        return replace(page, items=[item for item in page.items if is_mapping_key(item_key(item).hash)])

    # --- writing -----------------------------------------------------------------------------------------------

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        """Apply independent writes to both stores."""
        mapped = [position for position, write in enumerate(writes) if is_mapping_key(write_key(write).hash)]
        if not mapped:
            return await self.inner.write(writes)
        results: list[StoreError | None] = [None] * len(writes)
        others = [position for position in range(len(writes)) if position not in {*mapped}]
        if others:
            found = await self.inner.write([writes[position] for position in others])
            for position, problem in zip(others, found, strict=True):
                results[position] = problem
        found = await self._write_mappings([writes[position] for position in mapped], is_guarded=True)
        for position, problem in zip(mapped, found, strict=True):
            results[position] = problem
        return results

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        """Apply a transaction of records, and the writes of their mapping items before and after it."""
        steps = steps_of(writes)
        if len(steps.records) == len(writes):
            await self.inner.write_together(writes, token)
            return
        began = self._instant()
        late = await self._put_before(steps.inserted)
        if steps.records:
            await self._write_records(steps, token)
        late = steps.inserted if self._has_paused_since(began) else late
        if not steps.changes_records:  # The caller repairs mapping items only, and must know whether it succeeded.
            await self._apply([*steps.repaired, *steps.removed], is_guarded=True)
            return
        try:
            await REPAIR_RETRIES.run(lambda: self._apply([*steps.repaired, *late]))
            await REPAIR_RETRIES.run(lambda: self._remove_old(steps.removed, began))
        except StoreError as problem:
            # The record is written. `shardql reconcile` repairs its mapping items.
            current_statistics().lookup_repairs_failed += 1
            unrepaired: list[Write] = [*steps.repaired, *late, *steps.removed]
            lookups = {_head(write_key(write)) for write in unrepaired}  # without values, which may be secrets
            log.warning(
                "A record is written, and its mapping items are not: %s (%s)", ", ".join(sorted(lookups)), problem.code
            )

    async def _put_before(self, puts: Sequence[Put]) -> list[Put]:
        """Write the mapping items of an insert. If that fails, the record is certainly not written.

        Return those that must wait for the record: until it is written, another record may need what is stored.
        """
        try:
            taken = await self._put_if(puts, dict.fromkeys(map(write_key, puts)))
            if taken:
                free = await self._replaceable(taken, puts)
                retaken = await self._put_if([put for put in puts if write_key(put) in free], free)
                taken = {key: old for key, old in taken.items() if key not in free or key in retaken}
        except StoreUnavailable as problem:
            certain = StoreUnavailable("The lookup store does not answer: {problem}", problem=problem)
            certain.certain = True
            raise certain from problem
        return [put for put in puts if write_key(put) in taken]

    async def _put_if(self, puts: Sequence[Put], stored: Mapping[Key, Item | None]) -> dict[Key, Item]:
        """Write mapping items if the stored ones are unchanged. Return what is stored instead of some of them.

        An equal one is written too: then it counts as young again, and no process removes it.
        """
        conditional = [replace(put, expect=expect_unchanged(stored[write_key(put)])) for put in puts]
        taken: dict[Key, Item] = {}
        for put, problem in zip(puts, await self._write_mappings(conditional) if puts else (), strict=True):
            old = problem.old if isinstance(problem, ConditionFailed) else None
            if old is not None:
                taken[write_key(put)] = old
            elif problem is not None and not isinstance(problem, ConditionFailed):
                raise problem
        return taken

    async def _replaceable(self, taken: Mapping[Key, Item], puts: Sequence[Put]) -> dict[Key, Item]:
        """Return the stored mapping items that may be replaced: equal ones, and old ones without a record."""
        wanted = {write_key(put): put.item for put in puts}
        free = {key: old for key, old in taken.items() if is_same_item(old, wanted[key])}
        others = {key: mapped_record(old) for key, old in taken.items() if key not in free}
        records = [record for record in others.values() if record is not None]
        found = dict(zip(records, await self.inner.get_many(records, consistent=True), strict=True)) if records else {}
        now = self._clock()
        return free | {
            key: taken[key]
            for key, record in others.items()
            if (record is None or found[record] is None) and not may_be_in_flight(taken[key], now, self.grace_seconds)
        }

    async def _write_records(self, steps: WriteSteps, token: str) -> None:
        try:
            await self.inner.write_together(steps.records, token)
        except ConditionFailed as problem:
            raise _at_positions(problem, steps.positions) from problem

    async def _apply(self, writes: Sequence[Write], *, is_guarded: bool = False) -> None:
        for problem in await self._write_mappings(writes, is_guarded=is_guarded) if writes else ():
            if problem is not None:
                raise problem

    async def _write_mappings(
        self, writes: Iterable[Write], *, is_guarded: bool = False
    ) -> Sequence[StoreError | None]:
        """Write mapping items, each under a new write id and with the present time, so that it counts as young.

        `is_guarded`: the write fence must hold. Mapping items of a record need none: at worst they dangle.
        """
        now = int(self._clock())
        stamped = [
            replace(write, item=with_new_write_id({**write.item, WRITTEN_AT: now})) if isinstance(write, Put) else write
            for write in writes
        ]
        fence = current_fence() if is_guarded else None
        if fence is not None:
            fence.verify()
            self._check_epoch(fence)
        with unfenced():
            return await self.mappings.write(stamped)

    def _check_epoch(self, fence: WriteFence) -> None:
        """Evaluate the condition of a fence, if engines do. The second store cannot: it has no record of the table."""

    async def _remove_old(self, deletes: Sequence[Delete], began: Instant) -> None:
        """Remove mapping items that a written record no longer needs, unless they may be in flight.

        After a pause, other writers may have written them again long ago: then `shardql reconcile` decides.
        """
        if not deletes:
            return
        keys = [write.key for write in deletes]
        stored = await self.mappings.get_many(keys, consistent=True)
        if self._has_paused_since(began):
            return
        old = [
            Delete(key, expect_unchanged(item))
            for key, item in zip(keys, stored, strict=True)
            if item is not None and not may_be_in_flight(item, self._clock(), self.grace_seconds)
        ]
        for problem in await self._write_mappings(old) if old else ():
            if problem is not None and not isinstance(problem, ConditionFailed):
                raise problem


class ComparedLookupStore(LookupStore):
    """A store of records that compares the epoch, whose mapping items are in another store."""

    inner: Any

    def forget_snapshot(self) -> None:
        """Forward to the store of the records."""
        self.inner.forget_snapshot()

    def holds(self, check: Check) -> bool:
        """Return whether a condition holds in the store of the records."""
        return bool(self.inner.holds(check))

    def _check_epoch(self, fence: WriteFence) -> None:
        self.inner.forget_snapshot()
        if not self.inner.holds(fence.check):
            raise schema_changed_error()

    async def check_health(self) -> None:
        """Check the health of both stores."""
        for store in (self.inner, self.mappings):
            if isinstance(store, CheckableStore):
                await store.check_health()


def with_lookup_store(
    records: Store, mappings: Store, clock: Clock, grace_seconds: float = GRACE_SECONDS
) -> LookupStore:
    """Return a store of records whose mapping items are in another store."""
    kind = ComparedLookupStore if isinstance(records, ComparingStore) else LookupStore
    return kind(records, mappings, clock, grace_seconds)


def _head(key: Key) -> str:
    parts = hash_key_parts(key.hash)
    return "" if parts is None else parts.head


def _at_positions(problem: ConditionFailed, positions: Sequence[int]) -> ConditionFailed:
    """Return the error of a part of a transaction with the positions in the whole one."""
    failures = {positions[at]: old for at, old in problem.failures.items()}
    return ConditionFailed(problem.message, position=positions[problem.position], old=problem.old, failures=failures)
