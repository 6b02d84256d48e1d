"""Migrate a table: build the pending elements of a catalog, verify unchecked ones, and remove dropped ones.

A migration can be killed at any moment and run again, and several may run at once. Each change of the table's record is
conditional on its epoch. If another process changes the record, the migration goes on from the new state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from logging import getLogger
from secrets import token_urlsafe

from graphql_api.clock import Clock, system_clock
from graphql_api.errors import SchemaChanged, StoreUnavailable
from graphql_api.evolution.derived_versions import superseded_versions
from graphql_api.evolution.generation_times import GenerationsTooSoon, generations_too_early, generations_too_soon
from graphql_api.evolution.migration_checkpoints import PassWork, delete_void_items, read_violations
from graphql_api.evolution.migration_pass import RateLimit, TablePass, rewritten_indexes
from graphql_api.evolution.migration_plan import (
    READERS_PREPARE,
    PendingElements,
    WaitTimes,
    leaves_nothing,
    pending_elements,
)
from graphql_api.evolution.migration_settings import (
    MigrationProgress,
    MigrationResult,
    MigrationSettings,
    ProgressCallback,
)
from graphql_api.evolution.record_repair import RecordRepairer, Violation, failed_elements
from graphql_api.evolution.repair_plan import CONSTRAINTS, plan_repairs
from graphql_api.evolution.table_opening import is_compared, prepare_table
from graphql_api.evolution.table_record import RecordedElement, TableRecord, save_record
from graphql_api.evolution.table_schema import SchemaCopy, TableSchema, opened_schema
from graphql_api.model import Catalog
from graphql_api.storage import Key, Store, schema_changed_error

log = getLogger("shardql")

_COMPARED_CLAIM_SECONDS = 2.0
"""after which a process takes over a segment, on engines without leases"""
_LONGEST_PAUSE = 1.0
"""seconds of a wait between two looks at the table's record"""
_RECHECKED = 100
"""violations that are checked again at once"""


def wait_times(store: Store, record: TableRecord, settings: MigrationSettings) -> WaitTimes:
    """Return the waits of a migration on an engine."""
    if is_compared(store):
        return WaitTimes(0, 0, 0)
    return WaitTimes(record.lease_seconds, settings.margin_seconds, settings.life_seconds)


async def run_migration(
    store: Store,
    catalog: Catalog,
    settings: MigrationSettings | None = None,
    on_progress: ProgressCallback = lambda _: None,
) -> MigrationResult:
    """Build all pending elements of a catalog, in one pass. If nothing is pending, it only reads."""
    await prepare_table(store, catalog, create_table=False)
    async with opened_schema(store, catalog) as schema:
        return await _Migration(store, catalog, schema, settings or MigrationSettings(), on_progress).run()


async def migrate_at_opening(
    store: Store,
    catalog: Catalog,
    schema: TableSchema,
    on_progress: ProgressCallback = lambda _: None,
    *,
    clock: Clock = system_clock,
) -> MigrationResult:
    """Build what is pending when a catalog is opened. Elements with violations stay NOT_READY, and are logged."""
    result = await _Migration(store, catalog, schema, MigrationSettings(clock=clock), on_progress).run()
    for violation in result.violations:
        log.warning("A stored record keeps %s from becoming ready: %s", ", ".join(violation.elements), violation)
    for message in result.withdrawn.values():
        log.warning("%s", message)
    return result


