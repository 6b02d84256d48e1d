"""From rows to whole records: what an index does not carry is fetched by key, in one batch for the page."""

from collections.abc import Sequence
from dataclasses import replace

from graphql_api.catalog.items import has_expired
from graphql_api.fanout.run_search import Found
from graphql_api.search.plan import SearchPlan
from graphql_api.store.port import Store
from graphql_api.store.values import Item, Row


async def with_whole_records(store: Store, plan: SearchPlan, found: Found) -> Found:
    """The page with all properties of its records.

    A record that was deleted or has moved since its index entry was made is left out: it is no longer there.
    """
    if plan.index.projection == "ALL" or not found.rows:
        return found
    items = await store.get_many([row.key for row in found.rows], consistent=False)
    return replace(found, rows=_still_there(plan, found.rows, items))


def _still_there(plan: SearchPlan, rows: Sequence[Row], items: Sequence[Item | None]) -> Sequence[Row]:
    attribute = plan.index.range_attribute
    return [
        Row(row.value, row.ordinal, row.key, item, _as_it_is)
        for row, item in zip(rows, items, strict=True)
        if item is not None and item.get(attribute) == row.value and not has_expired(plan.entity, item, plan.now)
    ]


def _as_it_is(item: Item) -> Item:
    return item
