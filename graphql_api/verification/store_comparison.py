"""Compare two stores: digests of shards, then of items, then the items that differ, twice.

Each store is read once, in its own order. A file keeps the keys and digests of all items. So no part of a store is
read again: only the items that differ are read by key.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from zlib import crc32

from graphql_api.clock import Clock, system_clock
from graphql_api.codecs import hash_key_parts
from graphql_api.errors import WrongTable
from graphql_api.evolution import (
    BATCH_RETRIES,
    RateLimit,
    TableRecord,
    is_compared,
    read_served_record,
    run_all,
)
from graphql_api.model import Catalog
from graphql_api.storage import Item, Key, Store, values_equal
from graphql_api.verification.comparison_log import ComparisonLog, DigestedPage
from graphql_api.verification.findings import readable_item
from graphql_api.verification.item_digests import OTHER_ITEMS, DigestedItems, DigestSums, ShardDigest, item_digest
from graphql_api.verification.table_verification import SEGMENTS
from graphql_api.writes import WRITE_ID, is_same_item, item_key

SETTLE_SECONDS = 2.0
_MAX_LOOKS = 6
_LOOKED_AT = 100
"""items that are read at once"""
_KEYS_IN_MEMORY = 200_000
_MAX_NAMES = 5
MAX_DIFFERENCES = 100_000
"""differences that are listed; further ones are only counted"""


class DifferenceKind(Enum):
    """The kinds of differences between two stores."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class StoreDifference:
    """An item that differs between two stores."""

    kind: DifferenceKind
    record: Key
    attributes: tuple[str, ...] = ()
    """the attributes that differ"""

    def __str__(self) -> str:
        text = {
            DifferenceKind.MISSING: "the second store does not have it",
            DifferenceKind.EXTRA: "only the second store has it",
            DifferenceKind.DIFFERS: f"different {', '.join(self.attributes[:_MAX_NAMES])}",
        }
        return f"{readable_item(self.record)}: {text[self.kind]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSettings:
    """How a comparison runs."""

    progress_file: Path | None = None
    """holds what was read, so that an interrupted comparison can be resumed; deleted at the end"""
    rate: float | None = None
    """items per second, at most, of both stores together"""
    segments: int | None = None
    settle_seconds: float = SETTLE_SECONDS
    """pause before the second look at items that differ: longer than a write needs to reach both stores"""
    clock: Clock = system_clock
    timer: Clock = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(slots=True)
class ComparisonResult:
    """What a comparison has found."""

    items: tuple[int, int] = (0, 0)
    """number of items that were read in each store, also by an earlier run that was interrupted"""
    shards: tuple[Sequence[ShardDigest], Sequence[ShardDigest]] = ((), ())
    differing_shards: Sequence[tuple[str, str]] = ()
    differences: list[StoreDifference] = field(default_factory=list)
    counts: Counter[DifferenceKind] = field(default_factory=Counter)
    unsettled: list[Key] = field(default_factory=list)
    """items that writers changed at every look: nothing is known of them"""
    notes: Sequence[str] = ()
    """differences between the elements of the tables"""


ComparisonCallback = Callable[[tuple[int, int]], None]


async def compare_stores(
    stores: tuple[Store, Store],
    catalog: Catalog,
    names: tuple[str, str],
    settings: ComparisonSettings | None = None,
    on_progress: ComparisonCallback = lambda _: None,
) -> ComparisonResult:
    """Compare all items of two stores, but what each table keeps about itself, and stored responses."""
    settings = settings or ComparisonSettings()
    first, second = [(await read_served_record(store, catalog)).record for store in stores]
    _check_places(first, second, catalog)
    title = {
        "stores": names,
        "segments": [_segments(store, settings) for store in stores],
        "format": "shardql comparison 1",
    }
    path = settings.progress_file
    if path is not None:
        log = await asyncio.to_thread(ComparisonLog.open, path, title)
        try:
            result = await _Comparison(stores, (first, second), log, settings, on_progress).run()
        finally:
            log.close()
        await asyncio.to_thread(path.unlink, missing_ok=True)
        return result
    with TemporaryFile() as file:
        log = ComparisonLog.temporary(file, title)
        return await _Comparison(stores, (first, second), log, settings, on_progress).run()