class _Migration:
    """One run of a migration."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        schema: TableSchema,
        settings: MigrationSettings,
        on_progress: ProgressCallback,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._schema = schema
        self._settings = settings
        self._on_progress = on_progress
        self._owner = token_urlsafe(9)
        self._rate = RateLimit(settings.rate, settings.timer, settings.sleep)
        self._seen: dict[str, tuple[str, int, float]] = {}
        """state and epoch of each element, and when this process has seen them first"""
        self._blocked: set[str] = set()
        """elements that this run cannot build"""
        self._result = MigrationResult()
        self._waits = wait_times(store, schema.latest.record, settings)

    async def run(self) -> MigrationResult:
        """Work until nothing is pending that this run can do."""
        while True:
            record = (await self._copy()).record
            self._see(record)
            self._block(self._uncomputable())
            pending = pending_elements(
                record, self._catalog, drop=self._settings.drop, without=frozenset(self._blocked)
            )
            if not pending:
                break
            try:
                await self._advance(record, pending)
            except SchemaChanged:
                await self._schema.refresh()
        await self._delete_void_items()
        return self._result

    async def _advance(self, record: TableRecord, pending: PendingElements) -> None:
        """Take the next step. What is being removed comes first, since it may leave constraints to be built again."""
        if pending.reopened:
            await self._save(record, record.changed(*(replace(one, state="ready") for one in pending.reopened)))
        elif pending.dropping:
            await self._drop(pending.dropping)
        elif pending.closing:
            await self._begin_dropping(record, pending.closing)
        elif pending.announced:
            await self._begin_building(record, pending.announced)
        elif pending.verified:
            try:
                await self._build(record, pending.verified)
            except GenerationsTooSoon as problem:
                await self._withdraw(self._schema.latest.record, problem.reasons)
        else:
            await self._close(record, pending.undeclared)

    # --- the table's record ------------------------------------------------------------------------------------

    async def _copy(self) -> SchemaCopy:
        return await self._schema.copy_for_writing()

    def _see(self, record: TableRecord) -> None:
        """Note when this process has seen the state of each element first."""
        now = self._settings.timer()
        for key, recorded in record.elements.items():
            if self._seen.get(key, ("", 0, 0))[:2] != (recorded.state, recorded.epoch):
                self._seen[key] = recorded.state, recorded.epoch, now

    async def _save(self, record: TableRecord, new: TableRecord) -> None:
        """Store a changed record. Raise SchemaChanged if another process has changed it first."""
        if not await save_record(self._store, record, new):
            raise schema_changed_error()
        await self._schema.refresh()
        self._see(self._schema.latest.record)

    async def _wait(self, elements: Sequence[RecordedElement], seconds: float, step: str) -> None:
        """Wait until so much time has passed since this process has seen the elements in their states."""
        if not elements:
            return
        keys = [recorded.element.id for recorded in elements]
        until = max(self._seen[key][2] for key in keys) + seconds
        work = PassWork("final", tuple(elements), 1)
        while seconds and (left := until - self._settings.timer()) > 0:
            self._on_progress(MigrationProgress(step, seconds_left=left))
            await self._settings.sleep(min(left, _LONGEST_PAUSE))
            if not work.is_current((await self._copy()).record):
                raise schema_changed_error()

    # --- building ----------------------------------------------------------------------------------------------

    async def _begin_building(self, record: TableRecord, announced: Sequence[RecordedElement]) -> None:
        waits = self._waits
        early = generations_too_soon(announced, self._settings.clock(), waits.readers + waits.fence)
        self._block(early)
        elements = [one for one in announced if one.element.id not in early]
        if not elements:
            return
        superseded = superseded_versions(record, elements) if waits.readers else []
        answered = [one for one in superseded if one.state == "ready"]
        if answered:
            # Readers with a copy from before the rewriting would use the function of the version before.
            await self._save(record, record.changed(*(replace(one, state="closing") for one in answered)))
            return
        closing = [one for one in superseded if one.state == "closing"]
        await self._wait(closing, waits.readers, "waiting until no server reads by the version before")
        prepared = [one for one in elements if one.element.kind in READERS_PREPARE]
        await self._wait(prepared, waits.readers, "waiting until all servers read by what is announced")
        properties = [one for one in elements if one.element.kind == "property"]
        if len(properties) == len(elements):
            await self._wait(properties, waits.lease + waits.margin, "waiting until all servers know the properties")
        changes = [
            replace(one, state="ready" if one.element.kind == "property" else "building")
            for one in elements
            if one not in properties or len(properties) == len(elements)
        ]
        await self._save(record, record.changed(*changes))
        self._result.ready += [one.element.id for one in changes if one.state == "ready"]

    def _uncomputable(self) -> dict[str, str]:
        """Return why elements of entities cannot be built whose derived properties this catalog cannot compute."""
        copy = self._schema.latest
        behind = {
            name: entity.recorded.behind
            for name, entity in copy.catalog.entities.items()
            if entity.recorded is not None and entity.recorded.behind is not None
        }
        pending = pending_elements(copy.record, self._catalog)
        return {
            one.element.id: f"The {one.element} cannot be built: this catalog cannot compute the "
            f"{behind[one.element.entity].element}. Run the migration with the newer catalog."
            for one in (*pending.announced, *pending.verified)
            if one.element.entity in behind
        }

    def _block(self, reasons: Mapping[str, str]) -> None:
        """Leave elements out for the rest of this run."""
        self._result.withdrawn |= reasons
        self._blocked |= reasons.keys()

    async def _build(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        """Bring all records into line with the elements, and make those without violations ready."""
        building = [one for one in elements if one.state == "building"]
        segments, fence = self._settings.segments or (1 if is_compared(self._store) else 8), self._waits.fence
        has_work = bool(plan_repairs(self._schema.latest.catalog, elements))
        if has_work and building and fence and self._settings.has_first_pass:
            await self._pass(PassWork("first", tuple(elements), segments), "repairing records, first pass")
        await self._wait(building, fence, "waiting until all servers maintain the elements")
        early = self._too_soon(building)
        if early:
            await self._withdraw(record, early)
            return
        await self._ensure_indexes()
        work = PassWork("final", tuple(elements), segments)
        if has_work:
            await self._pass(work, "repairing records")
            await self._ensure_indexes()
        violations = await self._remaining_violations(work)
        early = self._too_soon(building) | generations_too_early(building, violations)
        failed = failed_elements(elements, violations) - early.keys()
        ready = [one for one in elements if one.element.id not in failed | early.keys()]
        await self._change(
            work,
            [replace(one, state="ready", is_checked=True) for one in ready]
            + [replace(one, state="announced") for one in building if one.element.id in early]
            # The epoch of failed elements changes too: the work of another run, whose violations end here, is void.
            + [one for one in elements if one.element.id in failed],
            forgotten=frozenset(
                one.element.id
                for one in superseded_versions(self._schema.latest.record, ready)
                if one.state == "closing"
            ),
        )
        self._block(early)
        self._blocked |= failed
        self._result.ready += [one.element.id for one in ready]
        self._result.violations += [one for one in violations if not early.keys() >= {*one.elements}]
        await self._delete_void_items(work)

    def _too_soon(self, building: Sequence[RecordedElement]) -> dict[str, str]:
        return generations_too_soon(building, self._settings.clock(), self._waits.lease + self._waits.margin)

    async def _withdraw(self, record: TableRecord, early: Mapping[str, str]) -> None:
        """Announce generations again that cannot be built."""
        await self._save(record, record.changed(*(replace(record.elements[key], state="announced") for key in early)))
        self._block(early)

    async def _ensure_indexes(self) -> None:
        """Create the physical indexes of maintained elements, and wait until they contain all records."""
        record = (await self._copy()).record
        maintained = {
            one.element.name for one in record.elements.values() if one.element.kind == "index" and one.is_maintained
        }
        definition = self._catalog.table_definition()
        needed = replace(definition, indexes=tuple(one for one in definition.indexes if one.name in maintained))
        while True:
            try:
                return await self._store.ensure_table(needed)
            except StoreUnavailable:
                await self._store.describe()  # raises an error if the store does not answer at all
                self._on_progress(MigrationProgress("waiting until the engine has built the indexes"))
                await self._settings.sleep(_LONGEST_PAUSE)

    async def _pass(self, work: PassWork, step: str) -> None:
        """Run a pass over the table."""
        counts = 0, 0

        def report(records: int, written: int) -> None:
            nonlocal counts
            counts = records, written
            self._on_progress(MigrationProgress(step, records, written))

        def check_generations(copy: SchemaCopy) -> None:
            early = self._too_soon([copy.record.elements[key] for key in work.epochs] if work.kind != "removal" else ())
            if early:
                raise GenerationsTooSoon(early)

        lags = work.kind == "final" and not is_compared(self._store)
        built = rewritten_indexes(self._schema.latest.catalog, work.elements) if lags else ()
        settings = self._settings
        lease = _COMPARED_CLAIM_SECONDS if is_compared(self._store) else self._schema.latest.record.lease_seconds
        lease = settings.claim_seconds or lease
        table_pass = TablePass(
            self._store, self._schema, work, self._owner, lease, settings.clock, settings.timer, settings.sleep,
            self._rate, report, check_generations, built,
        )  # fmt: skip
        await table_pass.run()
        self._result.records += counts[0]
        self._result.written += counts[1]

    async def _remaining_violations(self, work: PassWork) -> list[Violation]:
        """Return the violations of a pass that still exist: records may have been corrected or deleted meanwhile."""
        found = await read_violations(self._store, work)
        keys = [*dict.fromkeys(violation.record for violation in found)]
        remaining: dict[tuple[Key, tuple[str, ...]], Violation] = {}
        for start in range(0, len(keys), _RECHECKED):
            copy = await self._copy()
            if not work.is_current(copy.record):
                raise schema_changed_error()
            elements = [copy.record.elements[key] for key in work.epochs]
            repairer = RecordRepairer(self._store, copy.catalog, elements, self._settings.clock)
            with self._schema.fence(copy):
                for item in await self._store.get_many(keys[start : start + _RECHECKED], consistent=True):
                    if item is not None:
                        _, violations = await repairer.repair(item)
                        remaining |= {(one.record, one.elements): one for one in violations}
        return [*remaining.values()]

    async def _change(
        self, work: PassWork, elements: Sequence[RecordedElement], *, forgotten: frozenset[str] = frozenset()
    ) -> None:
        """Change elements of a pass, if none of them has changed since it began."""
        record = (await self._copy()).record
        if not work.is_current(record):
            raise schema_changed_error()
        if elements:
            await self._save(record, record.changed(*elements, forgotten=forgotten))

    # --- removing ----------------------------------------------------------------------------------------------

    async def _close(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        """Refuse reads by elements that are dropped, and forget those that have left nothing in records."""
        forgotten = frozenset(one.element.id for one in elements if leaves_nothing(one, record))
        closing = [replace(one, state="closing") for one in elements if one.element.id not in forgotten]
        await self._save(record, record.changed(*closing, forgotten=forgotten))
        self._result.dropped += sorted(forgotten)

    async def _begin_dropping(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        """Let servers stop maintaining elements that no server reads any longer."""
        await self._wait(elements, self._waits.readers, "waiting until no server reads by what is dropped")
        # Without current records, other items of a history own its constraint items: these are built again.
        histories = {one.element.entity for one in elements if one.element.kind == "current record"}
        owned = [
            replace(one, state="building")
            for one in record.elements.values()
            if one.element.entity in histories and one.element.kind in CONSTRAINTS and one.state == "ready"
        ]
        await self._save(record, record.changed(*(replace(one, state="dropping") for one in elements), *owned))

    async def _drop(self, elements: Sequence[RecordedElement]) -> None:
        """Remove what elements left in records, and forget them."""
        await self._wait(elements, self._waits.fence, "waiting until no server writes what is dropped")
        segments = self._settings.segments or (1 if is_compared(self._store) else 8)
        work = PassWork("removal", tuple(elements), segments)
        await self._pass(work, "removing what is dropped")
        await self._drop_indexes(work)
        current = (await self._copy()).record
        if not work.is_current(current):
            raise schema_changed_error()
        await self._save(current, current.changed(forgotten=frozenset(work.epochs)))
        self._result.dropped += sorted(work.epochs)
        self._result.notes += [
            f"The engine still removes records by the attribute {one.element.definition['parts'][0]['stored']}: "
            "disable the time to live of the table, if no entity of it expires."
            for one in elements
            if one.element.name.endswith(".expiry") and not is_compared(self._store)
        ]
        await self._delete_void_items(work)

    async def _drop_indexes(self, work: PassWork) -> None:
        """Remove the physical indexes that no other element uses."""
        record = (await self._copy()).record
        kept = [one.element for key, one in record.elements.items() if key not in work.epochs]
        others = {element.name for element in kept if element.kind == "index"}
        for name in dict.fromkeys(one.element.name for one in work.elements if one.element.kind == "index"):
            if name not in others:
                self._on_progress(MigrationProgress(f"removing the index {name}"))
                await self._store.drop_index(name)

    async def _delete_void_items(self, completed: PassWork | None = None) -> None:
        """Delete the checkpoints and violations of passes that are over."""
        copy = await self._copy()
        with self._schema.fence(copy):
            await delete_void_items(self._store, copy.record, completed=completed)
