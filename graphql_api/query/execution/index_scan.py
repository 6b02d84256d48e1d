"""Reads one index of a plan: rounds of reads until so many rows are certain, or the budget ends."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from graphql_api.errors import StoreError
from graphql_api.query import Member, SearchPlan, next_limit
from graphql_api.query.execution.shard_merge import count_safe, frontier, is_behind, merged
from graphql_api.query.execution.shard_stream import ShardStream
from graphql_api.runtime import Bill
from graphql_api.storage import Position, RangeRead, Row, RowPage, Store


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


class IndexReading:
    """The rows of one index behind where its shards stand, some at a time; what was read and not given yet is kept."""

    def __init__(
        self, store: Store, plan: SearchPlan, member: Member, work: Work, without: Collection[int] = ()
    ) -> None:
        self._store = store
        self._plan = plan
        self._member = member
        self._work = work
        self._without = without
        self._before = work.records_read
        self._begun = False
        self._streams: dict[int, ShardStream] = {}
        self._known: list[Row] = []
        self._safe = 0
        self._edge: Position | None = None
        self._given = 0

    @property
    def has_rows(self) -> bool:
        """Whether there are rows that can be given without a read."""
        return self._given < self._safe

    async def more(self, wanted: int, enough: int | None = None) -> Found:
        """The next `wanted` rows, fewer at the end of the index or the budget's.

        Where `enough` is given, so many are enough as well, if more take another round.
        The budget is looked at only after a whole round, in which every shard got beyond its place: each page gets on.
        """
        begin, goal = self._given, self._given + wanted
        rounds = 0
        while not self._is_enough(begin + (enough or wanted)):
            await self._round(goal, rounds)
            rounds += 1
        self._given = min(self._safe, goal)
        streams = self._streams.values()
        failures = {stream.ordinal: stream.failure for stream in streams if stream.failure is not None}
        passed = [place for stream in streams for place in stream.passed]
        return Found(self._known[begin : self._given], passed, self._edge, failures, len(streams))

    def _is_enough(self, rows: int) -> bool:
        ended = self._edge is None or self._work.records_read >= self._plan.budget
        return self._begun and (ended or self._safe >= rows)

    async def _round(self, goal: int, rounds: int) -> None:
        plan, work, needed = self._plan, self._work, goal - self._safe
        left = max(1, plan.budget - work.records_read)
        reads = _within(self._refills(goal, rounds) if self._begun else self._begin(goal), left)
        if not reads:
            return
        # An engine that stops at `want` must get on as fast as one that reads shard by shard.
        asked = sum(read.limit for read in reads)
        want = asked if rounds else needed << (0 if self._member.late else plan.hint)
        await self._read(reads, min(left, max(want, needed)))

    def _begin(self, goal: int) -> Sequence[RangeRead]:
        reads = self._plan.reads_of(self._member, self._plan.walk.begins, goal - 1, self._without)
        self._begun, self._streams = True, {read.ordinal: ShardStream(read, self._plan, self._member) for read in reads}
        return reads

    def _refills(self, goal: int, rounds: int) -> Sequence[RangeRead]:
        """Asks every shard that may still hide a row up to the goal, each for its part of what is missing."""
        known, safe, streams = self._known, self._safe, self._streams.values()
        scale = _scale(self._work.records_read - self._before, len(known), self._plan)
        last_row = known[goal - 1] if len(known) >= goal else None
        certain, likely = (Counter(row.ordinal for row in known[:end]) for end in (safe, goal))
        refills = []
        for stream in streams:
            if stream.scanned_to is None:
                continue
            if last_row is not None and not is_behind(last_row, stream.scanned_to, descending=self._plan.descending):
                continue
            share = max(
                certain[stream.ordinal] / safe if certain[stream.ordinal] else 1 / len(streams),
                likely[stream.ordinal] / min(goal, len(known)) if known else 0,
            )
            refills.append(stream.ask_on(next_limit(goal - safe, share, stream.last_limit, rounds, scale)))
        return refills

    async def _read(self, reads: Sequence[RangeRead], want: int) -> None:
        plan, work, streams = self._plan, self._work, self._streams
        answers = await self._store.read_ranges(reads, want)
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
        self._known = merged(streams.values(), descending=plan.descending)
        self._edge = frontier(streams.values(), descending=plan.descending)
        self._safe = count_safe(self._known, self._edge, descending=plan.descending)


def _scale(scanned: int, matches: int, plan: SearchPlan) -> float:
    """About how many records have to be looked at for each that counts."""
    if plan.filter is None and len(plan.members) == 1:
        return 1
    return max(1, scanned / matches if matches else 2 * scanned)


def _within(reads: Sequence[RangeRead], left: int) -> Sequence[RangeRead]:
    """Of each read its part of what is left of the budget, all of which is given away, and at least one record."""
    asked = sum(read.limit for read in reads)
    if asked <= left:
        return reads
    ends = [total * left // asked for total in accumulate((read.limit for read in reads), initial=0)]
    return [replace(read, limit=max(1, end - begin)) for read, (begin, end) in zip(reads, pairwise(ends), strict=True)]
