"""The end of a long answer costs what its beginning costs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.depth import depth
from tests.schema.asking import Asked, asking, opened
from tests.schema.people import people_catalog, some_people
from tests.stores import Counts, ReadByRead

SHARDS = 150
SIZE = 20
PAGES = 10


@pytest.mark.parametrize(
    ("engine", "most_records", "most_calls"),
    [
        pytest.param(ReadByRead, 2 * SIZE + 3 * SHARDS, 1.1 * SHARDS, id="shard by shard"),
        pytest.param(lambda store: store, SIZE + 2, SHARDS, id="one scan"),
    ],
)
async def test_the_last_twenty_of_many_cost_what_the_first_twenty_cost(
    tmp_path: Path, engine: Callable[[Store], Store], most_records: int, most_calls: float
) -> None:
    """`last: 20` over 150 shards, and each page before it: at most 2·20 + 3·150 records, 165 calls and 4 rounds."""
    catalog, person = people_catalog(SHARDS)
    count = depth(5_000, 100_000)
    people = some_people(person, count)
    async with opened(catalog, await open_sqlite(tmp_path / "x.db"), *people) as db:
        wrapped = type(db)(db.catalog, engine(db.store), db.seal, db.clock)
        ask = asking(wrapped)
        expected = sorted(people, key=lambda one: (one.folded, -one.created, one.person_id))
        costs: list[Counts] = []
        found: list[str] = []
        before: str | None = None
        for _ in range(PAGES):
            ask.forget()
            page = await _page(ask, before)
            costs.append(ask.counts)
            found = [item["personId"] for item in page["items"]] + found
            before = page["pageInfo"]["startCursor"]
            assert page["pageInfo"]["hasPreviousPage"]
        assert found == [one.person_id for one in expected[-SIZE * PAGES :]]
        assert _mean(costs, "records_read") <= most_records
        assert _mean(costs, "reads") <= most_calls
        assert max(cost.rounds for cost in costs) <= 4
        assert {(cost.scans, cost.gets) for cost in costs} == {(0, 0)}


async def _page(ask: Asked, before: str | None) -> dict[str, Any]:
    found: dict[str, Any] = (
        await ask.data(
            f"query ($t: String) {{ page: personByFolded(last: {SIZE}, before: $t) "
            "{ items { personId } pageInfo { startCursor hasPreviousPage } } }",
            {"t": before},
        )
    )["page"]
    return found


def _mean(costs: list[Counts], name: str) -> float:
    return float(sum(vars(cost)[name] for cost in costs)) / len(costs)
