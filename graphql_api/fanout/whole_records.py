"""From rows to whole records: what an index does not carry is fetched by key, in one batch for the page."""

from collections.abc import Sequence
from dataclasses import replace

from graphql_api.catalog.items import has_expired
from graphql_api.fanout.run_search import Found, Work, run_search
from graphql_api.search.plan import SearchPlan
from graphql_api.search.planner import go_on
from graphql_api.search.standing import Standing
from graphql_api.store.port import Store
from graphql_api.store.values import Item, Row


async def find_page(store: Store, plan: SearchPlan) -> Found:
    """A page of whole records.

    One that expired, was deleted or has moved since its index entry was made is not where it was found; the page is
    filled up with those behind it.
    """
    work = Work()
    if plan.index.projection == "ALL":
        return await run_search(store, plan, work)
    walk, rows, standing = plan.walk, list[Row](), plan.walk.begins
    while True:
        # One record more than the page has: only a whole one proves that there is a next page.
        found = await run_search(store, go_on(plan, standing, plan.limit + 1 - len(rows)), work)
        rows += await _whole(store, plan, found.rows, work)
        standing = found.standing
        if len(rows) > plan.limit:
            del rows[plan.limit :]
            standing = walk.after(rows, walk.place_of(rows[-1].position), plan.ordinals, found.failures)
            return replace(found, rows=rows, standing=standing)
        if found.failures or standing == Standing(walk.goal):
            return replace(found, rows=rows)


async def _whole(store: Store, plan: SearchPlan, rows: Sequence[Row], work: Work) -> list[Row]:
    items = await store.get_many([row.key for row in rows], consistent=False) if rows else ()
    work.fetched += len(rows)
    hash_keys = {read.ordinal: read.hash_key for read in plan.whole}
    index = plan.index
    return [
        Row(row.value, row.ordinal, row.key, item, _as_it_is)
        for row, item in zip(rows, items, strict=True)
        if item is not None
        and item.get(index.hash_attribute) == hash_keys[row.ordinal]
        and item.get(index.range_attribute) == row.value
        and not has_expired(plan.entity, item, plan.now)
    ]


def _as_it_is(item: Item) -> Item:
    return item
