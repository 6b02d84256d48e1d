"""The law of filters on DynamoDB Local, which evaluates parts of a filter itself; each definition has its own table."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.storage.engines.dynamodb import DynamoStore
from tests.laws.filter_strategies import Case, draw_case
from tests.laws.search_catalogs import FEW, NOW, new_tenant, seen
from tests.laws.test_search import SEAL, no_index_lag, run_in_batches
from tests.laws.test_search_dynamodb import table_without_ttl
from tests.laws.test_search_filters import OPERATIONS, check_changes, check_pages
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import examples

CLASSES = [
    *(f"test {operation}" for operation in OPERATIONS),
    *("filter in the engine", "records fetched", "duplicate in a later index", "stopped by the budget", "raw member"),
]


@dataclass
class DynamoDBTables:
    """DynamoDB Local on its own event loop, with one table for each drawn table definition."""

    runner: asyncio.Runner
    server: Server
    stores: dict[str, DynamoStore]

    def database(self, case: Case) -> Database:
        definition = table_without_ttl(case.drawn.catalog)
        store = self.stores.get(repr(definition))
        if store is None:
            opening = self.server.open(f"filters-{uuid4().hex}")
            store = self.stores[repr(definition)] = self.runner.run(opening)
            self.runner.run(store.ensure_table(definition))
        return Database(case.drawn.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant())


@pytest.fixture
def tables(dynamodb: Server) -> Iterator[DynamoDBTables]:
    """DynamoDB Local, with tables for one law."""
    with asyncio.Runner() as runner:
        opened = DynamoDBTables(runner, dynamodb, {})
        yield opened
        for store in opened.stores.values():
            runner.run(store.close())


def test_every_filtered_page_is_a_slice_of_the_reference_result(
    tables: DynamoDBTables, request: pytest.FixtureRequest
) -> None:
    """With predicate pushdown and any read budget, no record is lost or repeated."""

    @examples(8, deep=250)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, FEW)
        tables.runner.run(check_pages(data, tables.database(case), no_index_lag, case))

    seen.clear()
    run_in_batches(law, request, CLASSES)


def test_changes_between_filtered_pages_do_not_affect_other_records(
    tables: DynamoDBTables, request: pytest.FixtureRequest
) -> None:
    """While records are inserted, deleted or moved, every other record is returned once, on any page at most once."""

    @examples(5, deep=150)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, FEW)
        if not any(part.raw for part in case.search.parts):  # the order of ties differs between tenants
            tables.runner.run(check_changes(data, tables.database(case), no_index_lag, case))

    run_in_batches(law, request)
