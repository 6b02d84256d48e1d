"""Run the passes of a migration: with their progress, the physical indexes that they need, and what they leave."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from secrets import token_urlsafe

from graphql_api.errors import StoreUnavailable
from graphql_api.evolution.migration_checkpoints import (
    PassKind,
    PassWork,
    SegmentProgress,
    delete_void_items,
    has_begun,
    read_violations,
    share_done,
)
from graphql_api.evolution.migration_pass import RateLimit, TablePass, rewritten_indexes
from graphql_api.evolution.migration_settings import (
    MigrationProgress,
    MigrationResult,
    MigrationSettings,
    ProgressCallback,
)
from graphql_api.evolution.record_repair import RecordRepairer, Violation
from graphql_api.evolution.schema_copy import SchemaCopy
from graphql_api.evolution.table_opening import is_compared
from graphql_api.evolution.table_record import PassProgress, RecordedElement, TableRecord, save_progress
from graphql_api.evolution.table_schema import RENEWALS, TableSchema
from graphql_api.storage import Key, Store, TableDefinition

LONGEST_PAUSE = 1.0
"""seconds of a wait between two looks at the table"""
_COMPARED_CLAIM_SECONDS = 2.0
"""after which a process takes over a segment, on engines without leases"""
_SEGMENTS = 8
"""of a pass, on engines that read them concurrently"""
_RECHECKED = 100
"""violations that are checked again at once"""


class PassRunner:
    """Runs the passes of one run of a migration."""

    def __init__(
        self,
        store: Store,
        schema: TableSchema,
        settings: MigrationSettings,
        result: MigrationResult,
        on_progress: ProgressCallback,
    ) -> None:
        self._store = store
        self._schema = schema
        self._settings = settings
        self._result = result
        self._on_progress = on_progress
        self._owner = token_urlsafe(9)
        self._rate = RateLimit(settings.rate, settings.timer, settings.sleep)
        self._lease = 0.0 if is_compared(store) else schema.latest.record.lease_seconds
        """0: the engine compares the epoch"""
        self._published_at = float("-inf")

    def work(self, kind: PassKind, elements: Sequence[RecordedElement]) -> PassWork:
        """Return a pass over the table for these elements."""
        return PassWork(kind, tuple(elements), self._settings.segments or (_SEGMENTS if self._lease else 1))

    async def has_begun(self, work: PassWork) -> bool:
        """Return whether any process has begun a pass: then it has waited for what the pass needs."""
        return await has_begun(self._store, work)

    async def run(self, work: PassWork, step: str, before_page: Callable[[SchemaCopy], None] = lambda _: None) -> None:
        """Run a pass. `before_page` is called with the newest copy, and raises an error if the pass cannot go on."""
        stored = await self._store.describe()
        items = None if stored is None else stored.item_count
        records = written = 0

        async def report(segments: Collection[SegmentProgress]) -> None:
            nonlocal records, written
            records, written = sum(one.records for one in segments), sum(one.written for one in segments)
            # The elements are ready only after the pass, when the engine has built the indexes too.
            percent = min(int(100 * share_done(segments, work.segments, items)), 99)
            self._on_progress(MigrationProgress(step, records, written, percent))
            await self.publish(work, percent)

        lags = work.kind == "repair" and self._lease
        built = rewritten_indexes(self._schema.latest.catalog, work.elements) if lags else ()
        claim_seconds = self._settings.claim_seconds or self._lease or _COMPARED_CLAIM_SECONDS
        table_pass = TablePass(
            self._store, self._schema, work, self._owner, claim_seconds, self._settings, self._rate, report,
            before_page, built,
        )  # fmt: skip
        await table_pass.run()
        self._result.records += records
        self._result.written += written

    async def publish(self, work: PassWork, percent: int) -> None:
        """Let servers know the progress of a pass, as often as they renew their copies. It never decreases."""
        record, now = self._schema.latest.record, self._settings.timer()
        progress = PassProgress(percent, frozenset(work.epochs.values()), work.kind == "removal")
        known = record.progress
        is_later = known is None or known.epochs != progress.epochs or known.percent < percent
        if is_later and now >= self._published_at + (self._lease / RENEWALS or LONGEST_PAUSE):
            self._published_at = now
            await save_progress(self._store, record, progress)

    async def remaining_violations(self, work: PassWork) -> list[Violation]:
        """Return the violations of a pass that still exist: records may have been corrected or deleted meanwhile."""
        found = await read_violations(self._store, work)
        keys = [*dict.fromkeys(violation.record for violation in found)]
        remaining: dict[tuple[Key, tuple[str, ...]], Violation] = {}
        for start in range(0, len(keys), _RECHECKED):
            copy = await work.copy(self._schema)
            elements = [copy.record.elements[key] for key in work.epochs]
            repairer = RecordRepairer(self._store, copy.catalog, elements, self._settings.clock)
            with self._schema.fence(copy):
                for item in await self._store.get_many(keys[start : start + _RECHECKED], consistent=True):
                    if item is not None:
                        _, violations = await repairer.repair(item)
                        remaining |= {(one.record, one.elements): one for one in violations}
        return [*remaining.values()]

    async def delete_void_items(self, completed: PassWork | None = None) -> None:
        """Delete the checkpoints and violations of passes that are over."""
        copy = await self._schema.copy_for_writing()
        with self._schema.fence(copy):
            await delete_void_items(self._store, copy.record, completed=completed)

    # --- physical indexes --------------------------------------------------------------------------------------

    async def ensure_indexes(self, definition: TableDefinition) -> None:
        """Create the physical indexes of maintained elements, and wait until they contain all records."""
        maintained = _index_names((await self._schema.copy_for_writing()).record, maintained=True)
        needed = replace(definition, indexes=tuple(one for one in definition.indexes if one.name in maintained))
        while True:
            try:
                return await self._store.ensure_table(needed)
            except StoreUnavailable:
                await self._store.describe()  # raises an error if the store does not answer at all
                self._on_progress(MigrationProgress("waiting until the engine has built the indexes"))
                await self._settings.sleep(LONGEST_PAUSE)

    async def drop_indexes(self, work: PassWork) -> None:
        """Remove the physical indexes that only the elements of a pass have used."""
        record = (await work.copy(self._schema)).record
        kept = {key: one for key, one in record.elements.items() if key not in work.epochs}
        others = _index_names(replace(record, elements=kept))
        for name in sorted(_index_names(record) - others):
            self._on_progress(MigrationProgress(f"removing the index {name}"))
            await self._store.drop_index(name)


def _index_names(record: TableRecord, *, maintained: bool = False) -> set[str]:
    """Return the names of the physical indexes of a record."""
    indexes = (one for one in record.elements.values() if one.element.kind == "index")
    return {one.element.name for one in indexes if one.is_maintained or not maintained}
