"""Runs a plan against one index: rounds of reads until so many rows are certain, or the budget ends."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphql_api.errors import StoreError
from graphql_api.fanout.merge import count_safe, frontier, is_behind, merged
from graphql_api.fanout.shard_stream import ShardStream
from graphql_api.search.how_much import next_limit
from graphql_api.search.plan import Member, SearchPlan
from graphql_api.search.standing import Standing
from graphql_api.store.bill import Bill
from graphql_api.store.port import Store
from graphql_api.store.values import Position, RangeRead, Row, RowPage


@dataclass(slots=True)
class Work:
    """What a page really cost."""

    rounds: int = 0
    reads: int = 0
    records_read: int = 0
    fetched: int = 0
    seconds: float = 0.0
    bill: Bill | None = None
    """in capacity units, where somebody asked for it"""

    def took(self, seconds: float, bill: Bill | None) -> None:
        """Notes the time and the capacity of all of it; a clock that was set back counts for none."""
        self.seconds, self.bill = max(0.0, seconds), bill

    def describe(self) -> dict[str, Any]:
        """The cost in numbers, as explain shows it."""
        told = {
            "rounds": self.rounds,
            "reads": self.reads,
            "recordsRead": self.records_read,
            "fetched": self.fetched,
            "milliseconds": round(self.seconds * 1000, 1),
        }
        if self.bill is not None and self.bill.units is not None:
            told |= {"capacityUnits": self.bill.units, "estimated": self.bill.estimated}
        return told


@dataclass(frozen=True, slots=True)
class Found:
    """The next rows of one index in walking order, and how far they go."""

    rows: Sequence[Row]
    passed: Sequence[Position]
    """places of rows that were looked at and do not count"""
    edge: Position | None
    """up to here everything is known; None: to the end of the index"""
    failures: Mapping[int, StoreError]
    """of shards that were asked, by ordinal"""
    asked: int
    """shards"""


async def run_search(
    store: Store,
    plan: SearchPlan,
    member: Member,
    standing: Standing,
    wanted: int,
    work: Work,
    without: Collection[int] = (),
    enough: int | None = None,
) -> Found:
    """The next `wanted` rows of an index behind where its shards stand, fewer at its end or the budget's.

    Where `enough` is given, so many are enough as well, if more take another round.
    The budget is looked at only after a whole round, in which every shard got beyond its place: each page gets on.
    """
    begun = work.rounds
    reads = _within(plan.reads_of(member, standing, wanted - 1, without), plan.budget - work.records_read)
    streams = {read.ordinal: ShardStream(read, plan, member) for read in reads}
    known: list[Row] = []
    safe, scanned = 0, work.records_read
    edge: Position | None = None
    while reads:
        # An engine that stops at `want` must get on as fast as one that reads shard by shard.
        asked = sum(read.limit for read in reads)
        want = asked if work.rounds > begun else (wanted - safe) << (0 if member.late else plan.hint)
        left = max(1, plan.budget - work.records_read)
        await _round(store, streams, reads, min(left, max(want, wanted - safe)), plan, work)
        known = merged(streams.values(), descending=plan.descending)
        edge = frontier(streams.values(), descending=plan.descending)
        safe = count_safe(known, edge, descending=plan.descending)
        if safe >= (enough or wanted) or work.records_read >= plan.budget:
            break
        scale = _scale(work.records_read - scanned, len(known), plan)
        reads = _refills([*streams.values()], known, safe, wanted, work.rounds - begun, scale, plan)
        reads = _within(reads, plan.budget - work.records_read)
    failures = {stream.ordinal: stream.failure for stream in streams.values() if stream.failure is not None}
    passed = [place for stream in streams.values() for place in stream.passed]
    return Found(known[: min(safe, wanted)], passed, edge, failures, len(streams))


def _scale(scanned: int, matches: int, plan: SearchPlan) -> float:
    """About how many records have to be looked at for each that counts."""
    if plan.filter is None and len(plan.members) == 1:
        return 1
    return max(1, scanned / matches if matches else 2 * scanned)


def _within(reads: Sequence[RangeRead], left: int) -> Sequence[RangeRead]:
    """As much of each read as is left of the budget, and at least one record of each."""
    asked = sum(read.limit for read in reads)
    if asked <= left:
        return reads
    return tuple(replace(read, limit=max(1, read.limit * left // asked)) for read in reads)


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
    streams: Sequence[ShardStream],
    known: Sequence[Row],
    safe: int,
    wanted: int,
    refill: int,
    scale: float,
    plan: SearchPlan,
) -> tuple[RangeRead, ...]:
    """Asks every shard that may still hide a row of this page, each for its part of what is missing."""
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
        refills.append(stream.ask_on(next_limit(wanted - safe, share, stream.last_limit, refill, scale)))
    return tuple(refills)
