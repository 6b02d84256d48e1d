"""The laws of search on AWS's own engine, DynamoDB Local: a tenant and so new keys for every case."""

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
from tests.depth import examples
from tests.dynamodb_local import Server
from tests.laws.search_world import NOW, Case, draw_case, new_tenant
from tests.laws.test_search import SEAL, check_changes, check_walks, in_batches


@dataclass
class Local:
    """The engine on an event loop of its own."""

    runner: asyncio.Runner
    store: DynamoStore

    def database(self, case: Case) -> Database:
        self.runner.run(self.store.ensure_table(lasting(case.world.catalog)))
        return Database(case.world.catalog, self.store, SEAL, clock=lambda: NOW, tenant=new_tenant())


@pytest.fixture
def local(dynamodb: Server) -> Iterator[Local]:
    """The engine, with a table of its own."""
    with asyncio.Runner() as runner:
        store = runner.run(dynamodb.open("laws"))
        yield Local(runner, store)
        runner.run(store.close())


def lasting(catalog: Catalog) -> TableDefinition:
    """The catalog's table, of which nothing is removed: the engine would go by the present time, and cases do not."""
    return replace(catalog.table_definition(), ttl_attribute=None)


async def settled() -> None:
    """Its indexes are never behind."""


def test_every_walk_is_a_slice_of_the_sorted_answer(local: Local, request: pytest.FixtureRequest) -> None:
    """From any cursor, either way, with any page size, a page is exactly that slice of the naive answer."""

    @examples(14, deep=500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, few=True)
        local.runner.run(check_walks(data, local.database(case), settled, case))

    in_batches(law, request)


def test_changes_during_a_walk_never_touch_other_records(local: Local, request: pytest.FixtureRequest) -> None:
    """Whatever is inserted, deleted or moved, and however shards grow, every untouched record comes once, in order."""

    @examples(12, deep=500)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, few=True)
        # The order of ties differs from tenant to tenant: a case could not be drawn again.
        assume(not case.search.raw)
        local.runner.run(check_changes(data, local.database(case), settled, case))

    in_batches(law, request)
