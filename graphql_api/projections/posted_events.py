"""Applies events that a client posts: a few, of several streams, while other clients may post the ones before them."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from graphql_api.database import Database
from graphql_api.errors import EventGap, ShardQLError, StreamStopped
from graphql_api.projections.event_envelopes import Envelope
from graphql_api.projections.event_sources import EventSource
from graphql_api.projections.projection_functions import Projection
from graphql_api.projections.stream_projector import StreamLocks, StreamProjector, StreamResult
from graphql_api.runtime import Retries, RetryStrategy

MAX_POSTED_EVENTS = 100

GAP_WAIT = RetryStrategy(first_backoff_seconds=0.05, max_backoff_seconds=0.25, max_seconds=2.0)
"""how long events wait for a missing one, which another client may be about to post"""
STORE_RETRIES = RetryStrategy(first_backoff_seconds=0.05, max_backoff_seconds=0.5, max_attempts=4)


@dataclass(slots=True)
class PostedEvents:
    """The outcomes of the events of one request."""

    projections: dict[str, dict[str, object]] = field(default_factory=dict)
    """counts and dead letters, by projection"""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """number of events by projection and outcome: applied, repeated, dead, waiting"""
    problems: list[ShardQLError] = field(default_factory=list)
    """one for each stream whose events were not all applied"""


async def apply_posted(
    database: Database,
    source: EventSource,
    envelopes: Sequence[Envelope],
    locks: StreamLocks,
    *,
    shows_reasons: bool = True,
    gap_wait: RetryStrategy = GAP_WAIT,
) -> PostedEvents:
    """Apply events by all projections of their source. Events whose predecessor is missing wait for a short time.

    `shows_reasons`: say why an event is a dead letter, in the words of the projection.
    """
    posted, deadline = PostedEvents(), gap_wait.clock() + gap_wait.max_seconds
    streams = [*dict.fromkeys(envelope.stream for envelope in envelopes)]
    for projection in source.projections:
        projector = StreamProjector(database, projection, retries=STORE_RETRIES, locks=locks)
        by_stream = [[one for one in envelopes if one.stream == stream] for stream in streams]
        results = await asyncio.gather(
            *(
                _apply(projector, stream, events, gap_wait.start(deadline))
                for stream, events in zip(streams, by_stream, strict=True)
            )
        )
        posted.projections[projection.name] = _described(results, shows_reasons=shows_reasons)
        for stream, result in zip(streams, results, strict=True):
            outcomes = {"applied": result.applied, "repeated": result.repeated, "dead": len(result.dead)}
            for outcome, count in {**outcomes, "waiting": len(result.waiting)}.items():
                posted.counts[projection.name, outcome] += count
            if result.waiting:
                posted.problems.append(_waiting_error(projection, stream, result))
    return posted


async def _apply(projector: StreamProjector, stream: str, events: Sequence[Envelope], waits: Retries) -> StreamResult:
    result = await projector.apply(stream, events)
    while result.waiting and not result.is_stopped and await waits.pause():
        later = await projector.apply(stream, result.waiting)
        later.applied += result.applied
        later.repeated += result.repeated
        later.dead[:0] = result.dead
        result = later
    return result


def _described(results: Sequence[StreamResult], *, shows_reasons: bool) -> dict[str, object]:
    letters = [
        {"stream": envelope.stream, "seq": envelope.seq, "code": problem.code}
        | ({"reason": problem.message} if shows_reasons else {})
        for result in results
        for envelope, problem in result.dead
    ]
    applied, repeated = sum(one.applied for one in results), sum(one.repeated for one in results)
    return {"applied": applied, "repeated": repeated, "deadLetters": letters}


def _waiting_error(projection: Projection, stream: str, result: StreamResult) -> ShardQLError:
    name = f"The stream {stream!r}" if stream else "The log"
    if result.is_stopped:
        problem = f"{name} has stopped at the event {result.expected}, a dead letter of {projection.name}."
        remedy = "Later events are applied once it is retried or dropped: post them again then."
        return StreamStopped(f"{problem} {remedy}", stream=stream, expected=result.expected)
    problem = f"{name} needs the event {result.expected} next ({projection.name})."
    remedy = "Post it, and then the later ones again."
    return EventGap(f"{problem} {remedy}", stream=stream, expected=result.expected)
