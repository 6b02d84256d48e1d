"""Count the records of a search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql_api.query import SearchPlan
from graphql_api.query.execution.index_scanner import ReadCost
from graphql_api.query.execution.page_reader import PageReader
from graphql_api.query.execution.search_estimate import explain_search
from graphql_api.runtime import CapacityCeiling
from graphql_api.storage import Store


@dataclass(frozen=True, slots=True)
class Count:
    """The number of records of a search; a lower bound if it is not exact."""

    value: int
    exact: bool
    plan: SearchPlan = field(repr=False, compare=False)
    cost: ReadCost = field(repr=False, compare=False)

    @property
    def explain(self) -> Mapping[str, Any]:
        """Return the plan and the actual cost of counting."""
        return self.cost.explain(explain_search(self.plan), 0)


async def count_records(store: Store, plan: SearchPlan, ceiling: CapacityCeiling | None = None) -> Count:
    """Count the records of a search, up to the limit of the plan."""
    reader = PageReader(store, plan, ceiling)
    await reader.read(plan.limit + 1)
    complete = len(reader.matches) <= plan.limit and not reader.budget_spent and not reader.failures
    reader.statistics.shards_asked += reader.shards_read
    reader.statistics.add_read("count", is_empty=complete and not reader.matches)
    return Count(min(len(reader.matches), plan.limit), complete, plan, reader.cost)
