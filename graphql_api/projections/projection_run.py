"""Applies the events of a file by all projections of a source, and counts the outcomes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from graphql_api.database import Database
from graphql_api.errors import EventGap, InvalidEvent
from graphql_api.projections.event_envelopes import Envelope, read_envelope
from graphql_api.projections.event_sources import EventSource
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_items import MAX_UNREADABLE_BYTES, letter_item, unreadable_key
from graphql_api.projections.stream_projector import APPLY_RETRIES, StreamProjector, StreamResult
from graphql_api.projections.stream_transactions import add_letter
from graphql_api.runtime import RetryStrategy

MAX_CONCURRENT_STREAMS = 32
MAX_WAITING_BYTES = 64 * 2**20
"""of the events of one projection that wait in memory for a missing one"""


@dataclass(slots=True)
class ProjectionProgress:
    """The outcomes of one projection so far."""

    applied: int = 0
    repeated: int = 0
    dead: int = 0
    waiting: dict[str, dict[int, Envelope]] = field(default_factory=dict)
    """events that wait for a missing one, by stream and number"""
    waiting_bytes: int = 0
    expected: dict[str, int] = field(default_factory=dict)
    """the missing event, by stream"""
    stopped: dict[str, int] = field(default_factory=dict)
    """the dead letter at which a stream has stopped, by stream"""

    def as_json(self) -> dict[str, object]:
        """Return the counts as JSON."""
        gaps = [{"stream": stream, "missing": seq, "waiting": len(self.waiting[stream])} for stream, seq in self.gaps]
        stopped = [{"stream": stream, "seq": seq} for stream, seq in sorted(self.stopped.items())]
        counts = {"applied": self.applied, "repeated": self.repeated, "deadLetters": self.dead}
        return {**counts, "gaps": gaps, "stopped": stopped}

    @property
    def gaps(self) -> Sequence[tuple[str, int]]:
        """Return the streams with a missing event, and its number."""
        return sorted((stream, self.expected[stream]) for stream in self.waiting)


@dataclass(slots=True)
class RunProgress:
    """The outcomes of all projections of a source so far."""

    events: int = 0
    unreadable: int = 0
    """texts that are no events, which are dead letters"""
    projections: dict[str, ProjectionProgress] = field(default_factory=dict)

    @property
    def has_findings(self) -> bool:
        """Return whether events were left out: dead letters of this run, gaps, or streams that have stopped."""
        each = self.projections.values()
        return self.unreadable > 0 or any(one.dead or one.waiting or one.stopped for one in each)

    def as_json(self) -> dict[str, object]:
        """Return the counts as JSON."""
        projections = {name: one.as_json() for name, one in self.projections.items()}
        return {"events": self.events, "unreadable": self.unreadable, "projections": projections}


class ProjectionRun:
    """A run over the events of a source. Other runs and servers may apply events of the same streams meanwhile."""

    def __init__(self, database: Database, source: EventSource, *, retries: RetryStrategy = APPLY_RETRIES) -> None:
        self._database = database
        self._source = source
        self._retries = retries
        self._projectors = [StreamProjector(database, one, retries=retries) for one in source.projections]
        self.progress = RunProgress(projections={one.name: ProjectionProgress() for one in source.projections})

    async def run(
        self, chunks: AsyncIterator[Sequence[bytes]], on_progress: Callable[[RunProgress], None] = lambda _: None
    ) -> RunProgress:
        """Apply all chunks of lines. Raise `EventGap` if too many events wait for a missing one."""
        async for lines in chunks:
            envelopes = [one for line in lines if (one := await self._read(line)) is not None]
            for projector in self._projectors:
                await self._apply(projector, envelopes)
            self.progress.events += len(lines)
            on_progress(self.progress)
        return self.progress

    async def _read(self, line: bytes) -> Envelope | None:
        try:
            return read_envelope(line)
        except InvalidEvent as problem:
            if await bury_unreadable(self._database, self._source, line, problem):
                self.progress.unreadable += 1
            return None

    async def _apply(self, projector: StreamProjector, envelopes: Sequence[Envelope]) -> None:
        """Apply events to their streams, several streams at the same time."""
        progress = self.progress.projections[projector.projection.name]
        streams = _by_stream(progress, envelopes)
        semaphore = asyncio.Semaphore(MAX_CONCURRENT_STREAMS)

        async def apply(stream: str, events: Mapping[int, Envelope]) -> None:
            async with semaphore:
                result = await projector.apply(stream, [*events.values()])
            _add(progress, stream, result)

        try:
            async with asyncio.TaskGroup() as tasks:
                for stream, events in streams.items():
                    tasks.create_task(apply(stream, events))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        if progress.waiting_bytes > MAX_WAITING_BYTES:
            raise _too_much_waits(projector.projection, progress)


def _by_stream(progress: ProjectionProgress, envelopes: Iterable[Envelope]) -> dict[str, dict[int, Envelope]]:
    """Return new events with those of their streams that were waiting, by stream and number."""
    streams: dict[str, dict[int, Envelope]] = {}
    for envelope in envelopes:
        events = streams.get(envelope.stream)
        if events is None:
            events = streams[envelope.stream] = progress.waiting.pop(envelope.stream, {})
            progress.waiting_bytes -= sum(len(one.text) for one in events.values())
        if envelope.seq in events:
            progress.repeated += 1
        events.setdefault(envelope.seq, envelope)
    return streams


def _add(progress: ProjectionProgress, stream: str, result: StreamResult) -> None:
    progress.applied += result.applied
    progress.repeated += result.repeated
    progress.dead += len(result.dead)
    progress.stopped.pop(stream, None)
    progress.expected.pop(stream, None)
    if result.is_stopped:
        # Events after the dead letter are not kept: they stay in the file, and a later run reads them again.
        progress.stopped[stream] = result.expected
    elif result.waiting:
        progress.waiting[stream] = {one.seq: one for one in result.waiting}
        progress.waiting_bytes += sum(len(one.text) for one in result.waiting)
        progress.expected[stream] = result.expected


def _too_much_waits(projection: Projection, progress: ProjectionProgress) -> EventGap:
    stream, expected = max(progress.gaps, key=lambda gap: len(progress.waiting[gap[0]]))
    count = sum(map(len, progress.waiting.values()))
    return EventGap(
        f"{count:,} events of more than {MAX_WAITING_BYTES >> 20} MiB wait for missing ones, most of them for the "
        f"event {expected} of the stream {stream!r} ({projection.name}). Add it to the file, and run the command "
        "again: it skips what was applied.",
        stream=stream,
        expected=expected,
    )


async def bury_unreadable(database: Database, source: EventSource, text: bytes, reason: InvalidEvent) -> bool:
    """Store a text that is no event as a dead letter. Return False if it is one already, or was one."""
    key = unreadable_key(source.name, text, database.tenant)
    item = letter_item(key, text[:MAX_UNREADABLE_BYTES], reason, database.clock(), 1)
    return await APPLY_RETRIES.run(partial(add_letter, database, item))
