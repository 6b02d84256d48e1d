"""The law of prices on DynamoDB Local, by the capacity units that it reports."""

from itertools import cycle
from typing import Any

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st

from graphql_api import Catalog, Entity, Id, Index, Shards
from graphql_api.database import Database
from graphql_api.query import ReadStatistics
from graphql_api.query.execution import estimate_search
from graphql_api.runtime.request_statistics import meter_capacity
from graphql_api.storage.capacity_units import index_entry
from graphql_api.storage.item_rules import record_size
from graphql_api.writes import encode_id, to_item
from tests.laws.filter_strategies import draw_case
from tests.laws.search_catalogs import FEW, new_tenant, seen
from tests.laws.test_price import CLASSES, check_prices
from tests.laws.test_search import SEAL, no_index_lag, run_in_batches
from tests.laws.test_search_dynamodb import DynamoDBLocal, dynamodb_local
from tests.laws.test_search_filters_dynamodb import DynamoDBTables, tables
from tests.support.run_depth import examples, is_deep

__all__ = ["dynamodb_local", "tables"]

DEEP_SEARCHES = 10_000


def test_charges_lie_within_estimates_and_ceilings(tables: DynamoDBTables, request: pytest.FixtureRequest) -> None:
    """Each charge is within its estimate; pages under a ceiling join to the same result, and never pass it."""

    @examples(6, deep=370)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, FEW)
        tables.runner.run(check_prices(data, tables.database(case), no_index_lag, case))

    seen.clear()
    run_in_batches(law, request, CLASSES)
    assert seen["searches"] >= (DEEP_SEARCHES if is_deep() else 20)


# --- the expected charge ---------------------------------------------------------------------------------------

COUNTS = [0, 1, 2, 3, 5, 9, 20, 33]
PLACES = 10**12
"""places of rows in the order of an index"""


class Sheet(Entity, shards=Shards(4)):
    """A record of known size in a known shard."""

    sheet_id: Id[str]
    place: str
    kind: str = "k"
    text: str

    by_place = Index(sort="place")
    by_kind = Index(hash="kind", sort="place", projection="KEYS_ONLY")


CATALOG = Catalog(Sheet)
SHEETS = CATALOG.entity(Sheet)
TABLE = CATALOG.table_definition()
SHARDS = cycle(
    [(id, SHEETS.space.ordinal(encode_id(SHEETS, [id]), 0) - 1) for id in (f"{number:05}" for number in range(2_000))]
)


def sheets(counts: list[int], text: str) -> list[Sheet]:
    """Returns records with this number in each shard, evenly mixed in the order of their places."""
    places = [
        [(at + (shard + 0.618) / (len(counts) + 0.37)) / count * PLACES for at in range(count)]
        for shard, count in enumerate(counts)
    ]
    found: list[Sheet] = []
    while any(places):
        id, shard = next(SHARDS)
        if places[shard]:
            found.append(Sheet(sheet_id=id, place=f"{int(places[shard].pop()):012}", text=text))
    return found


def test_the_charge_is_as_expected(dynamodb_local: DynamoDBLocal) -> None:
    """Where the sizes of records and the matches of each shard are given, a page charges what is expected."""
    run, store = dynamodb_local.runner.run, dynamodb_local.store
    run(store.ensure_table(TABLE))
    charges = set[float]()

    @examples(12, deep=300)
    @given(
        counts=st.lists(st.sampled_from(COUNTS), min_size=4, max_size=4),
        size=st.sampled_from([1, 300, 1_500, 5_000]),
        index=st.sampled_from(["by_place", "by_kind"]),
        limit=st.sampled_from([1, 4, 20, 50]),
        reverse=st.booleans(),
        selects_keys=st.booleans(),
    )
    @example(counts=[0, 0, 0, 20], size=5_000, index="by_place", limit=20, reverse=True, selects_keys=False)
    @example(counts=[0, 0, 3, 33], size=1_500, index="by_place", limit=1, reverse=True, selects_keys=True)
    def law(counts: list[int], size: int, index: str, **options: Any) -> None:
        db = Database(CATALOG, store, SEAL, tenant=new_tenant())
        charges.add(run(_check_expected(db, counts, "t" * size, index, **options)))

    law()
    assert len(charges) > 3


async def _check_expected(
    db: Database, counts: list[int], text: str, index: str, *, limit: int, reverse: bool, selects_keys: bool
) -> float:
    """Asserts that a page charges what is expected, and returns the charge."""
    records = sheets(counts, text)
    assert await db.put_many(records) == [None] * len(records)
    arguments = {"kind": "k"} if index == "by_kind" else {}
    select = ["sheet_id"] if selects_keys else None
    with meter_capacity() as meter:
        page = await db.search(getattr(Sheet, index), **arguments, limit=limit, reverse=reverse, select=select)
    item = to_item(SHEETS, Sheet(sheet_id="00000", place="0" * 12, text=text), db.tenant, "w" * 16)
    definition = next(one for one in TABLE.indexes if one.name == SHEETS.indexes[index].physical)
    row = index_entry(TABLE, definition, item)
    assert row is not None
    statistics = ReadStatistics(record_size(item), record_size(row), counts)
    note(f"{page.explain['read']}")
    assert meter.units == estimate_search(page._plan, statistics).expected
    return meter.units
