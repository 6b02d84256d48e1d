"""The plan of a migration: what is pending, and what it costs."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from graphql_api.codecs import hash_key_parts
from graphql_api.errors import ShardQLError
from graphql_api.evolution.catalog_merge import effective_catalog
from graphql_api.evolution.derived_versions import later_versions, stored_name, version_of
from graphql_api.evolution.element_removal import ElementRemoval
from graphql_api.evolution.elements import declared_elements
from graphql_api.evolution.entity_versions import KIND as VERSION_KIND
from graphql_api.evolution.entity_versions import is_old, served_catalog
from graphql_api.evolution.proposals import proposed
from graphql_api.evolution.repair_plan import EntityRepair, plan_repairs, rewritten
from graphql_api.evolution.table_record import RecordedElement, TableRecord
from graphql_api.evolution.table_schema import READ_LEASES
from graphql_api.model import HASH_ATTRIBUTE, Catalog
from graphql_api.storage import WRITE_UNIT_BYTES, Item, Store, read_units, record_size, write_units
from graphql_api.writes import constraint_items, mapping_items

READERS_PREPARE = frozenset({"generation", "current record"})
"""kinds that readers take into account from `announced` on: they are built one read lease later"""

_ITEMS_PER_CONSTRAINT = 2
"""write units of a constraint item, which is written in a transaction"""


@dataclass(frozen=True, slots=True)
class PendingElements:
    """What a migration has to do, by what comes next."""

    announced: tuple[RecordedElement, ...] = ()
    verified: tuple[RecordedElement, ...] = ()
    """building, or ready and unchecked: a pass over the table builds or verifies them"""
    undeclared: tuple[RecordedElement, ...] = ()
    """to be dropped, because the catalog no longer declares them"""
    closing: tuple[RecordedElement, ...] = ()
    dropping: tuple[RecordedElement, ...] = ()
    reopened: tuple[RecordedElement, ...] = ()
    """versions of derived properties that a later one was to replace, whose migration has not begun"""

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def all(self) -> tuple[RecordedElement, ...]:
        """Return all of them."""
        return (*self.announced, *self.verified, *self.undeclared, *self.closing, *self.dropping, *self.reopened)

    @property
    def removed(self) -> tuple[RecordedElement, ...]:
        """Return those that are removed."""
        return (*self.undeclared, *self.closing, *self.dropping)


def pending_elements(
    record: TableRecord, catalog: Catalog, *, drop: bool = False, without: frozenset[str] = frozenset()
) -> PendingElements:
    """Return the elements of this catalog that are not ready, and those that are being removed.

    `drop`: also those of its entities that it no longer declares. `without`: ids that are left out.
    """
    catalog = served_catalog(catalog, record)
    own = declared_elements(catalog)
    known = [one for key, one in record.elements.items() if key not in without]
    declared = [one for one in known if one.element.id in own and one.element.fits(own[one.element.id])]
    rest = [one for one in known if one not in declared]
    return PendingElements(
        tuple(one for one in declared if one.state == "announced"),
        tuple(one for one in declared if one.state == "building" or (one.state == "ready" and not one.is_checked)),
        tuple(one for one in rest if drop and _may_drop(one, record, catalog)),
        tuple(one for one in record.elements.values() if one.state == "closing" and not is_superseded(one, record)),
        tuple(one for one in record.elements.values() if one.state == "dropping"),
        tuple(one for one in declared if one.state == "closing" and _may_reopen(one, record)),
    )


def _may_reopen(recorded: RecordedElement, record: TableRecord) -> bool:
    """Return whether a version of a derived property can be read again: no later one has been written."""
    later = later_versions(recorded, record)
    return bool(later) and all(other.state == "announced" for other in later)


def _may_drop(recorded: RecordedElement, record: TableRecord, catalog: Catalog) -> bool:
    """Return whether an undeclared element can be dropped.

    Shard generations that hold records are never removed, nor later versions of what this catalog computes.
    """
    if recorded.element.kind == VERSION_KIND:
        return _may_drop_version(recorded, record, catalog)
    element, entity = recorded.element, catalog.entities.get(recorded.element.entity)
    if entity is None or recorded.state in {"closing", "dropping"}:
        return False
    if element.kind == "derived property":
        own = (part for part in entity.properties.values() if part.function is not None)
        return all(part.stored != stored_name(recorded) or part.version > version_of(recorded) for part in own)
    return recorded.state == "announced" or element.kind != "generation"


def _may_drop_version(recorded: RecordedElement, record: TableRecord, catalog: Catalog) -> bool:
    """Return whether a version of an entity is one that a later one has replaced, or a replay that was given up."""
    entity = catalog.by_declared_name.get(recorded.element.entity)
    if entity is None or recorded.state in {"closing", "dropping"} or recorded.element.entity in catalog.pinned:
        return False
    version = int(recorded.element.name)
    is_given_up = recorded.state in {"building", "switching"} and version != entity.declared_version
    return is_given_up or (is_old(recorded, record) and version != entity.declared_version)


def awaited_properties(announced: Sequence[RecordedElement]) -> list[RecordedElement]:
    """Return the new properties that servers set: they must keep their values before they begin to set them."""
    set_by_servers = {
        (one.element.entity, one.element.definition["stored"])
        for one in announced
        if one.element.kind == "server-set" and one.element.name.endswith((".version", ".updated"))
    }
    return [
        one
        for one in announced
        if one.element.kind == "property" and (one.element.entity, one.element.name) in set_by_servers
    ]


def leaves_nothing(recorded: RecordedElement, record: TableRecord) -> bool:
    """Return whether an element can be forgotten at once: it was never built, or servers maintain a later version."""
    return recorded.state == "announced" or any(later.is_maintained for later in later_versions(recorded, record))


def is_later_version(recorded: RecordedElement) -> bool:
    """Return whether an element is a version of a derived property that follows another one."""
    return recorded.element.kind == "derived property" and version_of(recorded) > 1


def is_superseded(recorded: RecordedElement, record: TableRecord) -> bool:
    """Return whether the table has a later version of a derived property."""
    return bool(later_versions(recorded, record))


# --- the plan --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """The waits of a migration, in seconds. Engines that compare the epoch need none."""

    lease: float
    margin: float
    life: float
    """how long the engine may still apply a request whose client gave up"""

    @property
    def fence(self) -> float:
        """Return the wait after which no writer acts on an earlier state."""
        return self.lease + self.margin + self.life

    @property
    def readers(self) -> float:
        """Return the wait after which no reader acts on an earlier state."""
        return self.lease * READ_LEASES + self.margin if self.lease else 0.0

    def before_dropping(self, elements: Sequence[RecordedElement]) -> float:
        """Return the wait after which closing elements can be dropped.

        Writers that keep ready current records are not safe against those that keep none.
        """
        return max(self.readers, self.fence if any(one.element.kind == "current record" for one in elements) else 0.0)

    def of(self, pending: PendingElements) -> float:
        """Return the sum of the waits that these elements need at least."""
        seconds = self.fence if awaited_properties(pending.announced) else 0.0
        if any(one.element.kind in READERS_PREPARE or is_later_version(one) for one in pending.announced):
            seconds += self.readers
        if pending.announced or any(one.state == "building" for one in pending.verified):
            seconds += self.fence
        closing = (*pending.undeclared, *pending.closing)
        if closing:
            seconds += self.before_dropping(closing)
        return seconds + (self.fence if pending.removed else 0.0)


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What a migration would do."""

    pending: PendingElements
    records: int = 0
    """number of items that each pass over the table reads"""
    rewritten: int = 0
    """number of items that are written"""
    read_units: float = 0
    write_units: float = 0
    """without the entries of new indexes"""
    is_exact: bool = True
    """false: the numbers are estimated from a part of the table"""
    seconds: float = 0
    """the shortest possible time: the waits, and the records at the given rate"""
    undecodable: int = 0
    """number of records that do not fit the catalog"""


