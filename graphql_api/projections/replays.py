"""Replays of events: they build the next version of a read model, and then let servers switch to it.

A replay may be killed at any moment and run again, and several may run at once: what it has done is in the table. Its
database has the new version pinned, so all its writes go there. Servers go on with the served version until the switch:

1. Apply all events, until no stream of the served version is ahead.
2. Record the version as `switching`: servers write the entities no longer. Wait until none does.
3. Compare the positions of all streams again. Apply what is missing, or let servers go on if the events are not here.
4. Record the version as `ready`, in one step for all entities. Servers read and write it from then on.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from graphql_api.codecs import hash_key_parts
from graphql_api.database import Database
from graphql_api.errors import NotReady, StoreUnavailable, WrongTable
from graphql_api.evolution import (
    BATCH_RETRIES,
    MigrationProgress,
    MigrationSettings,
    ProgressCallback,
    RecordedElement,
    State,
    TableRecord,
    check_replayable,
    is_compared,
    run_all,
    run_migration,
    save_record,
    served_version,
    version_element,
    versions_of,
    wait_times,
)
from graphql_api.model import NEWER, Catalog, ElementStatus, entity_and_version, unready_error, versioned_name
from graphql_api.projections.event_sources import EventSource
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.projection_run import ProjectionRun, RunProgress
from graphql_api.projections.stream_items import StoredPosition, projection_items
from graphql_api.storage import Item, Key

_LONGEST_PAUSE = 5.0
_SEGMENTS = 8
"""parts of the table that are read at the same time, if the engine gains from that"""
_ATTEMPTS = 20

Chunks = Callable[[], AsyncIterator[Sequence[bytes]]]
"""opens the events from the beginning"""


@dataclass(frozen=True, slots=True)
class MissingEvents:
    """A stream of which the served version has events that the replay has not applied."""

    projection: str
    tenant: str | None
    stream: str
    first: int
    last: int

    def __str__(self) -> str:
        tenant = "" if self.tenant is None else f" of the tenant {self.tenant}"
        return f"{self.projection}: {self.stream or 'the log'}{tenant} lacks the events {self.first} to {self.last}."


@dataclass(slots=True)
class ReplayResult:
    """What a replay has done."""

    run: RunProgress
    versions: dict[str, int]
    """the version of each entity that was built"""
    is_switched: bool = False
    missing: list[MissingEvents] = field(default_factory=list)
    """why servers were not switched"""
    not_compared: list[str] = field(default_factory=list)
    """projections with positions in the table that the application does not declare"""

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON."""
        missing = [asdict(one) for one in self.missing]
        own = {"versions": self.versions, "switched": self.is_switched, "missing": missing}
        return {**self.run.as_json(), **own, "notCompared": self.not_compared}


def replayed_versions(source: EventSource, catalog: Catalog, record: TableRecord) -> dict[str, int]:
    """Return the declared versions that the projections of a source have to build, by entity.

    Raise `WrongTable` if they cannot be built together.
    """
    versions: dict[str, int] = {}
    for projection in source.projections:
        entities = [catalog.declared.entity(model) for model in projection.models]
        served = {entity.name: served_version(record, entity.name) for entity in entities}
        newer = {name: version for name, version in served.items() if version > projection.version}
        if newer:
            name, version = next(iter(newer.items()))
            status = ElementStatus(f"entity version {name}.{version}", NEWER)
            raise unready_error(status, f"The projection {projection.name} needs")
        pending = [name for name, version in served.items() if version < projection.version]
        if pending and len(pending) < len(served):
            rest = ", ".join(sorted(served.keys() - {*pending}))
            raise WrongTable(
                f"The projection {projection.name} has built version {projection.version} of {rest}, and not of "
                f"{', '.join(pending)}. A replay builds all entities of a projection: declare version="
                f"{projection.version + 1} of each."
            )
        versions |= dict.fromkeys(pending, projection.version)
    return versions


async def replay(
    open_database: Callable[[Catalog], AbstractAsyncContextManager[Database]],
    catalog: Catalog,
    source: EventSource,
    chunks: Chunks,
    *,
    others: Iterable[EventSource] = (),
    tenant: str | None = None,
    settings: MigrationSettings | None = None,
    on_step: ProgressCallback = lambda _: None,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
) -> ReplayResult | None:
    """Replay the events of a source, and let servers switch. Return None if the table has all declared versions.

    `others`: all sources of the application. None but this one may have projections of the entities.
    """
    async with open_database(catalog) as database:
        assert database.schema is not None, "a table has its record"
        record = database.schema.latest.record
    versions = replayed_versions(source, catalog, record)
    if not versions:
        return None
    pinned = catalog.with_versions(versions, pinned=True)
    for name, version in versions.items():
        served, new = (versioned_name(name, one) for one in (served_version(record, name), version))
        check_replayable(record, pinned, served, new)
    for other in others:
        for projection in other.projections if other.name != source.name else ():
            shared = [model.__name__ for model in projection.models if catalog.declared.entity(model).name in versions]
            if shared:
                writer = f"the projection {projection.name} of the source {other.name}"
                reason = f"{writer} writes it too, and a replay has the events of one source."
                raise WrongTable(f"{shared[0]} cannot be replayed: {reason}")
    async with open_database(pinned) as database:
        own = database.scoped(tenant=tenant)
        return await Replay(own, source, versions, settings, on_step).run(chunks, on_progress)


