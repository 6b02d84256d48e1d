"""Verify a table: every stored item against what the elements of the table derive from it.

Each item is inspected twice. The first look shares calls between the items of a page, and may see states that writers
are changing. The second look reads everything again, twice, so that what it finds was true at one moment.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar
from zlib import error

from graphql_api.clock import Clock, system_clock
from graphql_api.errors import (
    ConditionFailed,
    Conflict,
    ItemTooLarge,
    SchemaChanged,
    StoreRefused,
    StoreUnavailable,
)
from graphql_api.evolution import (
    BATCH_RETRIES,
    EPOCH_KEY,
    TABLE_RECORD_KEY,
    RateLimit,
    SchemaCopy,
    TableRecord,
    TableSchema,
    is_compared,
    opened_schema,
    run_all,
)
from graphql_api.model import Catalog
from graphql_api.runtime import RetryStrategy
from graphql_api.storage import Item, Key, Store
from graphql_api.verification.findings import Damage, Finding, Inspection
from graphql_api.verification.item_digests import DigestedItems, DigestSums, ShardDigest, item_digest
from graphql_api.verification.item_inspection import ItemInspector
from graphql_api.verification.snapshot_reads import BatchedReads, SnapshotReads
from graphql_api.verification.table_sample import sampled_pages
from graphql_api.verification.verified_elements import VerifiedElements
from graphql_api.writes import commit_transaction, item_key

T = TypeVar("T")

SEGMENTS = 8
"""parts of a table that are read concurrently, on engines that compare no epoch"""
MAX_FINDINGS = 100_000
"""findings that are listed; further ones are only counted"""
_MAX_CONCURRENT_LOOKS = 16
_OWNED_ITEMS = frozenset({Damage.UNIQUE_ITEM, Damage.REFERENCE_ITEM, Damage.MAPPING_ITEM})
_MAX_ROUNDS = 5
"""repairs of one item, since one may reveal further damage, and looks at a page while the table's record changes"""

SETTLE_RETRIES = RetryStrategy(max_attempts=12, first_backoff_seconds=0.02, max_backoff_seconds=1.0)
"""of a second look, while writers change what it reads"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSettings:
    """How a verification runs."""

    repair: bool = False
    """restore what can be derived from other data"""
    rate: float | None = None
    """items per second, at most"""
    sample: int | None = None
    """the number of records to verify, at even distances in every shard; None: all items"""
    tenants: Sequence[str | None] = (None,)
    """whose records a sample contains"""
    ignored: frozenset[Damage] = frozenset()
    """kinds of damage that are neither reported nor repaired by themselves"""
    segments: int | None = None
    """parts of the table that are read concurrently; None: what suits the engine"""
    clock: Clock = system_clock
    timer: Clock = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(slots=True)
class VerificationResult:
    """What a verification has found."""

    items: int = 0
    """number of items that were inspected"""
    shards: Sequence[ShardDigest] = ()
    """empty for a sample"""
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[Damage] = field(default_factory=Counter)
    """number of findings by kind, also of those that are not listed"""
    repaired: Counter[Damage] = field(default_factory=Counter)
    """number of those that were repaired"""
    unsettled: list[Key] = field(default_factory=list)
    """items that writers changed at every look: nothing is known of them"""
    left_out: Sequence[str] = ()
    """one sentence for each entity and element that was not verified"""

    @property
    def remaining(self) -> Counter[Damage]:
        """Return the number of findings that were not repaired, by kind."""
        return self.counts - self.repaired


VerificationCallback = Callable[[VerificationResult], None]


async def verify_table(
    store: Store,
    catalog: Catalog,
    settings: VerificationSettings | None = None,
    on_progress: VerificationCallback = lambda _: None,
) -> VerificationResult:
    """Verify all items of a table, or a sample. With `repair`, restore what can be derived from other data."""
    problem = await _own_record_problem(store)
    if problem is not None:
        left_out = ["Nothing else is verified: servers refuse to work with this table."]
        return VerificationResult(findings=[problem], counts=Counter([problem.damage]), left_out=left_out)
    async with opened_schema(store, catalog) as schema:
        return await TableVerification(store, catalog, schema, settings or VerificationSettings(), on_progress).run()


async def _own_record_problem(store: Store) -> Finding | None:
    """Return a finding if the table's record cannot be read, or has another epoch: then no server can act on it."""
    while True:
        reads = SnapshotReads(store)
        stored, epoch = await reads.get_many([TABLE_RECORD_KEY, EPOCH_KEY], consistent=True)
        try:
            recorded = None if stored is None or "schema" not in stored else TableRecord.from_item(stored).epoch
        except (error, ValueError, KeyError, TypeError):
            return Finding(Damage.TABLE_RECORD, TABLE_RECORD_KEY, "it cannot be read", is_derivable=False)
        if recorded == (None if epoch is None else epoch.get("epoch")):
            return None
        if await reads.is_unchanged():
            reason = "its epoch is not that of the table's record"
            return Finding(Damage.TABLE_RECORD, EPOCH_KEY, reason, is_derivable=False)


