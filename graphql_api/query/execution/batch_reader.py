"""Read the first pages of many searches that one plan covers, by one call of the store.

Most pages end with their first round: their search has no more rows, or more than the page holds. The other searches
continue as `read_page` does, from the answers that they have.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property, partial
from time import perf_counter
from typing import Any

from graphql_api.clock import Clock
from graphql_api.model import EntitySpec
from graphql_api.query import BatchPlan, SearchPlan, SearchRequest, TokenSeal
from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.query.execution.page_reader import MatchedRow, PageResult
from graphql_api.query.execution.read_rounds import read_in_rounds
from graphql_api.query.execution.result_page import Page, Shards
from graphql_api.runtime import IndexStatistics, current_statistics
from graphql_api.storage import (
    EncodedRecords,
    MergedPages,
    ReadResult,
    Row,
    RowPage,
    Store,
    StoredRows,
    pages_of_groups,
)

PlannedRead = Callable[[SearchPlan, Store], Coroutine[Any, Any, Page[Any]]]
"""Reads the page of a search that is planned alone"""


async def read_batch(
    store: Store, plan: BatchPlan, seal: TokenSeal, clock: Clock, read_alone: PlannedRead
) -> list[Page[Any] | BaseException]:
    """Return the page or the error of each search of a batch."""
    results: list[Any] = [None] * len(plan.batch)
    answers: dict[int, Any] = {}
    """of the searches that continue alone"""
    seconds = 0.0
    if plan.positions:
        started = perf_counter()
        try:
            found = await store.read_ranges(plan.reads, plan.reads.want)
        except Exception as problem:  # noqa: BLE001 - each search receives it
            answers = dict.fromkeys(plan.positions, problem)
        else:
            shared = _Batch(plan, seal, max(0.0, clock() - plan.now))
            for number, (at, pages) in enumerate(zip(plan.positions, pages_of_groups(plan.reads, found), strict=True)):
                results[at] = _page_of(shared, number, pages)
                if results[at] is None:
                    answers[at] = pages
        seconds = perf_counter() - started
    _count([page for page in results if page is not None], plan, seconds)
    alone = sorted({*answers, *plan.others})
    if alone:
        searches = [partial(_read_alone, plan, at, read_alone) for at in alone]
        first_answers = {number: answers[at] for number, at in enumerate(alone) if at in answers}
        calls = _index_statistics(plan).call_seconds
        begin = len(calls)
        for at, page in zip(alone, await read_in_rounds(store, searches, first_answers), strict=True):
            results[at] = page
        # Those that continue have measured how long they waited for an answer that was there.
        calls[begin : begin + len(answers)] = [seconds] * len(answers)
    return results


async def _read_alone(plan: BatchPlan, at: int, read_alone: PlannedRead, store: Store) -> Page[Any]:
    return await read_alone(plan.plan(at), store)


class _Batch:
    """What the pages of a batch have in common."""

    def __init__(self, plan: BatchPlan, seal: TokenSeal, seconds: float) -> None:
        self.plan = plan
        self.seal = seal
        self.seconds = seconds
        self.limit = plan.example.limit
        self.read_budget = plan.batch.common.read_budget
        self.entity = plan.example.entity
        self.has_full_records = plan.example.scans[0].row_view.is_full_record


def _page_of(batch: _Batch, number: int, pages: Sequence[ReadResult]) -> "BatchedPage | None":
    """Return the page that the answer to a search holds; None if the search needs another round."""
    if isinstance(pages, MergedPages):
        found: MergedPages | RowPage = pages
    elif len(pages) == 1 and isinstance(pages[0], RowPage):
        found = pages[0]
        # A record that moves while an engine reads may be in its page twice.
        if len({row.key for row in found.rows}) < len(found.rows):
            return None
    else:
        return None
    rows = found.rows
    if found.records_read >= batch.read_budget or (found.scanned_to is not None and len(rows) <= batch.limit):
        return None
    return BatchedPage(batch, number, rows, found.records_read)


def _index_statistics(plan: BatchPlan) -> IndexStatistics:
    return current_statistics().of_index(plan.frame.entity.declared_name, plan.example.scans[0].index.name)


def _count(pages: "Sequence[BatchedPage]", plan: BatchPlan, seconds: float) -> None:
    """Count the pages that one call has answered, as `read_page` does for each."""
    if not pages:
        return
    counts = _index_statistics(plan)  # A batch searches no union, whose name would be another one.
    counts.call_seconds += [seconds] * len(pages)
    found = [page.record_count for page in pages]
    counts.records_read += sum(page.records_read for page in pages)
    counts.shards_asked += sum(page.shards_read for page in pages)
    counts.add_reads("first_page", len(pages), empty=found.count(0), returned=sum(found))


class BatchedPage(Page[Any]):
    """The first page of a search that was read in a batch. The plan of its own is made on first use."""

    complete = True
    stopped_by = None
    has_previous = False

    def __init__(self, batch: _Batch, number: int, rows: Sequence[Row], records_read: int) -> None:
        self._batch, self._seal = batch, batch.seal
        self._number = number
        """its position among the reads"""
        self._rows = rows
        """those of the page, and at most one that proves a next page"""
        self.records_read = records_read
        self.has_next = len(rows) > batch.limit
        self.record_count = batch.limit if self.has_next else len(rows)

    @property
    def _at(self) -> int:
        return self._batch.plan.positions[self._number]

    @property
    def shards_read(self) -> int:
        """Return the number of shards that the search has read."""
        return len(self._batch.plan.reads.parts[self._number].keys)

    @cached_property
    def _plan(self) -> SearchPlan:
        return self._batch.plan.plan(self._at)

    @cached_property
    def _result(self) -> PageResult:
        plan, scan = self._plan, self._plan.scans[0]
        matches = [MatchedRow(row, scan) for row in self._rows[: plan.limit]]
        reached = matches[-1].cursor if self.has_next else plan.traversal.last_cursor
        progress = plan.traversal.progress_after({}, reached, plan.ordinals, ())
        cost = ReadCost(rounds=1, reads=self.shards_read, records_read=self.records_read, seconds=self._batch.seconds)
        scanned_per_match = self.records_read / max(1, len(matches))
        return PageResult(matches, progress, {}, cost, self.shards_read, scanned_per_match, None)

    @cached_property
    def request(self) -> SearchRequest:
        return self._batch.plan.batch.request(self._at)

    @property
    def shards(self) -> Shards:
        return Shards(self.shards_read, self.shards_read)

    @property
    def stored_bodies(self) -> EncodedRecords | None:
        if not self._batch.has_full_records:
            return None
        rows, count = self._rows, self.record_count
        return rows.bodies(count) if isinstance(rows, StoredRows) else Row.bodies(rows[:count])

    @property
    def entity(self) -> EntitySpec:
        return self._batch.entity

    @property
    def next_token(self) -> str | None:
        return self._continuation if self.has_next else None
