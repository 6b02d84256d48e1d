"""A page of an answer: index by index, rows that count, whole records where more is needed than an index carries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Literal

from graphql_api.errors import StoreError, TooManyToSort
from graphql_api.model import SortProperty, has_expired
from graphql_api.query import MAX_FETCHED, Member, Place, SearchPlan, Standing, Tries, value_reader
from graphql_api.query.execution.index_scan import Found, IndexReading, Work
from graphql_api.storage import Item, Row, Store


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that counts, and where in the answer it stands."""

    row: Row
    member: Member

    @property
    def place(self) -> Place:
        return self.member.place_of(self.row.position)


@dataclass(slots=True)
class PageFound:
    """One page in walking order, and where to go on."""

    hits: list[Hit]
    standing: Standing
    """where the shards stand behind these rows, whatever becomes of them"""
    failures: Mapping[int, StoreError]
    """by the shard's ordinal"""
    work: Work
    asked: int
    """shards"""
    looked_at_for_each: float
    """records that a filter was tested on for each that it let through"""
    stopped_by: Literal["BUDGET", "SHARDS"] | None
    """why the page is shorter than asked for, when it is not the last"""


async def find_page(store: Store, plan: SearchPlan) -> PageFound:
    """The next page of whole records.

    A record that expired, was deleted or has moved since its index entry was made is not where it was found; the page
    is filled up with those behind it. One record more than the page has is looked for: it alone proves a next page.
    """
    finder = _Finder(store, plan)
    await finder.run(plan.limit + 1)
    return finder.page() if plan.order_by is None else finder.sorted(plan.order_by)


@dataclass(frozen=True, slots=True)
class Count:
    """How many records an answer has; at least so many, if it is not exact."""

    value: int
    exact: bool
    plan: SearchPlan = field(repr=False, compare=False)
    work: Work = field(repr=False, compare=False)

    @property
    def explain(self) -> Mapping[str, Any]:
        """The plan, and what counting really cost."""
        return {**self.plan.describe(), "read": {**self.work.describe(), "returned": 0}}


async def count_records(store: Store, plan: SearchPlan) -> Count:
    """Counts the records of an answer, up to the plan's limit."""
    finder = _Finder(store, plan)
    await finder.run(plan.limit + 1)
    complete = len(finder.hits) <= plan.limit and not finder.budget_ended and not finder.failures
    return Count(min(len(finder.hits), plan.limit), complete, plan, finder.work)


