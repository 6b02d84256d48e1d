"""Checkpoints, claims and violations of a pass over the table, as items of their own.

A checkpoint names the last key of the last complete page of a segment, and the process that has claimed the segment.
The process changes a counter in it. Another process takes the segment over once it has seen the checkpoint unchanged
for a lease, by its own clock. A checkpoint counts only while the elements of its pass are unchanged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Literal

from graphql_api.codecs import KeyRange
from graphql_api.errors import ConditionFailed, StoreError
from graphql_api.evolution.record_repair import Violation
from graphql_api.evolution.schema_copy import SchemaCopy
from graphql_api.evolution.table_record import TABLE_RECORD_KEY, RecordedElement, TableRecord
from graphql_api.evolution.table_schema import TableSchema
from graphql_api.storage import Delete, Item, Key, Put, RangeRead, Store, Write, resume_after, schema_changed_error
from graphql_api.writes import commit_single, expect_unchanged, item_at, item_key

_PAGE_SIZE = 100

PassKind = Literal["repair", "removal"]


@dataclass(frozen=True)
class PassWork:
    """A pass over the table: what it does, and for which elements at which epoch of each."""

    kind: PassKind
    elements: tuple[RecordedElement, ...]
    segments: int

    @cached_property
    def epochs(self) -> dict[str, int]:
        """Return the epoch of each element, by id."""
        return {recorded.element.id: recorded.epoch for recorded in self.elements}

    @cached_property
    def digest(self) -> str:
        """Return what names the pass: equal passes of several processes share their checkpoints."""
        text = f"{self.kind} {self.segments} {sorted(self.epochs.items())}"
        return blake2b(text.encode(), digest_size=9).hexdigest()

    def is_current(self, record: TableRecord) -> bool:
        """Return whether no element of the pass has changed."""
        return _are_current(self.epochs, record)

    async def copy(self, schema: TableSchema) -> SchemaCopy:
        """Return a copy of the table's record in which no element has changed. Otherwise raise SchemaChanged."""
        copy = await schema.copy_for_writing()
        if not self.is_current(copy.record):
            raise schema_changed_error()
        return copy

    def checkpoint_key(self, segment: int) -> Key:
        """Return the key of the checkpoint of a segment."""
        return Key(TABLE_RECORD_KEY.hash, f"{_prefix('checkpoint')}{self.digest}#{segment:06}")

    def violation_item(self, violation: Violation) -> Item:
        """Return the item that stores a violation."""
        name = blake2b(f"{violation.elements} {violation.record}".encode(), digest_size=12).hexdigest()
        key = Key(TABLE_RECORD_KEY.hash, f"{_prefix('violation')}{self.digest}#{name}")
        other = {} if violation.other is None else {"other": [*violation.other]}
        found = {"record": [*violation.record], "concerned": [*violation.elements], "reason": violation.reason}
        return item_at(key, {"elements": self.epochs, **found, **other})


def _prefix(kind: Literal["checkpoint", "violation"]) -> str:
    return f"table#{kind}#"


def _are_current(epochs: Mapping[str, int], record: TableRecord) -> bool:
    recorded = record.elements
    return all(name in recorded and recorded[name].epoch == int(epoch) for name, epoch in epochs.items())


# --- claims and progress of a segment --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SegmentProgress:
    """What a pass has done in a segment."""

    after: Key | None = None
    """the last key of the last complete page"""
    is_done: bool = False
    records: int = 0
    """number of items that were read"""
    written: int = 0


