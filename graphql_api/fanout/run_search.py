"""Runs a plan: rounds of reads until one page is certain."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql_api.errors import StoreError
from graphql_api.fanout.merge import count_safe, frontier, is_behind, merged
from graphql_api.fanout.shard_stream import ShardStream
from graphql_api.search.how_much import next_limit
from graphql_api.search.plan import SearchPlan
from graphql_api.search.standing import Standing
from graphql_api.store.port import Store
from graphql_api.store.values import Position, RangeRead, Row, RowPage


@dataclass(slots=True)
class Work:
    """What a page really cost."""

    rounds: int = 0
    reads: int = 0
    records_read: int = 0
    fetched: int = 0

    def describe(self) -> dict[str, Any]:
        return {
            "rounds": self.rounds,
            "reads": self.reads,
            "recordsRead": self.records_read,
            "fetched": self.fetched,
        }


@dataclass(frozen=True, slots=True)
class Found:
    """One page in walking order, and where to go on."""

    rows: Sequence[Row]
    standing: Standing
    """where the shards stand behind these rows, whatever becomes of them"""
    failures: Mapping[int, StoreError]
    """by the shard's ordinal"""
    work: Work


async def run_search(store: Store, plan: SearchPlan, work: Work) -> Found:
    """The next `limit` rows of the whole answer; one more is looked for, to know whether there is a next page."""
    wanted = plan.limit + 1
    begun = work.rounds
    streams = {read.ordinal: ShardStream(read, plan) for read in plan.reads}
    reads: Sequence[RangeRead] = plan.reads
    known: list[Row] = []
    safe = 0
    while reads:
        # An engine that stops at `want` must get on as fast as one that reads shard by shard.
        want = max(wanted - safe, sum(read.limit for read in reads) if work.rounds > begun else 0)
        await _round(store, streams, reads, want, plan, work)
        known = merged(streams.values(), descending=plan.descending)
        safe = count_safe(known, frontier(streams.values(), descending=plan.descending), descending=plan.descending)
        reads = () if safe >= wanted else _refills([*streams.values()], known, safe, work.rounds - begun, plan)
    rows = known[: min(safe, plan.limit)]
    failures = {stream.ordinal: stream.failure for stream in streams.values() if stream.failure is not None}
    if failures and len(failures) == len(streams):
        raise next(iter(failures.values()))
    last = plan.walk.goal if safe < wanted else plan.walk.place_of(_last_before(known, streams.values(), plan))
    return Found(rows, plan.walk.after(rows, last, plan.ordinals, failures), failures, work)


def _last_before(known: Sequence[Row], streams: Iterable[ShardStream], plan: SearchPlan) -> Position:
    """The last place that was looked at before the row which begins the next page, so that none is looked at again."""
    *_, last_row, next_row = known[: plan.limit + 1]
    last = last_row.position
    for stream in streams:
        for place in reversed(stream.expired):
            if is_behind(next_row, place, descending=plan.descending):
                last = place if is_behind(place, last, descending=plan.descending) else last
                break
    return last


async def _round(
    store: Store,
    streams: Mapping[int, ShardStream],
    reads: Sequence[RangeRead],
    want: int,
    plan: SearchPlan,
    work: Work,
) -> None:
    answers = await store.read_ranges(reads, want)
    work.rounds += 1
    work.reads += len(reads)
    for read, answer in zip(reads, answers, strict=True):
        if isinstance(answer, RowPage):
            streams[read.ordinal].take(answer)
            work.records_read += answer.records_read
        elif plan.partial:
            streams[read.ordinal].fail(answer)
        else:
            raise answer


def _refills(
    streams: Sequence[ShardStream], known: Sequence[Row], safe: int, refill: int, plan: SearchPlan
) -> tuple[RangeRead, ...]:
    """Asks every shard that may still hide a row of this page, each for its part of what is missing."""
    wanted = plan.limit + 1
    last_row = known[wanted - 1] if len(known) >= wanted else None
    certain, likely = (Counter(row.ordinal for row in known[:end]) for end in (safe, wanted))
    refills = []
    for stream in streams:
        if stream.scanned_to is None:
            continue
        if last_row is not None and not is_behind(last_row, stream.scanned_to, descending=plan.descending):
            continue
        share = max(
            certain[stream.ordinal] / safe if certain[stream.ordinal] else 1 / len(streams),
            likely[stream.ordinal] / min(wanted, len(known)) if known else 0,
        )
        refills.append(stream.ask_on(next_limit(wanted - safe, share, stream.last_limit, refill)))
    return tuple(refills)
