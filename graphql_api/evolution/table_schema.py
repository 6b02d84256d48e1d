"""A process's copy of the table's record: how old it may be, how it is renewed, and what it allows.

With leases, a copy allows requests only for a limited time after the read that brought it was sent. Other processes
wait for that time before they rely on a change. An engine that compares needs no leases: each request verifies that
the record is still the one that it was planned with.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from logging import getLogger
from typing import Any, ClassVar, Self, TypeVar

from graphql_api.clock import Instant, read_clocks, seconds_between
from graphql_api.errors import (
    NotReady,
    OutcomeUnknown,
    SchemaChanged,
    ShardQLError,
    StoreError,
    StoreUnavailable,
    for_one_of_several,
)
from graphql_api.evolution.schema_copy import SchemaCopy, copy_of, planned_with, read_copy
from graphql_api.evolution.table_opening import ServedRecord
from graphql_api.evolution.table_record import TableRecord, read_epoch, save_record, with_progress
from graphql_api.model import Catalog
from graphql_api.storage import ComparingStore, Store, WriteFence, fenced, schema_changed_error
from graphql_api.writes import AnyCommand, CommandResult, always_commits

log = getLogger("shardql")

T = TypeVar("T")
C = TypeVar("C", bound=AnyCommand)

MAX_ATTEMPTS = 5
"""of an operation whose table changes while it runs"""
LEASE_MARGIN_SECONDS = 5.0
"""how long a request may be on its way to the engine after the check of its lease"""
REQUEST_LIFE_SECONDS = 300.0
"""how long an engine may still apply a request whose client gave up; on DynamoDB the validity of a signature"""
READ_LEASES = 10
"""length of a read lease, in leases"""
RENEWALS = 3
"""renewals in the time of a lease"""
_RENEWED_SHARE = 2 / 3
"""share of a lease after which a request renews the copy before it begins"""


class TableSchema(ABC):
    """The schema of a table, as one process knows it. Use it as a context manager, or by `opened_schema`."""

    verifies_commits: ClassVar[bool] = False
    """each commit verifies the copy itself, so that nothing has to verify it before"""

    def __init__(self, store: Store, catalog: Catalog, copy: SchemaCopy, clocks: Callable[[], Instant]) -> None:
        self.latest = copy
        self._store = store
        self._declared = catalog
        self._clocks = clocks
        self._renewal: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await _cancel(self._renewal)

    async def read(self, operation: Callable[[Catalog], Awaitable[T]]) -> T:
        """Return the result of a read with a copy that stayed valid until the last reply of the engine."""
        for _ in range(MAX_ATTEMPTS):
            copy = await self.copy_for_reading()
            try:
                result = await operation(copy.catalog)
            except ShardQLError as problem:
                if await self.held_for_reading(copy):
                    await self.inform([problem])
                    raise
            else:
                if await self.held_for_reading(copy):
                    return result
        raise StoreUnavailable("The table kept changing while it was read: retry.")

    async def write(
        self,
        commands: Sequence[C],
        execute: Callable[[Sequence[C]], Awaitable[list[CommandResult]]],
    ) -> list[CommandResult]:
        """Execute commands, and again those that a change of the table's record has stopped: they wrote nothing."""
        results: list[CommandResult] = [None] * len(commands)
        waiting = [*range(len(commands))]
        for attempt in range(MAX_ATTEMPTS):
            is_unverified = attempt == 0 and self._needs_no_verification(commands)
            copy = self.latest if is_unverified else await self.copy_for_writing()
            with self.fence(copy):
                executed = await execute([planned_with(copy, commands[position]) for position in waiting])
            for position, result in zip(waiting, executed, strict=True):
                results[position] = result
            stopped = [position for position in waiting if isinstance(results[position], SchemaChanged)]
            waiting = await self._planned_with_old(copy, waiting, results) if is_unverified else stopped
            if not waiting:
                break
            await self.refresh()
        await self.inform(results)
        return results

    def _needs_no_verification(self, commands: Sequence[AnyCommand]) -> bool:
        return self.verifies_commits and not self.latest.unknown and all(map(always_commits, commands))

    async def _planned_with_old(
        self, copy: SchemaCopy, positions: Sequence[int], results: list[CommandResult]
    ) -> list[int]:
        """Return which commands were refused with a copy that is not the present one. No commit has verified it."""
        refused = [position for position in positions if _is_refusal(results[position])]
        if not refused or any(isinstance(results[position], SchemaChanged) for position in refused):
            return refused
        try:
            return [] if await self.copy_for_writing() is copy else refused
        except StoreError as problem:  # What was created stays created.
            for position in refused:
                results[position] = for_one_of_several(problem)
            return []

    async def inform(self, results: Iterable[object]) -> None:
        """Add the progress of a migration to the errors among these results that refuse what is not ready."""
        refused = [one for one in results if isinstance(one, NotReady)]
        if refused:
            record = await self.current_record()
            progress = {f"{one.element}": record.progress_of(one) for one in record.elements.values()}
            for error in refused:
                error.set_progress(progress.get(error.element, ""))

    async def current_record(self) -> TableRecord:
        """Return the record with the progress of a migration, as far as this needs no read that an engine bills."""
        return self.latest.record

    @abstractmethod
    async def copy_for_reading(self) -> SchemaCopy:
        """Return a copy for planning a read. Its result counts only if `held_for_reading` returns True afterwards."""

    @abstractmethod
    async def held_for_reading(self, copy: SchemaCopy) -> bool:
        """Return whether a copy was valid until now. Otherwise renew it."""

    @abstractmethod
    async def copy_for_writing(self) -> SchemaCopy:
        """Return a copy for planning writes, which are sent within its `fence`."""

    def fence(self, copy: SchemaCopy) -> AbstractContextManager[None]:
        """Put a fence around writes that were planned with a copy: no write is applied after it has become invalid."""
        return fenced(WriteFence(copy.check, lambda: self._verify(copy)))

    def _verify(self, copy: SchemaCopy) -> None:
        """Raise `SchemaChanged` if a newer copy has another epoch."""
        if self.latest.record.epoch != copy.record.epoch:
            raise schema_changed_error()

    async def refresh(self) -> None:
        """Read the record, or join the read that is in progress."""
        if self._renewal is None or self._renewal.done():
            # Requests have meters and statistics in their context, which must not count this read.
            self._renewal = asyncio.get_running_loop().create_task(self._renew(), context=Context())
            self._renewal.add_done_callback(_retrieve_error)
        try:
            await asyncio.shield(self._renewal)
        except StoreError as problem:
            raise for_one_of_several(problem) from problem

    async def _renew(self) -> None:
        asked_at, item = self._clocks(), await read_epoch(self._store)
        if item["epoch"] != self.latest.record.epoch:
            self.latest = await read_copy(self._store, self._declared, self._clocks)
        else:
            self.latest = replace(self.latest, record=with_progress(self.latest.record, item), asked_at=asked_at)