@dataclass(slots=True)
class SegmentClaim:
    """The checkpoint of a segment, as one process sees it."""

    store: Store
    work: PassWork
    segment: int
    owner: str
    lease_seconds: float
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    beat: int = 0
    _stored: Item | None = None

    async def acquire(self) -> SegmentProgress:
        """Claim the segment, or wait until its owner has completed it. Return its progress."""
        key, seen, since = self.work.checkpoint_key(self.segment), None, self.clock()
        while True:
            (stored,) = await self.store.get_many([key], consistent=True)
            progress = SegmentProgress() if stored is None else _parse(stored)
            if progress.is_done:
                return progress
            is_free = stored is None or stored["owner"] == self.owner
            if stored is not None and seen != (stored["owner"], stored["beat"]):
                seen, since = (stored["owner"], stored["beat"]), self.clock()
            if is_free or self.clock() - since >= self.lease_seconds:
                self._stored = stored
                if await self.save(progress):
                    return progress
            else:
                await self.sleep(self.lease_seconds / 10)

    async def save(self, progress: SegmentProgress) -> bool:
        """Store the progress. Return False if another process has taken the segment over."""
        self.beat += 1
        item = item_at(self.work.checkpoint_key(self.segment), self._attributes(progress))
        try:
            await commit_single(self.store, Put(item, expect_unchanged(self._stored)))
        except ConditionFailed:
            return False
        self._stored = item
        return True

    def _attributes(self, progress: SegmentProgress) -> Item:
        after = {} if progress.after is None else {"after": [*progress.after]}
        counts = {"records": progress.records, "written": progress.written, "isDone": progress.is_done}
        claim = {"owner": self.owner, "beat": self.beat, "segment": self.segment}
        return {"elements": self.work.epochs, **claim, **counts, **after}


def _parse(item: Item) -> SegmentProgress:
    after = Key(*item["after"]) if "after" in item else None
    return SegmentProgress(after, item["isDone"], int(item["records"]), int(item["written"]))


# --- all checkpoints and violations of the table ---------------------------------------------------------------


async def store_violations(store: Store, work: PassWork, violations: Iterable[Violation]) -> None:
    """Store violations, before the checkpoint of their page."""
    items = {item_key(item): item for item in map(work.violation_item, violations)}
    await _write_all(store, [*map(Put, items.values())])


async def has_begun(store: Store, work: PassWork) -> bool:
    """Return whether any process has begun a pass: then it has waited for what the pass needs."""
    return bool(await _read_items(store, f"{_prefix('checkpoint')}{work.digest}#"))


async def read_violations(store: Store, work: PassWork) -> list[Violation]:
    """Return the violations that a pass has found, in the order of their records."""
    items = await _read_items(store, f"{_prefix('violation')}{work.digest}#")
    found = [
        Violation(
            tuple(item["concerned"]),
            Key(*item["record"]),
            item["reason"],
            Key(*item["other"]) if "other" in item else None,
        )
        for item in items
    ]
    return sorted(found, key=lambda violation: (violation.record, violation.elements))


async def delete_void_items(store: Store, record: TableRecord, *, completed: PassWork | None = None) -> None:
    """Delete checkpoints and violations of passes whose elements have changed, and those of a completed pass."""
    items = await _read_items(store, _prefix("checkpoint")) + await _read_items(store, _prefix("violation"))
    digest = None if completed is None else completed.digest
    void = [
        item for item in items if not _are_current(item["elements"], record) or item["rangeKey"].split("#")[2] == digest
    ]
    await _write_all(store, [Delete(item_key(item)) for item in void])


async def _write_all(store: Store, writes: Sequence[Write]) -> None:
    for start in range(0, len(writes), _PAGE_SIZE):
        for problem in await store.write(writes[start : start + _PAGE_SIZE]):
            if problem is not None:
                raise problem


async def _read_items(store: Store, prefix: str) -> list[Item]:
    """Read the items under the key of the table's record whose range keys have a prefix."""
    after_prefix = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    read: RangeRead | None = RangeRead(
        None,
        TABLE_RECORD_KEY.hash,
        0,
        KeyRange(prefix, after_prefix, high_open=True),
        _PAGE_SIZE,
        consistent=True,
    )
    found: list[Item] = []
    while read is not None:
        (page,) = await store.read_ranges([read], want=_PAGE_SIZE)
        if isinstance(page, StoreError):
            raise page
        found += [row.item for row in page.rows]
        read = None if page.scanned_to is None else resume_after(read, page.scanned_to, may_tie=False)
    return found


def advanced(progress: SegmentProgress, after: Key | None, records: int, written: int) -> SegmentProgress:
    """Return the progress after another page."""
    return replace(
        progress,
        after=after,
        is_done=after is None,
        records=progress.records + records,
        written=progress.written + written,
    )


def share_done(segments: Iterable[SegmentProgress], of: int, items: int | None) -> float:
    """Return the share of a pass over `of` segments that is done. `items`: of the table, if their number is known."""
    expected = (items or 0) / of
    partial = (min(one.records / expected, 0.99) if expected else 0.0 for one in segments if not one.is_done)
    return (sum(partial) + sum(one.is_done for one in segments)) / of