@dataclass(slots=True)
class _Counts:
    records: int = 0
    rewritten: int = 0
    read_units: float = 0
    write_units: float = 0
    undecodable: int = 0

    def add_rewrite(self, size: int, factor: int = 1) -> None:
        self.rewritten += 1
        self.write_units += factor * write_units(size)


async def plan_migration(
    store: Store,
    catalog: Catalog,
    record: TableRecord,
    *,
    drop: bool = False,
    waits: WaitTimes | None = None,
    rate: float | None = None,
    sample: int = 1,
) -> MigrationPlan:
    """Return what a migration would do. It only reads, and scans the table only if something is pending.

    `sample`: read one segment of this number of segments, and estimate the rest. With 1 the numbers are exact.
    """
    known = proposed(record, catalog)
    pending = pending_elements(known, catalog, drop=drop)
    if not pending:
        return MigrationPlan(pending)
    building = known.changed(*(replace(one, state="building") for one in pending.announced))
    repairs = plan_repairs(effective_catalog(catalog, building), pending_elements(building, catalog).verified)
    removal = ElementRemoval(known, pending.removed)
    passes = bool(repairs) + bool(pending.removed)
    counts = await _count(store, repairs, removal, sample) if passes else _Counts()
    wait_seconds = 0.0 if waits is None else waits.of(pending)
    return MigrationPlan(
        pending,
        counts.records * sample,
        counts.rewritten * sample,
        counts.read_units * sample * passes,
        counts.write_units * sample,
        sample == 1,
        wait_seconds + (0.0 if rate is None else counts.records * sample * passes / rate),
        counts.undecodable * sample,
    )


async def _count(store: Store, repairs: dict[str, EntityRepair], removal: ElementRemoval, sample: int) -> _Counts:
    """Count what passes over one segment would read and write."""
    counts, after = _Counts(), None
    while True:
        page = await store.scan(0, sample, after)
        sizes = [*map(record_size, page.items)]
        counts.records += len(sizes)
        counts.read_units += read_units(sum(sizes), consistent=True)
        for item, size in zip(page.items, sizes, strict=True):
            if removal.write_of(item) is not None:
                counts.add_rewrite(size)
            parts = hash_key_parts(item[HASH_ATTRIBUTE])
            repair = None if parts is None else repairs.get(parts.head)
            if parts is not None and repair is not None:
                _count_repair(counts, repair, item, size, parts.tenant)
        if page.after is None:
            return counts
        after = page.after


def _count_repair(counts: _Counts, repair: EntityRepair, item: Item, size: int, tenant: str | None) -> None:
    """Count the writes of the repair of one record; each constraint counts as if its item were missing."""
    if repair.computed:
        try:
            if rewritten(repair, item, tenant) is not item:
                counts.add_rewrite(size)
        except ShardQLError:
            counts.undecodable += 1
    for constraint in repair.constraints.values():
        with suppress(ShardQLError):
            for _ in constraint_items(constraint, item, tenant):
                counts.add_rewrite(WRITE_UNIT_BYTES, _ITEMS_PER_CONSTRAINT)
    for lookup in repair.lookups.values():
        for _ in mapping_items(lookup, item, tenant, is_old=True):
            counts.add_rewrite(WRITE_UNIT_BYTES, _ITEMS_PER_CONSTRAINT)