def _segments(store: Store, settings: ComparisonSettings) -> int:
    return settings.segments or (1 if is_compared(store) else SEGMENTS)


def _check_places(first: TableRecord, second: TableRecord, catalog: Catalog) -> None:
    """Refuse tables that place the records of an entity differently: each of them would differ."""
    for name in catalog.entities:
        places = [(one.entities.get(name), _generations(one, name)) for one in (first, second)]
        if all(place[0] is not None for place in places) and places[0] != places[1]:
            raise WrongTable(
                f"The two stores place records of {name} in different shards, so their items cannot be compared. Load "
                "the records of one store into a table with the shard generations of the other one, and compare these."
            )


def _generations(record: TableRecord, entity: str) -> Sequence[object]:
    found = [one for one in record.of_entity(entity) if one.element.kind == "generation" and one.state == "ready"]
    return sorted((one.element.name, one.element.digest) for one in found)


class _Comparison:
    """One comparison."""

    def __init__(
        self,
        stores: tuple[Store, Store],
        records: tuple[TableRecord, TableRecord],
        log: ComparisonLog,
        settings: ComparisonSettings,
        on_progress: ComparisonCallback,
    ) -> None:
        self._stores = stores
        self._records = records
        self._log = log
        self._settings = settings
        self._on_progress = on_progress
        self._rate = RateLimit(settings.rate, settings.timer, settings.sleep)
        self._digested = [DigestedItems(record) for record in records]
        self._read = [0, 0]
        self._sums = DigestSums(), DigestSums()
        self._positions: dict[tuple[int, int], Key | None] = {}
        """where each segment of each store goes on; None: it is complete"""

    async def run(self) -> ComparisonResult:
        """Read both stores, and look at the items that differ."""
        for page in self._log.pages():
            self._add(page)
        segments = [_segments(store, self._settings) for store in self._stores]
        await run_all(self._read_segment(side, segment) for side in (0, 1) for segment in range(segments[side]))
        differing = self._sums[0].differing(self._sums[1])
        result = ComparisonResult(
            (self._read[0], self._read[1]),
            ([*self._sums[0]], [*self._sums[1]]),
            sorted(differing),
            notes=[*_element_differences(*self._records)],
        )
        for keys in self._differing_keys(differing):
            await self._look(keys, result)
        result.differences.sort(key=lambda one: one.record)
        return result

    # --- digests -----------------------------------------------------------------------------------------------

    async def _read_segment(self, side: int, segment: int) -> None:
        store = self._stores[side]
        segments = _segments(store, self._settings)
        while (side, segment) not in self._positions or self._positions[side, segment] is not None:
            after = self._positions.get((side, segment))
            page = await BATCH_RETRIES.run(partial(store.scan, segment, segments, after))
            await self._rate.wait(len(page.items))
            digested = DigestedPage(side, segment, page.after, len(page.items), self._digest(side, page.items))
            self._log.add(digested)
            self._add(digested)
            self._on_progress((self._read[0], self._read[1]))

    def _digest(self, side: int, items: Sequence[Item]) -> Mapping[Key, int]:
        now = self._settings.clock()
        return {
            item_key(item): item_digest(item) for item in items if self._digested[side].place(item, now) is not None
        }

    def _add(self, page: DigestedPage) -> None:
        self._positions[page.side, page.segment] = page.after
        self._read[page.side] += page.read
        for key, digest in page.digests.items():
            self._sums[page.side].add(hash_key_parts(key.hash) or OTHER_ITEMS, digest)

    def _differing_keys(self, shards: set[tuple[str, str]]) -> Iterator[Sequence[Key]]:
        """Yield the keys whose digests differ, in parts of the table that fit into memory."""
        if not shards:
            return
        counts = [sum(self._sums[side].sums.get(shard, (0, 0))[0] for shard in shards) for side in (0, 1)]
        parts = -(-max(counts) // _KEYS_IN_MEMORY) or 1
        for part in range(parts):
            unmatched: dict[Key, int] = {}
            for page in self._log.pages():
                for key, digest in page.digests.items():
                    place = hash_key_parts(key.hash) or OTHER_ITEMS
                    if (place.head, place.shard) in shards and _part_of(key, parts) == part:
                        _match(unmatched, key, digest if page.side == 0 else -digest)
            yield sorted(unmatched)

    # --- the items that differ ---------------------------------------------------------------------------------

    async def _look(self, keys: Sequence[Key], result: ComparisonResult) -> None:
        """Look at items until two looks in a row see the same difference, or none."""
        seen = await self._compare(keys)
        for _ in range(_MAX_LOOKS - 1):
            if not seen:
                return
            await self._settings.sleep(self._settings.settle_seconds)
            again = await self._compare([*seen])
            for key in [key for key, found in again.items() if found == seen[key]]:
                difference, _ = again.pop(key)
                result.counts[difference.kind] += 1
                if len(result.differences) < MAX_DIFFERENCES:
                    result.differences.append(difference)
            seen = again
        result.unsettled += seen

    async def _compare(self, keys: Sequence[Key]) -> dict[Key, tuple[StoreDifference, object]]:
        """Return the differences between the items at some keys, with the versions that were compared."""
        found: dict[Key, tuple[StoreDifference, object]] = {}
        for start in range(0, len(keys), _LOOKED_AT):
            part = keys[start : start + _LOOKED_AT]
            items = [await BATCH_RETRIES.run(partial(store.get_many, part, consistent=True)) for store in self._stores]
            for key, first, second in zip(part, *items, strict=True):
                difference = self._difference(key, self._shown(0, first), self._shown(1, second))
                if difference is not None:
                    found[key] = difference, (_version(first), _version(second))
        return found

    def _shown(self, side: int, item: Item | None) -> Item | None:
        """Return an item; None if it has expired."""
        now = self._settings.clock()
        return item if item is not None and self._digested[side].place(item, now) is not None else None

    def _difference(self, key: Key, first: Item | None, second: Item | None) -> StoreDifference | None:
        if first is None or second is None:
            if first is second:
                return None
            return StoreDifference(DifferenceKind.MISSING if second is None else DifferenceKind.EXTRA, key)
        if is_same_item(first, second):
            return None
        names = sorted(name for name in first.keys() | second.keys() if not _has_same(first, second, name))
        return StoreDifference(DifferenceKind.DIFFERS, key, tuple(name for name in names if name != WRITE_ID))


def _has_same(first: Item, second: Item, name: str) -> bool:
    return name in first and name in second and values_equal(first[name], second[name])


def _version(item: Item | None) -> object:
    return None if item is None else item.get(WRITE_ID, item)


def _part_of(key: Key, parts: int) -> int:
    return crc32(f"{key.hash}\0{key.range}".encode()) % parts if parts > 1 else 0


def _match(unmatched: dict[Key, int], key: Key, digest: int) -> None:
    """Add a digest. Equal items of both stores cancel each other out."""
    rest = unmatched.pop(key, 0) + digest
    if rest:
        unmatched[key] = rest


def _element_differences(first: TableRecord, second: TableRecord) -> Iterator[str]:
    for key in sorted(first.elements.keys() | second.elements.keys()):
        one, other = first.elements.get(key), second.elements.get(key)
        if one is None or other is None:
            known, place = (other, "second") if one is None else (one, "first")
            assert known is not None, "one of the two tables has the element"
            yield f"Only the {place} store has the {known.element}."
        elif not one.element.fits(other.element):
            yield f"The two stores have different definitions of the {one.element}."
        elif one.state != other.state:
            yield f"The {one.element} is {one.state} in the first store, and {other.state} in the second one."
