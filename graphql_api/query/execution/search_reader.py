"""Searches of one tenant and principal: their plans, pages and counts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from graphql_api.clock import Clock
from graphql_api.errors import QueryTooCostly, ShardQLError
from graphql_api.model import Catalog
from graphql_api.query import (
    BatchPlan,
    SearchBatch,
    SearchFrame,
    SearchPlan,
    SearchRequest,
    TokenSeal,
    plan_batch,
    plan_search,
)
from graphql_api.query.execution.batch_reader import read_batch
from graphql_api.query.execution.page_reader import read_page
from graphql_api.query.execution.read_rounds import Search, read_in_rounds
from graphql_api.query.execution.record_count import Count, count_records
from graphql_api.query.execution.result_page import Page
from graphql_api.query.execution.search_estimate import estimate_search
from graphql_api.runtime import CapacityCeiling, current_meter, meter_part
from graphql_api.storage import Store, UnitEstimate


@contextmanager
def pricing(ceiling: CapacityCeiling | None, estimate: Callable[[], UnitEstimate]) -> Iterator[None]:
    """Add the estimate to the error of an operation that the ceiling refuses."""
    try:
        yield
    except QueryTooCostly as problem:
        if ceiling is not None and problem.estimate is None:
            problem.estimate = estimate().describe()
        raise


@dataclass(frozen=True, slots=True)
class SearchReader:
    """Plans searches, and reads their pages and counts."""

    store: Store
    seal: TokenSeal
    clock: Clock
    tenant: str | None
    principal: str | None
    ceiling: CapacityCeiling | None

    def plan(self, request: SearchRequest, catalog: Catalog) -> SearchPlan:
        """Plan one page of a search."""
        return plan_search(catalog, self._owned(request), self.clock(), self.seal)

    async def page(self, request: SearchRequest, catalog: Catalog) -> Page[Any]:
        """Read one page of a search."""
        return await self._planned_page(self.plan(request, catalog), self.store)

    async def count(self, plan: SearchPlan) -> Count:
        """Count the records of all pages of a search."""
        with meter_part() as meter, pricing(self.ceiling, lambda: estimate_search(plan)):
            count = await count_records(self.store, plan, self.ceiling)
        count.cost.record(self.clock() - plan.now, meter)
        return count

    async def pages(
        self, batches: Sequence[Sequence[SearchRequest]], catalog: Catalog
    ) -> list[list[Page[Any] | BaseException]]:
        """Return the page or the error of each search. What all of them read at the same time is one call."""
        searches = [self._searches(catalog, batch) for batch in batches]
        found = iter(await read_in_rounds(self.store, [*chain.from_iterable(searches)]))
        results: list[list[Page[Any] | BaseException]] = []
        for batch, own in zip(batches, searches, strict=True):
            pages = [*islice(found, len(own))]
            if len(pages) == len(batch):
                results.append(pages)
            else:  # One search reads all pages.
                results.append([*pages[0]] if isinstance(pages[0], list) else pages * len(batch))
        return results

    def _searches(self, catalog: Catalog, batch: Sequence[SearchRequest]) -> list[Search[Any]]:
        """Return the searches of a batch: one for all of its pages if one plan suffices, otherwise one for each."""
        now = self.clock()
        if isinstance(batch, SearchBatch) and len(batch) > 1:
            plan = self._batch_plan(catalog, batch.owned_by(self.tenant, self.principal), now)
            if plan is not None:
                return [lambda store: read_batch(store, plan, self.seal, self.clock, self._planned_page)]
        return [partial(self._page_of, plan_one) for plan_one in self._planners(catalog, batch, now)]

    def _batch_plan(self, catalog: Catalog, batch: SearchBatch, now: float) -> BatchPlan | None:
        with suppress(ShardQLError):
            return plan_batch(SearchFrame.of(catalog, batch.common), batch, now, self.seal)
        return None

    def _planners(
        self, catalog: Catalog, requests: Sequence[SearchRequest], now: float
    ) -> Iterator[Callable[[], SearchPlan]]:
        """Yield a function that plans each request. Requests that differ only in arguments share their frame."""
        frame = None
        for owned in map(self._owned, requests):
            if frame is None or not frame.fits(owned):
                try:
                    frame = SearchFrame.of(catalog, owned)
                except Exception:  # noqa: BLE001 - its own search raises it
                    yield partial(plan_search, catalog, owned, now, self.seal)
                    continue
            yield partial(frame.plan, owned, now, self.seal)

    async def _page_of(self, plan: Callable[[], SearchPlan], store: Store) -> Page[Any]:
        return await self._planned_page(plan(), store)

    async def _planned_page(self, plan: SearchPlan, store: Store) -> Page[Any]:
        meter = None
        if self.ceiling is None and current_meter() is None:
            result = await read_page(store, plan)
        else:
            with meter_part() as meter, pricing(self.ceiling, lambda: estimate_search(plan)):
                result = await read_page(store, plan, self.ceiling)
        result.cost.record(self.clock() - plan.now, meter)
        return Page(plan, result, self.seal)

    def _owned(self, request: SearchRequest) -> SearchRequest:
        if request.tenant == self.tenant and request.principal == self.principal:
            return request
        return replace(request, tenant=self.tenant, principal=self.principal)