@dataclass(slots=True)
class _Finder:
    """A walk through the indexes of a search until there are enough records, or the budget ends."""

    store: Store
    plan: SearchPlan
    work: Work = field(default_factory=Work)
    hits: list[Hit] = field(default_factory=list)
    passed: Place | None = None
    """the last place before the record that begins the next page, of those that were looked at and do not count"""
    reached: Place | None = None
    """everything up to here is known"""
    failures: dict[int, StoreError] = field(default_factory=dict)
    asked: int = 0
    """shards, of the index that asked most"""
    answered: bool = False
    """at least one shard did"""
    budget_ended: bool = False
    looked_at: int = 0
    """records that a filter was tested on until there were enough"""

    async def run(self, wanted: int) -> None:
        for number in self.plan.walk.members():
            await self._member(self.plan.members[number], wanted)
            if len(self.hits) >= wanted or self.budget_ended:
                return
            if self.work.records_read >= self.plan.budget and self.reached != self.plan.walk.goal:
                self.budget_ended = True
                return
        self.reached = self.plan.walk.goal

    async def _member(self, member: Member, wanted: int) -> None:
        plan, begun = self.plan, self.plan.walk.begin_of(member.number)
        reading = IndexReading(self.store, plan, member, self.work, self.failures)
        tries = Tries(plan.hint if member.late else 0)
        while True:
            needed = wanted - len(self.hits)
            count = tries.next_count(needed) if member.late else needed
            if member.fetches:
                count = min(count, MAX_FETCHED)
            before = self.work.records_read
            # Nobody knows how many rows are needed: a good part of them is fetched before another round is made.
            found = await reading.more(count, enough=ceil(count / 4) if member.late else None)
            self._note(found)
            kept = await self._whole(member, found.rows) if member.fetches else found.rows
            self._take(member, found, kept, begun, wanted)
            tries.took(len(found.rows), len(kept))
            self.looked_at += _rows_up_to(found.rows, kept[:needed]) if member.late else self.work.records_read - before
            full = len(found.rows) >= count
            last = found.rows[-1].position if full else found.edge
            self.reached = plan.walk.end_of(member.number) if last is None else member.place_of(last)
            if len(self.hits) >= wanted or (last is None and not full):
                return
            if self.work.records_read >= plan.budget and not reading.has_rows:
                self.budget_ended = True
                return
            begun = self.reached

    def _note(self, found: Found) -> None:
        self.failures |= found.failures
        self.asked = max(self.asked, found.asked)
        self.answered |= found.asked > len(found.failures)
        if found.failures and not self.answered:
            raise next(iter(found.failures.values()))

    def _take(self, member: Member, found: Found, kept: Sequence[Row], begun: Place, wanted: int) -> None:
        """Adds rows that count, and remembers the last place before the one that begins the next page."""
        if self.hits:
            there = {hit.row.key for hit in self.hits}
            kept = [row for row in kept if row.key not in there]  # A record that moved comes once on a page.
        self.hits += [Hit(row, member) for row in kept[: wanted - len(self.hits)]]
        if len(self.hits) < wanted:
            return
        walk, next_place = self.plan.walk, self.hits[-1].place
        self.passed = begun
        for position in (*found.passed, *(row.position for row in found.rows)):
            place = member.place_of(position)
            if walk.comes_before(place, next_place):
                self.passed = walk.further(place, self.passed)

    async def _whole(self, member: Member, rows: Sequence[Row]) -> list[Row]:
        """The records of these rows, without those that are not there any more."""
        items = await self.store.get_many([row.key for row in rows], consistent=False) if rows else ()
        self.work.fetched += len(rows)
        hash_keys = {read.ordinal: read.hash_key for read in member.whole}
        index = member.index
        return [
            Row(row.value, row.ordinal, row.key, item, _as_it_is)
            for row, item in zip(rows, items, strict=True)
            if item is not None
            and item.get(index.hash_attribute) == hash_keys[row.ordinal]
            and item.get(index.range_attribute) == row.value
            and self._counts(item)
        ]

    def _counts(self, item: Item) -> bool:
        plan = self.plan
        if has_expired(plan.entity, item, plan.now):
            return False
        return plan.filter is None or plan.filter.matches(value_reader(plan.entity, item))

    # --- the page ----------------------------------------------------------------------------------------------

    def page(self) -> PageFound:
        """What was found, cut to the size of a page."""
        plan, each = self.plan, self.looked_at / max(1, len(self.hits))
        if len(self.hits) > plan.limit:
            self.hits = self.hits[: plan.limit]
            last = self.hits[-1].place
            self.reached = last if self.passed is None else plan.walk.further(last, self.passed)
            self.budget_ended = False
        assert self.reached is not None, "a search has at least one index"
        standing = self._standing(self.reached)
        short = len(self.hits) < plan.limit and standing != Standing(plan.walk.goal)
        stopped_by: Literal["BUDGET", "SHARDS"] | None = None
        if short:
            stopped_by = "BUDGET" if self.budget_ended else "SHARDS"
        return PageFound(self.hits, standing, self.failures, self.work, self.asked, each, stopped_by)

    def sorted(self, order: SortProperty) -> PageFound:
        """Everything that was found as one page, in another order."""
        plan = self.plan
        if len(self.hits) > plan.limit or self.budget_ended:
            raise TooManyToSort(
                f"More than {plan.limit:,} records match, or more than {plan.budget:,} had to be looked at, and so "
                "many are not sorted at once: narrow the search, or take its pages in their own order."
            )

        def key(hit: Hit) -> tuple[bool, str]:
            value = self._value(hit, order)
            return value is not None, "" if value is None else order.property.column.encode(value)

        self.hits.sort(key=key, reverse=order.descending)
        return PageFound(self.hits, Standing(plan.walk.goal), {}, self.work, self.asked, 1, None)

    def _value(self, hit: Hit, order: SortProperty) -> Any:
        row = hit.row
        read = value_reader(self.plan.entity, row.item) if hit.member.fetches else hit.member.view.reader(row)
        return read(order.property)

    def _standing(self, last: Place) -> Standing:
        plan = self.plan
        return plan.walk.after(places_of(self.hits), last, plan.ordinals, self.failures)


def places_of(hits: Iterable[Hit]) -> dict[int, Place]:
    """For each shard the place of its last row."""
    return {hit.row.ordinal: hit.place for hit in hits}


def _rows_up_to(rows: Sequence[Row], kept: Sequence[Row]) -> int:
    """How many rows were looked at to find these of them; all, where none was found."""
    if not kept:
        return len(rows)
    return next(number for number, row in enumerate(rows, 1) if row.key == kept[-1].key)


def _as_it_is(item: Item) -> Any:
    return item
