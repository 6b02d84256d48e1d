"""The laws of search on DynamoDB Local; each case has its own tenant, and so its own keys."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphql_api import Catalog
from graphql_api.database import Database
from graphql_api.storage.engines.dynamodb import DynamoStore
from graphql_api.storage.values import TableDefinition
from tests.laws.search_catalogs import NOW, Case, draw_case, new_tenant
from tests.laws.test_search import SEAL, check_changes, check_pages, no_index_lag, run_in_batches
from tests.support.dynamodb_servers import Server
from tests.support.run_depth import examples


@dataclass
class DynamoDBLocal:
    """DynamoDB Local on its own event loop."""

    runner: asyncio.Runner
    store: DynamoStore

    def database(self, case: Case) -> Database:
        self.runner.run(self.store.ensure_table(table_without_ttl(case.drawn.catalog)))
        return Database(case.drawn.catalog, self.store, SEAL, clock=lambda: NOW, tenant=new_tenant())


@pytest.fixture
def dynamodb_local(dynamodb: Server) -> Iterator[DynamoDBLocal]:
    """DynamoDB Local with a new table."""
    with asyncio.Runner() as runner:
        store = runner.run(dynamodb.open("laws"))
        yield DynamoDBLocal(runner, store)
        runner.run(store.close())


def table_without_ttl(catalog: Catalog) -> TableDefinition:
    """Returns the table of the catalog without expiry: DynamoDB would use the real time, and the cases do not."""
    return replace(catalog.table_definition(), ttl_attribute=None)


def test_every_page_is_a_slice_of_the_sorted_result(
    dynamodb_local: DynamoDBLocal, request: pytest.FixtureRequest
) -> None:
    """From any cursor, in either direction and with any size, a page is exactly a slice of the reference result."""

    @examples(14, deep=500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, few=True)
        dynamodb_local.runner.run(check_pages(data, dynamodb_local.database(case), no_index_lag, case))

    run_in_batches(law, request)


def test_changes_between_pages_do_not_affect_other_records(
    dynamodb_local: DynamoDBLocal, request: pytest.FixtureRequest
) -> None:
    """While records are inserted, deleted or moved and shards added, every other record is returned once, in order."""

    @examples(12, deep=500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, few=True)
        # The order of ties differs between tenants, so Hypothesis could not replay the case.
        assume(not case.search.raw)
        dynamodb_local.runner.run(check_changes(data, dynamodb_local.database(case), no_index_lag, case))

    run_in_batches(law, request)