class TableVerification:
    """One verification of a table."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        schema: TableSchema,
        settings: VerificationSettings,
        on_progress: VerificationCallback,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._schema = schema
        self._settings = settings
        self._on_progress = on_progress
        self._rate = RateLimit(settings.rate, settings.timer, settings.sleep)
        self._result = VerificationResult()
        self._sums = DigestSums()
        self._found: dict[tuple[str, Key, tuple[str, ...]], tuple[Finding, Key]] = {}
        """listed findings, and the items whose inspection found them"""
        self._void: list[Key] = []
        """constraint items that no record seems to need"""
        self._owned: set[Key] = set()
        """constraint items that a record needs, and that were missing or wrong"""
        self._elements: dict[int, VerifiedElements] = {}
        """by epoch"""
        self._left_out: dict[str, None] = {}

    async def run(self) -> VerificationResult:
        """Inspect all items, or a sample."""
        result, settings = self._result, self._settings
        if settings.sample is None:
            segments = settings.segments or (1 if is_compared(self._store) else SEGMENTS)
            await run_all(self._verify_pages(self._scan(segment, segments)) for segment in range(segments))
            result.shards = [*self._sums]
        else:
            elements = self._elements_of(self._schema.latest)
            await self._verify_pages(sampled_pages(self._store, elements, settings.sample, settings.tenants))
            self._left_out["A sample does not find items that no record needs, nor records of unknown entities."] = None
        # An item of the wrong owner was reported, or repaired, with the record that needs it.
        await self._examine_all([key for key in dict.fromkeys(self._void) if key not in self._owned], is_last=True)
        if result.repaired:
            await self._examine_again()
        order = [*Damage]
        found = (finding for finding, _ in self._found.values())
        result.findings = sorted(found, key=lambda one: (order.index(one.damage), one.record))
        result.unsettled = [*dict.fromkeys(result.unsettled)]
        result.left_out = [*self._left_out]
        return result

    async def _scan(self, segment: int, segments: int) -> AsyncIterator[Sequence[Item]]:
        after: Key | None = None
        while True:
            page = await BATCH_RETRIES.run(partial(self._store.scan, segment, segments, after))
            yield page.items
            if page.after is None:
                return
            after = page.after

    async def _verify_pages(self, pages: AsyncIterator[Sequence[Item]]) -> None:
        async for items in pages:
            await self._rate.wait(len(items))
            self._add_digests(items)
            suspects = await BATCH_RETRIES.run(partial(self._suspects, items))
            await self._examine_all(suspects)
            self._result.items += len(items)
            self._on_progress(self._result)

    def _add_digests(self, items: Sequence[Item]) -> None:
        digested, now = DigestedItems(self._schema.latest.record), self._settings.clock()
        for item in items:
            place = digested.place(item, now)
            if place is not None:
                self._sums.add(place, item_digest(item))

    def _elements_of(self, copy: SchemaCopy) -> VerifiedElements:
        epoch = copy.record.epoch
        if epoch not in self._elements:
            self._elements = {epoch: VerifiedElements(copy, self._catalog)}
            self._left_out |= dict.fromkeys(self._elements[epoch].left_out())
        return self._elements[epoch]

    # --- the first look ----------------------------------------------------------------------------------------

    async def _suspects(self, items: Sequence[Item]) -> list[Key]:
        """Return the items in which something seems to be wrong."""
        for _ in range(_MAX_ROUNDS):
            copy = await self._schema.copy_for_reading()
            inspector = ItemInspector(BatchedReads(self._store), self._elements_of(copy), self._settings.clock)
            suspicious = await asyncio.gather(*(_is_suspicious(inspector, item) for item in items))
            counters = await inspector.inspect_counters()
            if await self._schema.held_for_reading(copy):
                found = [item_key(item) for item, is_found in zip(items, suspicious, strict=True) if is_found]
                return [*dict.fromkeys([*found, *counters])]
        raise StoreUnavailable("The table's record kept changing while its items were verified: retry.")

    # --- the second look ---------------------------------------------------------------------------------------

    async def _examine_all(self, keys: Sequence[Key], *, is_last: bool = False) -> None:
        """Look at items again. Constraint items without a record are put off to the last looks."""
        semaphore = asyncio.Semaphore(_MAX_CONCURRENT_LOOKS)

        async def examine(key: Key) -> None:
            async with semaphore:
                await BATCH_RETRIES.run(partial(self._examine, key, is_last))

        await run_all(map(examine, keys))

    async def _examine(self, key: Key, is_last: bool) -> None:
        """Look at an item until it holds still, and record what is wrong. A repair may reveal further damage."""
        for _ in range(_MAX_ROUNDS):
            retries = SETTLE_RETRIES.start()
            while (inspection := await self._look(key, is_last)) is None:
                if not await retries.pause():
                    self._result.unsettled.append(key)
                    return
            for finding in inspection.findings:
                self._record(finding, key)
            if not any(finding.is_repaired for finding in inspection.findings):
                return
            key = inspection.moved_to or key

    async def _look(self, key: Key, is_last: bool) -> Inspection | None:
        """Inspect an item as it was at one moment, and repair it if that is wanted. Return None if it changed."""
        repair = self._settings.repair
        copy = await (self._schema.copy_for_writing() if repair else self._schema.copy_for_reading())
        reads = SnapshotReads(self._store)
        inspector = ItemInspector(reads, self._elements_of(copy), self._settings.clock)
        (item,) = await reads.get_many([key], consistent=True)
        if item is None:
            return Inspection()
        try:
            inspection = await inspector.inspect(item)
        except Conflict:
            return None
        for counters in (await inspector.inspect_counters()).values():
            inspection.findings += counters.findings
            inspection.writes += counters.writes
        inspection.findings = [one for one in inspection.findings if one.damage not in self._settings.ignored]
        if not inspection.findings:
            return inspection
        if not (await reads.is_unchanged() and await self._schema.held_for_reading(copy)):
            return None
        if not is_last and all(finding.damage is Damage.VOID_ITEM for finding in inspection.findings):
            self._void.append(key)  # The record that needs it determines its owner, if there is one.
            return Inspection()
        return await self._repaired(inspection, copy) if repair and inspection.writes else inspection

    async def _repaired(self, inspection: Inspection, copy: SchemaCopy) -> Inspection | None:
        """Restore what can be derived, if nothing has changed since the inspection; else return None."""
        try:
            with self._schema.fence(copy):
                await commit_transaction(self._store, inspection.writes)
        except (ConditionFailed, Conflict):
            return None
        except SchemaChanged:
            await self._schema.refresh()
            return None
        except (StoreRefused, ItemTooLarge) as problem:
            refused = [
                replace(one, reason=f"{one.reason}; the repair is refused: {problem}", is_derivable=False)
                for one in inspection.findings
            ]
            return replace(inspection, findings=refused, moved_to=None)
        return replace(inspection, findings=[replace(one, is_repaired=one.is_derivable) for one in inspection.findings])

    async def _examine_again(self) -> None:
        """Look again at what was not repaired: its cause may have been repaired later."""
        again = [(identity, key) for identity, (finding, key) in self._found.items() if not finding.is_repaired]
        for identity, _ in again:
            finding, _ = self._found.pop(identity)
            self._result.counts[finding.damage] -= 1
        await self._examine_all([*dict.fromkeys(key for _, key in again)], is_last=True)

    def _record(self, finding: Finding, key: Key) -> None:
        result, known = self._result, self._found.get(finding.identity)
        if finding.damage in _OWNED_ITEMS:
            self._owned.add(finding.record)
        if known is None:
            result.counts[finding.damage] += 1
        if (known is None and len(self._found) < MAX_FINDINGS) or (known is not None and finding.is_repaired):
            self._found[finding.identity] = finding, key
        if finding.is_repaired and not (known is not None and known[0].is_repaired):
            result.repaired[finding.damage] += 1


async def _is_suspicious(inspector: ItemInspector, item: Item) -> bool:
    try:
        return bool((await inspector.inspect(item)).findings)
    except Conflict:
        return True
