"""The last pages of a large result cost as much as its first pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.schema.graphql_client import GraphQLClient, client_for, open_database
from tests.schema.people_catalog import people_catalog, sample_people
from tests.support.run_depth import depth
from tests.support.store_doubles import Counts, IndependentReadsStore

SHARDS = 150
SIZE = 20
PAGES = 10


@pytest.mark.parametrize(
    ("engine", "most_records", "most_calls"),
    [
        pytest.param(IndependentReadsStore, 2 * SIZE + 3 * SHARDS, 1.1 * SHARDS, id="shard by shard"),
        pytest.param(lambda store: store, SIZE + 2, SHARDS, id="one scan"),
    ],
)
async def test_last_pages_cost_as_much_as_first_pages(
    tmp_path: Path, engine: Callable[[Store], Store], most_records: int, most_calls: float
) -> None:
    """`last: 20` over 150 shards, and each earlier page, reads on average at most 490 records in 165 reads."""
    catalog, person = people_catalog(SHARDS)
    count = depth(5_000, 100_000)
    people = sample_people(person, count)
    async with open_database(catalog, await open_sqlite(tmp_path / "x.db"), *people) as db:
        wrapped = type(db)(db.catalog, engine(db.store), db.seal, db.clock)
        client = client_for(wrapped)
        expected = sorted(people, key=lambda one: (one.folded, -one.created, one.person_id))
        costs: list[Counts] = []
        collected: list[str] = []
        before: str | None = None
        for _ in range(PAGES):
            client.reset_counts()
            page = await _page(client, before)
            costs.append(client.counts)
            collected = [item["personId"] for item in page["items"]] + collected
            before = page["pageInfo"]["startCursor"]
            assert page["pageInfo"]["hasPreviousPage"]
        assert collected == [one.person_id for one in expected[-SIZE * PAGES :]]
        assert _mean(costs, "records_read") <= most_records
        assert _mean(costs, "reads") <= most_calls
        assert max(cost.rounds for cost in costs) <= 4
        assert {(cost.scans, cost.gets) for cost in costs} == {(0, 0)}


async def _page(client: GraphQLClient, before: str | None) -> dict[str, Any]:
    data: dict[str, Any] = (
        await client.data(
            f"query ($t: String) {{ page: personByFolded(last: {SIZE}, before: $t) "
            "{ items { personId } pageInfo { startCursor hasPreviousPage } } }",
            {"t": before},
        )
    )["page"]
    return data


def _mean(costs: list[Counts], name: str) -> float:
    return float(sum(vars(cost)[name] for cost in costs)) / len(costs)
