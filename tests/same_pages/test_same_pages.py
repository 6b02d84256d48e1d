"""The same programs on SQLite and on DynamoDB Local give the same pages, errors and records, step by step."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphql_api.database import Database
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.clocks import Clock
from tests.depth import examples
from tests.dynamodb_local import Server
from tests.laws.search_world import NOW, World, build, few_shards, new_tenant, seen, shapes
from tests.laws.test_search import SEAL, in_batches
from tests.same_pages.programs import STEPS, draw_program
from tests.same_pages.twins import Twins
from tests.same_pages.waivers import WAIVERS, needed

CLASSES = [
    *(f"step {name}" for name in {*STEPS}),
    *(
        "page with ties",
        "page without ties",
        "page among expired",
        "filtered page",
        "tokens that differ",
        "several pages",
        "record key opened",
        "150 shards",
    ),
    *("line rejected", "line loaded", "by_x", "by_id", "by_text", "by_number", "by_state", "history"),
    *("projection ALL", "projection KEYS_ONLY", "projection INCLUDE", "several generations", "composite sub id"),
    *(f"refused: {code}" for code in ("INVALID_TOKEN", "EXPIRED_TOKEN", "TOKEN_MISMATCH", "CREATION_CHANGED")),
]


@dataclass
class Engines:
    """Both stores on one event loop; each program has a tenant, and so hash keys, of its own."""

    runner: asyncio.Runner
    sqlite: Store
    dynamodb: Store
    folder: Path

    def twins(self, world: World) -> Twins:
        definition = world.catalog.table_definition()
        for store in (self.sqlite, self.dynamodb):
            # Time is the program's here, and DynamoDB would remove what has expired by its own.
            self.runner.run(store.ensure_table(replace(definition, ttl_attribute=None)))
        clock, tenant = Clock(NOW), new_tenant()
        one, other = (
            Database(world.catalog, store, SEAL, clock=clock, tenant=tenant) for store in (self.sqlite, self.dynamodb)
        )
        return Twins(one, other, clock)


@pytest.fixture
def engines(dynamodb: Server, tmp_path: Path) -> Iterator[Engines]:
    """Both engines, with a table of their own."""
    with asyncio.Runner() as runner:
        stores = runner.run(open_sqlite(tmp_path / "twin.db")), runner.run(dynamodb.open("twin"))
        yield Engines(runner, *stores, tmp_path)
        for store in stores:
            runner.run(store.close())


def test_the_same_programs_give_the_same_pages(engines: Engines, request: pytest.FixtureRequest) -> None:
    """Whatever is written, deleted, loaded, grown and searched: pages, tokens, errors and records are the same."""

    @examples(20, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        world = build(few_shards(data.draw(shapes(), label="shape")))
        seen["150 shards"] += 150 in world.shape.sizes
        engines.runner.run(_run(data, world, engines.twins(world), engines.folder))

    in_batches(law, request, CLASSES)
    assert [waiver.name for waiver in WAIVERS if not needed[waiver.name]] == []


async def _run(data: st.DataObject, world: World, twins: Twins, folder: Path) -> None:
    program, begin = draw_program(data, world, twins, folder)
    await program.write(begin)
    for _ in range(program.choose("steps", *range(3, 11))):
        await program.step()
    for number in range(len(program.searches)):
        await program.whole(number)
    await program.long_after()
