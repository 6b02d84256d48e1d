"""Applies the events of streams by one projection: in order, and each exactly once.

The transaction that writes the operations of an event also moves the position of its stream, on the condition that it
is unchanged. So two projectors may work on one stream, and a lost reply or a crash applies nothing twice.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from graphql_api.database import Database
from graphql_api.errors import ConditionFailed, InvalidEvent, SchemaChanged, ShardQLError
from graphql_api.projections.event_envelopes import Envelope
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_items import StreamPosition
from graphql_api.projections.stream_transactions import (
    PositionMove,
    ProjectedStream,
    VersionSwitched,
    is_certain,
    projection_in_force,
)
from graphql_api.runtime import Retries, RetryStrategy
from graphql_api.storage import Key
from graphql_api.writes import Command

MAX_BATCH_EVENTS = 16
"""consecutive events of a stream in one transaction"""
MAX_BATCH_OPERATIONS = 16
"""of several events; those of a single event are limited by the items of a transaction alone"""
MAX_CACHED_POSITIONS = 10_000

APPLY_RETRIES = RetryStrategy(first_backoff_seconds=0.1, max_backoff_seconds=5.0, max_seconds=120.0)
"""of a transaction that the store does not accept for the moment"""


@dataclass(slots=True)
class StreamResult:
    """The outcomes of events of one stream."""

    applied: int = 0
    repeated: int = 0
    """events that had been applied, or become dead letters, before"""
    dead: list[tuple[Envelope, ShardQLError]] = field(default_factory=list)
    """events that are dead letters now"""
    waiting: Sequence[Envelope] = ()
    """events that were not applied, because one before them is missing or has stopped the stream"""
    expected: int = 0
    """the event that the stream needs next"""
    is_stopped: bool = False
    """the stream has stopped at the dead letter of that event"""


class StreamLocks:
    """Locks by stream, so that the tasks of one process do not conflict."""

    def __init__(self) -> None:
        self._locks = WeakValueDictionary[Key, asyncio.Lock]()

    def of(self, key: Key) -> asyncio.Lock:
        """Return the lock of a stream, by the key of its position."""
        return self._locks.setdefault(key, asyncio.Lock())


class StreamProjector:
    """Applies events by one projection, for the tenant of a database."""

    def __init__(
        self,
        database: Database,
        projection: Projection,
        *,
        retries: RetryStrategy = APPLY_RETRIES,
        locks: StreamLocks | None = None,
    ) -> None:
        self.projection = projection
        self._database = database
        self._retries = retries
        self._locks = StreamLocks() if locks is None else locks
        self._cached: dict[Key, StreamPosition] = {}

    async def apply(self, stream: str, envelopes: Sequence[Envelope]) -> StreamResult:
        """Apply events of a stream, as far as none before them is missing. They may be in any order."""
        while True:
            with suppress(VersionSwitched):
                return await self._apply(stream, envelopes)

    async def _apply(self, stream: str, envelopes: Sequence[Envelope]) -> StreamResult:
        projection = projection_in_force(self.projection, self._database.effective_catalog)
        projected = ProjectedStream(self._database, projection, stream)
        key, pending = projected.key, deque(sorted(envelopes, key=lambda envelope: envelope.seq))
        async with self._locks.of(key):
            run = _StreamRun(projected, pending, self._retries, self._cached.pop(key, None))
            result = await run.run()
        if run.position is not None:
            self._cached[key] = run.position
            if len(self._cached) > MAX_CACHED_POSITIONS:
                del self._cached[next(iter(self._cached))]
        return result


@dataclass(slots=True)
class _StreamRun:
    """One run over events of a stream."""

    stream: ProjectedStream
    pending: deque[Envelope]
    strategy: RetryStrategy
    position: StreamPosition | None
    """as it was left; None: it has to be read"""
    result: StreamResult = field(default_factory=StreamResult)
    is_fresh: bool = False
    """the position was read during this run"""
    single_until: int = -1
    """the last event of a transaction that was rejected: those up to it are applied one by one"""

    async def run(self) -> StreamResult:
        """Apply what can be applied. Retry while the store does not accept it."""
        retries: Retries | None = None
        while True:
            try:
                if not await self._step():
                    break
            except ShardQLError as problem:
                self.position = None
                if not (problem.retryable or isinstance(problem, ConditionFailed | SchemaChanged)):
                    raise
                retries = retries or self.strategy.start()
                if not await retries.pause():
                    raise
            else:
                retries = None
        self.result.waiting = tuple(self.pending)
        return self.result

    async def _step(self) -> bool:
        """Apply the next events, or make the next one a dead letter. Return False if the next one has to wait."""
        if self.pending and self.pending[0].seq < self.stream.projection.first_seq:
            await self._bury_early()
            return True
        if self.position is None:
            self.position, self.is_fresh = await self.stream.read_position(), True
        position, result = self.position, self.result
        while self.pending and self.pending[0].seq <= position.last_seq:
            self.pending.popleft()
            result.repeated += 1
        result.expected, result.is_stopped = position.last_seq + 1, position.stopped_at is not None
        if not self.pending:
            return False
        if self.pending[0].seq > result.expected:
            # Before events wait, another projector may have applied the missing one.
            self.position = position if self.is_fresh else None
            return not self.is_fresh
        batch: list[tuple[Envelope, list[Command]]] = []
        try:
            batch = self._next_batch()
            await self._commit(position, batch)
        except ShardQLError as problem:
            if not is_certain(problem):
                raise
            if len(batch) > 1:
                self.single_until = batch[-1][0].seq
                return True
            return await self._bury(position, problem)
        return True

    def _next_batch(self) -> list[tuple[Envelope, list[Command]]]:
        """Return the next consecutive events with their commands. Raise an error if the first one cannot have any."""
        batch: list[tuple[Envelope, list[Command]]] = []
        operations = 0
        for envelope in self.pending:
            if batch and (envelope.seq != batch[-1][0].seq + 1 or batch[-1][0].seq < self.single_until):
                break
            try:
                commands = self.stream.commands(envelope)
            except ShardQLError:
                if batch:
                    break
                raise
            operations += len(commands)
            if batch and (operations > MAX_BATCH_OPERATIONS or len(batch) == MAX_BATCH_EVENTS):
                break
            batch.append((envelope, commands))
        return batch

    async def _commit(self, position: StreamPosition, batch: list[tuple[Envelope, list[Command]]]) -> None:
        commands = [command for _, of_event in batch for command in of_event]
        # An event at which the stream has stopped is applied after all.
        letter = None if position.stopped_at is None else self.stream.letter_key(position.stopped_at)
        move = PositionMove(self.stream, position, batch[-1][0].seq, len(commands), letter)
        await self.stream.commit(commands, move)
        self.position = move.moved
        if self.position is not None:
            self.result.applied += len(batch)
            for _ in batch:
                self.pending.popleft()

    async def _bury(self, position: StreamPosition, problem: ShardQLError) -> bool:
        envelope = self.pending[0]
        self.position = await self.stream.bury(envelope, problem, position)
        self.pending.popleft()
        self.result.dead.append((envelope, problem))
        self.result.is_stopped = self.stream.projection.stops
        return not self.result.is_stopped

    async def _bury_early(self) -> None:
        """Make an event a dead letter whose number is before the first one of every stream."""
        envelope, first = self.pending[0], self.stream.projection.first_seq
        problem = InvalidEvent(f"seq is {envelope.seq}, and the streams of this projection begin with {first}.")
        is_new = await self.stream.bury_early(envelope, problem)
        self.pending.popleft()
        self.result.repeated += not is_new
        self.result.dead += [(envelope, problem)] if is_new else []