def _is_refusal(result: CommandResult) -> bool:
    """Return whether a command was refused, so that it can be executed again."""
    return isinstance(result, ShardQLError) and not isinstance(result, OutcomeUnknown)


class ComparedSchema(TableSchema):
    """Compares the epoch with the table at each request. For engines whose comparison costs next to nothing."""

    verifies_commits = True

    def __init__(
        self,
        store: ComparingStore,
        catalog: Catalog,
        copy: SchemaCopy,
        clocks: Callable[[], Instant],
    ) -> None:
        super().__init__(store, catalog, copy, clocks)
        self._engine = store

    async def copy_for_reading(self) -> SchemaCopy:
        self._engine.forget_snapshot()  # A refusal without a read must stem from the present record.
        return self.latest

    async def held_for_reading(self, copy: SchemaCopy) -> bool:
        if self._engine.holds(copy.check):
            return True
        await self.refresh()
        return False

    async def current_record(self) -> TableRecord:
        with suppress(StoreError):  # The progress is only additional.
            await self.refresh()
        return self.latest.record

    async def copy_for_writing(self) -> SchemaCopy:
        self._engine.forget_snapshot()
        if not self._engine.holds(self.latest.check):
            await self.refresh()
        return self.latest


class LeasedSchema(TableSchema):
    """Holds leases, which a task renews in the background."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        copy: SchemaCopy,
        clocks: Callable[[], Instant],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        settles: bool = False,
        margin_seconds: float = LEASE_MARGIN_SECONDS,
        life_seconds: float = REQUEST_LIFE_SECONDS,
    ) -> None:
        super().__init__(store, catalog, copy, clocks)
        self._pause = pause
        self._settles = settles
        self._settle_seconds = margin_seconds + life_seconds
        self._noticed: dict[tuple[str, int], Instant] = {}
        """new properties with their epochs, and when this process has noticed them"""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._renew_regularly(), context=Context())
        return self

    async def __aexit__(self, *error: object) -> None:
        await _cancel(self._task)
        await super().__aexit__(*error)

    @property
    def lease_seconds(self) -> float:
        return self.latest.record.lease_seconds

    async def copy_for_reading(self) -> SchemaCopy:
        copy = await self._copy_younger_than(self.lease_seconds * READ_LEASES)
        if copy.is_switching:
            # Other servers may write the next version already: only a copy of this moment shows which one to read.
            if self._renewal is not None and not self._renewal.done():
                await asyncio.wait([self._renewal])
            await self.refresh()
        return self.latest

    async def copy_for_writing(self) -> SchemaCopy:
        return await self._copy_younger_than(self.lease_seconds)

    async def held_for_reading(self, copy: SchemaCopy) -> bool:
        latest = self.latest
        asked_at = latest.asked_at if latest.record.epoch == copy.record.epoch else copy.asked_at
        return seconds_between(asked_at, self._clocks()) < copy.record.lease_seconds * READ_LEASES

    def _verify(self, copy: SchemaCopy) -> None:
        super()._verify(copy)
        if self._age() >= self.lease_seconds:
            raise self._expired_error()

    def _age(self) -> float:
        return seconds_between(self.latest.asked_at, self._clocks())

    async def _copy_younger_than(self, limit: float) -> SchemaCopy:
        if self._age() >= limit * _RENEWED_SHARE:
            joined = self._renewal is not None and not self._renewal.done()
            await self._try_refresh()
            if joined and self._age() >= limit:
                # That renewal began before the process was frozen, and proves nothing about the time since then.
                await self._try_refresh()
            if self._age() >= limit:
                raise self._expired_error()
        return self.latest

    async def _try_refresh(self) -> None:
        try:
            await self.refresh()
        except StoreError as problem:
            log.debug("The record of the table cannot be read: %s", problem)

    def _expired_error(self) -> StoreUnavailable:
        error = StoreUnavailable(
            f"This server has not reached the record of the table for {self._age():.0f} seconds, and may not act on "
            "its copy any longer: retry."
        )
        error.certain = True
        return error

    async def _renew_regularly(self) -> None:
        has_failed = False
        while True:
            await self._pause(self.lease_seconds / RENEWALS)
            try:
                await self.refresh()
                if self._settles:
                    await self._settle_properties()
            except Exception as problem:  # noqa: BLE001 - without renewals, all requests would fail after a lease
                if not has_failed:
                    log.warning("The record of the table cannot be read, and is tried again: %s", problem)
                has_failed = True
            else:
                has_failed = False

    async def _settle_properties(self) -> None:
        """Let new properties become ready once no write is applied any longer that would erase their values."""
        record, now = self.latest.record, self._clocks()
        new = {
            (key, one.epoch): one
            for key, one in record.elements.items()
            if one.element.kind == "property" and one.state == "announced"
        }
        self._noticed = {key: self._noticed.get(key, now) for key in new}
        wait = record.lease_seconds + self._settle_seconds
        known = [one for key, one in new.items() if seconds_between(self._noticed[key], now) >= wait]
        if known:
            await save_record(self._store, record, record.changed(*(replace(one, state="ready") for one in known)))
            await self.refresh()


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Keep asyncio from logging an error that no caller waits for any longer."""
    if not task.cancelled():
        task.exception()


async def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


@asynccontextmanager
async def opened_schema(
    store: Store,
    catalog: Catalog,
    *,
    served: ServedRecord | None = None,
    clocks: Callable[[], Instant] = read_clocks,
    settles: bool = False,
    margin_seconds: float = LEASE_MARGIN_SECONDS,
    life_seconds: float = REQUEST_LIFE_SECONDS,
) -> AsyncIterator[TableSchema]:
    """Keep a copy of the table's record valid during the block.

    `served`: the record as it was read when the table was opened; by default it is read now. `settles`: let new
    properties become ready after a lease, the margin and the life of a request, as servers that may write do.
    """
    copy = await read_copy(store, catalog, clocks) if served is None else copy_of(served, catalog)
    schema: TableSchema
    if isinstance(store, ComparingStore):
        schema = ComparedSchema(store, catalog, copy, clocks)
    else:
        schema = LeasedSchema(
            store, catalog, copy, clocks, settles=settles, margin_seconds=margin_seconds, life_seconds=life_seconds
        )
    async with schema:
        yield schema
