"""Migrate a table: build the pending elements of a catalog, verify unchecked ones, and remove dropped ones.

A migration can be killed at any moment and run again, and several may run at once. Each change of the table's record is
conditional on its epoch. If another process changes the record, the migration goes on from the new state.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from logging import getLogger

from graphql_api.errors import SchemaChanged, StoreError
from graphql_api.evolution.derived_versions import superseded_versions
from graphql_api.evolution.elements import State, element_of_id
from graphql_api.evolution.entity_versions import KIND as VERSION_KIND
from graphql_api.evolution.entity_versions import elements_with_records, stored_entity
from graphql_api.evolution.generation_times import GenerationsTooSoon, generations_too_early, generations_too_soon
from graphql_api.evolution.migration_checkpoints import PassWork
from graphql_api.evolution.migration_plan import (
    READERS_PREPARE,
    WaitTimes,
    awaited_properties,
    leaves_nothing,
    pending_elements,
)
from graphql_api.evolution.migration_settings import (
    MigrationProgress,
    MigrationResult,
    MigrationSettings,
    ProgressCallback,
)
from graphql_api.evolution.pass_runner import LONGEST_PAUSE, PassRunner
from graphql_api.evolution.record_repair import failed_elements
from graphql_api.evolution.repair_plan import CONSTRAINTS, plan_repairs
from graphql_api.evolution.schema_copy import SchemaCopy
from graphql_api.evolution.table_opening import is_compared, prepare_table
from graphql_api.evolution.table_record import RecordedElement, TableRecord, save_record
from graphql_api.evolution.table_schema import TableSchema, opened_schema
from graphql_api.model import Catalog, describe_element, element_remedy
from graphql_api.storage import Store, schema_changed_error

log = getLogger("shardql")

_MAX_FAILURES = 15
"""steps in a row that fail because the store does not answer, after which the run ends"""
_LONGEST_BACKOFF = 30.0
"""seconds between two of them"""
_MAX_LOGGED = 10
"""violations in the log of an opening"""


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
    served = await prepare_table(store, catalog, create_table=False)
    async with opened_schema(store, catalog, served=served) as schema:
        return await _Migration(store, catalog, schema, settings or MigrationSettings(), on_progress).run()


async def migrate_at_opening(
    store: Store,
    catalog: Catalog,
    schema: TableSchema,
    settings: MigrationSettings,
    on_progress: ProgressCallback = lambda _: None,
) -> MigrationResult:
    """Build what is pending when a catalog is opened. Elements with violations stay NOT_READY, and are logged."""
    result = await _Migration(store, catalog, schema, settings, on_progress).run()
    for violation in result.violations[:_MAX_LOGGED]:
        names = ", ".join(f"{element_of_id(key)}" for key in violation.elements)
        log.warning("A stored record keeps the %s from becoming ready: %s", names, violation)
    if len(result.violations) > _MAX_LOGGED:
        command = "shardql migrate MODULE:CATALOG --store URL --apply --report FILE"
        log.warning("%d further violations are listed by: %s", len(result.violations) - _MAX_LOGGED, command)
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
        self._seen: dict[str, tuple[str, int, float]] = {}
        """state and epoch of each element, and when this process has seen them first"""
        self._blocked: set[str] = set()
        """elements that this run cannot build"""
        self._result = MigrationResult()
        self._passes = PassRunner(store, schema, settings, self._result, on_progress)
        self._waits = wait_times(store, schema.latest.record, settings)

    async def run(self) -> MigrationResult:
        """Work until nothing is pending that this run can do. While the store does not answer, try again."""
        failures = 0
        while True:
            try:
                is_over = await self._step()
            except SchemaChanged:
                continue
            except StoreError as problem:
                failures += 1
                if not (problem.retryable and self._waits.lease and failures < _MAX_FAILURES):
                    raise
                self._on_progress(MigrationProgress("waiting until the store answers again"))
                await self._settings.sleep(min(2.0**failures, _LONGEST_BACKOFF))
            else:
                if is_over:
                    return self._result
                failures = 0

    async def _step(self) -> bool:
        """Take the next step. Return True if there is none. Removals come first: constraints may depend on them."""
        await self._schema.refresh()
        record = (await self._schema.copy_for_writing()).record
        self._see(record)
        self._block(self._blocked_entities())
        pending = pending_elements(record, self._catalog, drop=self._settings.drop, without=frozenset(self._blocked))
        announced = [one for one in pending.announced if one.element.kind != "property"]
        if pending.reopened:
            await self._set_states(record, pending.reopened, "ready")
        elif pending.dropping:
            await self._drop(pending.dropping)
        elif pending.closing:
            await self._begin_dropping(record, pending.closing)
        elif awaited := awaited_properties(pending.announced):
            await self._settle(record, awaited)
        elif announced:
            await self._begin_building(record, announced)
        elif pending.verified:
            try:
                await self._build(record, pending.verified)
            except GenerationsTooSoon as problem:
                await self._withdraw(self._schema.latest.record, problem.reasons)
        elif pending.announced:
            await self._settle(record, pending.announced)
        elif pending.undeclared:
            await self._close(record, pending.undeclared)
        else:
            await self._passes.delete_void_items()
            return True
        return False

    # --- the table's record ------------------------------------------------------------------------------------

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

    async def _set_states(self, record: TableRecord, elements: Iterable[RecordedElement], state: State) -> None:
        await self._save(record, record.changed(*(replace(one, state=state) for one in elements)))

    async def _wait(self, elements: Sequence[RecordedElement], seconds: float, step: str) -> None:
        """Wait until so much time has passed since this process has seen the elements in their states."""
        if not elements:
            return
        keys = [recorded.element.id for recorded in elements]
        until = max(self._seen[key][2] for key in keys) + seconds
        work = self._passes.work("repair", elements)
        while seconds and (left := until - self._settings.timer()) > 0:
            self._on_progress(MigrationProgress(step, seconds_left=left))
            await self._settings.sleep(min(left, LONGEST_PAUSE))
            await work.copy(self._schema)

    async def _settle(self, record: TableRecord, properties: Sequence[RecordedElement]) -> None:
        """Wait until all servers keep the values of new properties. Servers that run do so too."""
        await self._wait(properties, self._waits.fence, "waiting until no server erases new properties")
        await self._set_states(record, properties, "ready")
        self._result.ready += [one.element.id for one in properties]

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
            await self._set_states(record, answered, "closing")
            return
        closing = [one for one in superseded if one.state == "closing"]
        await self._wait(closing, waits.readers, "waiting until no server reads by the version before")
        prepared = [one for one in elements if one.element.kind in READERS_PREPARE]
        await self._wait(prepared, waits.readers, "waiting until all servers read by what is announced")
        await self._set_states(record, elements, "building")

    def _blocked_entities(self) -> dict[str, str]:
        """Return why elements cannot be built: this catalog cannot write their entities."""
        copy = self._schema.latest
        blockers = copy.catalog.write_blockers
        pending = pending_elements(copy.record, self._catalog)
        return {
            one.element.id: f"The {one.element} cannot be built. "
            f"{describe_element(blockers[one.element.entity])} {element_remedy(blockers[one.element.entity])}"
            for one in (*pending.announced, *pending.verified)
            if one.element.entity in blockers
        }

    def _block(self, reasons: Mapping[str, str]) -> None:
        """Leave elements out for the rest of this run."""
        self._result.withdrawn |= reasons
        self._blocked |= reasons.keys()

    async def _build(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        """Bring all records into line with the elements, and make those without violations ready."""
        building = [one for one in elements if one.state == "building"]
        has_work = bool(plan_repairs(self._schema.latest.catalog, elements))
        work = self._passes.work("repair", elements)
        await self._passes.publish(work, 0)
        if not (has_work and await self._passes.has_begun(work)):  # otherwise another run has waited
            await self._wait(building, self._waits.fence, "waiting until all servers maintain the elements")
        early = self._too_soon(building)
        if early:
            await self._withdraw(record, early)
            return
        await self._passes.ensure_indexes(self._catalog.table_definition())
        if has_work:
            await self._passes.run(work, "repairing records", partial(self._check_generations, work))
            await self._passes.ensure_indexes(self._catalog.table_definition())
        violations = await self._passes.remaining_violations(work)
        early = self._too_soon(building) | generations_too_early(building, violations)
        failed = failed_elements(elements, violations) - early.keys()
        ready = [one for one in elements if one.element.id not in failed | early.keys()]
        record = (await work.copy(self._schema)).record
        changes = [replace(one, state="ready", is_checked=True) for one in ready]
        changes += [replace(one, state="announced") for one in building if one.element.id in early]
        # The epoch of failed elements changes too: the work of another run, whose violations end here, is void.
        changes += [one for one in elements if one.element.id in failed]
        replaced = [one.element.id for one in superseded_versions(record, ready) if one.state == "closing"]
        await self._save(record, record.changed(*changes, forgotten=frozenset(replaced)))
        self._block(early)
        self._blocked |= failed
        self._result.ready += [one.element.id for one in ready]
        self._result.violations += [one for one in violations if not early.keys() >= {*one.elements}]
        await self._passes.delete_void_items(work)

    def _check_generations(self, work: PassWork, copy: SchemaCopy) -> None:
        """Raise an error if generations of a pass begin before they can be ready."""
        early = self._too_soon([copy.record.elements[key] for key in work.epochs])
        if early:
            raise GenerationsTooSoon(early)

    def _too_soon(self, building: Sequence[RecordedElement]) -> dict[str, str]:
        return generations_too_soon(building, self._settings.clock(), self._waits.lease + self._waits.margin)

    async def _withdraw(self, record: TableRecord, early: Mapping[str, str]) -> None:
        """Announce generations again that cannot be built."""
        await self._set_states(record, [record.elements[key] for key in early], "announced")
        self._block(early)

    # --- removing ----------------------------------------------------------------------------------------------

    async def _close(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        """Refuse reads by elements that are dropped, and forget those that have left nothing in records."""
        forgotten = frozenset(one.element.id for one in elements if leaves_nothing(one, record))
        dropped = elements_with_records([one for one in elements if one.element.id not in forgotten], record)
        closing = [replace(one, state="closing") for one in dropped]
        await self._save(record, record.changed(*closing, forgotten=forgotten))
        self._result.dropped += sorted(forgotten)

    async def _begin_dropping(self, record: TableRecord, elements: Sequence[RecordedElement]) -> None:
        """Let servers stop maintaining elements that no server reads any longer."""
        seconds = self._waits.before_dropping(elements)
        await self._wait(elements, seconds, "waiting until no server reads by what is dropped")
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
        work = self._passes.work("removal", elements)
        if not await self._passes.has_begun(work):  # otherwise another run has waited
            await self._wait(elements, self._waits.fence, "waiting until no server writes what is dropped")
        await self._passes.run(work, "removing what is dropped")
        await self._passes.drop_indexes(work)
        record = (await work.copy(self._schema)).record
        versions = {stored_entity(one.element) for one in elements if one.element.kind == VERSION_KIND}
        kept = {name: data for name, data in record.entities.items() if name not in versions}
        await self._save(record, replace(record, entities=kept).changed(forgotten=frozenset(work.epochs)))
        self._result.dropped += sorted(work.epochs)
        self._result.notes += [
            f"The engine still removes records by the attribute {one.element.definition['parts'][0]['stored']}: "
            "disable the time to live of the table, if no entity of it expires."
            for one in elements
            if one.element.name.endswith(".expiry") and not is_compared(self._store)
        ]
        await self._passes.delete_void_items(work)