class Replay:
    """A replay of the events of a source."""

    def __init__(
        self,
        database: Database,
        source: EventSource,
        versions: dict[str, int],
        settings: MigrationSettings | None = None,
        on_step: ProgressCallback = lambda _: None,
    ) -> None:
        """Prepare a replay. `database`: its catalog has the new versions pinned; `versions`: of each entity."""
        assert database.schema is not None, "a table has its record"
        self._database = database
        self._schema = database.schema
        self._versions = versions
        self._settings = settings or MigrationSettings()
        self._on_step = on_step
        self._source = replace(source, projections=tuple(self._replayed(source)))
        self._other_names = {one.name for one in source.projections} - {one.name for one in self._source.projections}
        self._began: tuple[frozenset[int], float] = frozenset(), 0.0
        """the epochs in which this process has seen the versions as `switching`, and when"""

    def _replayed(self, source: EventSource) -> Iterator[Projection]:
        declared = self._database.catalog.declared
        for projection in source.projections:
            if any(declared.entity(model).name in self._versions for model in projection.models):
                yield projection

    async def run(self, chunks: Chunks, on_progress: Callable[[RunProgress], None] = lambda _: None) -> ReplayResult:
        """Build the new versions, and let servers switch to them if no event is missing."""
        await self._begin()
        result = ReplayResult(await self._apply(chunks, on_progress), self._versions)
        for _ in range(_ATTEMPTS):
            result.missing = await self._compare(result)
            if result.missing:
                return result
            await self._stop_writers()
            result.missing = await self._compare(result)
            if result.missing:  # Events that arrived before writers stopped.
                await self._apply(chunks, lambda _: None)
                result.missing = await self._compare(result)
            if result.missing:
                await self._change("building")
                return result
            if await self._switch():
                result.is_switched = True
                return result
        raise StoreUnavailable("Other processes keep changing the record of the table: retry.")

    async def _apply(self, chunks: Chunks, on_progress: Callable[[RunProgress], None]) -> RunProgress:
        return await ProjectionRun(self._database, self._source).run(chunks(), on_progress)

    # --- the record of the table -------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Record the versions as `building`, once everything that their records need is ready."""
        await self._schema.refresh()
        if self._unready(self._schema.latest.record):
            await run_migration(self._database.store, self._database.catalog, self._settings, self._on_step)
            await self._schema.refresh()
        unready = self._unready(self._schema.latest.record)
        if unready:
            raise NotReady(
                f"The replay needs the {unready[0].element}, which is {unready[0].state}.",
                element=f"{unready[0].element}",
                state=unready[0].state,
            )
        await self._change("building", {"building", "switching"})

    def _unready(self, record: TableRecord) -> list[RecordedElement]:
        names = {versioned_name(name, version) for name, version in self._versions.items()}
        return [one for one in record.elements.values() if one.element.entity in names and one.state != "ready"]

    def _recorded(self, record: TableRecord) -> list[RecordedElement | None]:
        versions = versions_of(record)
        return [versions.get(name, {}).get(version) for name, version in self._versions.items()]

    async def _change(self, state: State, unless: frozenset[State] | set[State] = frozenset()) -> None:
        """Record a state of all versions, but of those that have one of the states `unless`."""
        for _ in range(_ATTEMPTS):
            record = self._schema.latest.record
            changes = [
                RecordedElement(version_element(name, version, self._definition(name)), state, 0)
                for (name, version), old in zip(self._versions.items(), self._recorded(record), strict=True)
                if old is None or old.state not in {state, *unless} or not old.element.definition
            ]
            if any(old is not None and old.state in {"closing", "dropping", "ready"} for old in self._recorded(record)):
                raise WrongTable("The version that is replayed was dropped or served meanwhile: run the command again.")
            if not changes or await save_record(self._database.store, record, record.changed(*changes)):
                await self._schema.refresh()
                return
            await self._schema.refresh()
        raise StoreUnavailable("Other processes keep changing the record of the table: retry.")

    def _definition(self, entity: str, version: int | None = None) -> dict[str, object]:
        """Return where the positions and dead letters of a version are, for `migrate --drop`."""
        declared = self._database.catalog.declared
        items = [
            item
            for one in self._source.projections
            if entity in {declared.entity(model).name for model in one.models}
            for item in projection_items(one.source, versioned_name(one.name, version or one.version))
        ]
        return {"projections": items}

    async def _stop_writers(self) -> None:
        """Let servers write the served version no longer, and wait until none does."""
        await self._change("switching")
        waits = wait_times(self._database.store, self._schema.latest.record, self._settings)
        epochs = frozenset(one.epoch for one in self._recorded(self._schema.latest.record) if one is not None)
        if self._began[0] != epochs:
            self._began = epochs, self._settings.timer()
        until = self._began[1] + max(waits.readers, waits.fence)
        while (left := until - self._settings.timer()) > 0 and waits.lease:
            self._on_step(MigrationProgress("waiting until no server writes the version before", seconds_left=left))
            await self._settings.sleep(min(left, _LONGEST_PAUSE))

    async def _switch(self) -> bool:
        """Let servers read and write the new versions. Return False if another process has changed their states."""
        await self._schema.refresh()
        record = self._schema.latest.record
        recorded = [one for one in self._recorded(record) if one is not None]
        epochs = frozenset(one.epoch for one in recorded)
        if any(one.state != "switching" for one in recorded) or epochs != self._began[0]:
            return all(one.state == "ready" for one in recorded)  # Another replay may have switched.
        changes = [replace(one, state="ready") for one in recorded]
        for name in self._versions:
            served = served_version(record, name)
            if served not in versions_of(record).get(name, {}):
                old = version_element(name, served, self._definition(name, served))
                changes.append(RecordedElement(old, "ready", 0))
        is_saved = await save_record(self._database.store, record, record.changed(*changes))
        await self._schema.refresh()
        return is_saved

    # --- positions ---------------------------------------------------------------------------------------------

    async def _compare(self, result: ReplayResult) -> list[MissingEvents]:
        """Return the streams of which the served version has events that the new one lacks, for all tenants.

        Raise `WrongTable` if the served version has records, and no projection of the source has applied events to it.
        """
        found = await self._scan()
        record, declared = self._schema.latest.record, self._database.catalog.declared
        names = {projection.name for projection in self._source.projections} | self._other_names
        result.not_compared = sorted({entity_and_version(one.projection)[0] for one in found.positions} - names)
        last = {(one.projection, one.tenant, one.stream): one.last_seq for one in found.positions}
        missing, projected = [], set[str]()
        for projection in self._source.projections:
            entities = [declared.entity(model).name for model in projection.models]
            served = served_version(record, entities[0])
            old = [one for one in found.positions if one.projection == versioned_name(projection.name, served)]
            projected |= {versioned_name(entity, served) for entity in entities} if old else set()
            for one in sorted(old, key=lambda one: (one.tenant or "", one.stream)):
                own = last.get((projection.stored_name, one.tenant, one.stream), projection.first_seq - 1)
                if own < one.last_seq:
                    missing.append(MissingEvents(projection.name, one.tenant, one.stream, own + 1, one.last_seq))
        for name in self._versions:
            served_name = versioned_name(name, served_version(record, name))
            if served_name in found.heads - projected:
                raise WrongTable(
                    f"The table has records of {served_name} that no projection of {self._source.name} has written: a "
                    "replay would leave them out. If a projection had another name before, declare that with name=."
                )
        return missing

    async def _scan(self) -> "_Found":
        """Read the whole table."""
        segments = 1 if is_compared(self._database.store) else _SEGMENTS
        found = _Found()
        await run_all(self._scan_segment(found, segment, segments) for segment in range(segments))
        return found

    async def _scan_segment(self, found: "_Found", segment: int, segments: int) -> None:
        after: Key | None = None
        while True:
            page = await BATCH_RETRIES.run(partial(self._database.store.scan, segment, segments, after))
            for item in page.items:
                found.add(item, self._source.name)
            after = page.after
            if after is None:
                return


@dataclass(slots=True)
class _Found:
    """What a scan has found."""

    positions: list[StoredPosition] = field(default_factory=list)
    """of all streams of the source"""
    heads: set[str] = field(default_factory=set)
    """of the hash keys of records"""

    def add(self, item: Item, source: str) -> None:
        """Note an item."""
        parts = hash_key_parts(item["hashKey"])
        if parts is None:
            return
        if not parts.kind:
            self.heads.add(parts.head)
        position = StoredPosition.of(item)
        if position is not None and position.source == source:
            self.positions.append(position)
