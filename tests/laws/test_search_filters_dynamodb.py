"""The law of filters on AWS's own engine, DynamoDB Local, which tests a part of them itself: a table for every case."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.storage.engines.dynamodb import DynamoStore
from tests.depth import examples
from tests.dynamodb_local import Server
from tests.laws.filter_cases import Case, draw_case
from tests.laws.search_world import FEW, NOW, new_tenant, seen
from tests.laws.test_search import SEAL, in_batches
from tests.laws.test_search_dynamodb import lasting, settled
from tests.laws.test_search_filters import OPERATIONS, check_changes, check_walks

CLASSES = [
    *(f"test {operation}" for operation in OPERATIONS),
    *("filter in the engine", "records fetched", "left out of a later index", "stopped by the budget", "raw member"),
]


@dataclass
class Tables:
    """The engine on an event loop of its own, with a table for every physical layout that was drawn."""

    runner: asyncio.Runner
    server: Server
    stores: dict[str, DynamoStore]

    def database(self, case: Case) -> Database:
        definition = lasting(case.world.catalog)
        store = self.stores.get(repr(definition))
        if store is None:
            opening = self.server.open(f"filters-{uuid4().hex}")
            store = self.stores[repr(definition)] = self.runner.run(opening)
            self.runner.run(store.ensure_table(definition))
        return Database(case.world.catalog, store, SEAL, clock=lambda: NOW, tenant=new_tenant())


@pytest.fixture
def tables(dynamodb: Server) -> Iterator[Tables]:
    """The engine, with tables for one law."""
    with asyncio.Runner() as runner:
        made = Tables(runner, dynamodb, {})
        yield made
        for store in made.stores.values():
            runner.run(store.close())


def test_every_walk_with_a_filter_is_a_slice_of_the_naive_answer(
    tables: Tables, request: pytest.FixtureRequest
) -> None:
    """Whatever the engine tests of a filter by itself: no record is lost or repeated, however small the budget."""

    @examples(8, deep=250)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, FEW)
        tables.runner.run(check_walks(data, tables.database(case), settled, case))

    seen.clear()
    in_batches(law, request, CLASSES)


def test_changes_during_a_filtered_walk_never_touch_other_records(
    tables: Tables, request: pytest.FixtureRequest
) -> None:
    """Whatever is inserted, deleted or moved, untouched records come once, in order, and no page has one twice."""

    @examples(5, deep=150)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = draw_case(data, FEW)
        if not any(part.raw for part in case.search.parts):  # the order of ties differs from tenant to tenant
            tables.runner.run(check_changes(data, tables.database(case), settled, case))

    in_batches(law, request)
