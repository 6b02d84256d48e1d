"""The same programs return the same pages, errors and records on SQLite and on DynamoDB Local, step by step."""

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
from tests.laws.search_catalogs import NOW, DrawnCatalog, build, few_shards, new_tenant, seen, shapes
from tests.laws.test_search import SEAL, run_in_batches
from tests.same_pages.paired_engines import PairedEngines
from tests.same_pages.programs import STEPS, draw_program
from tests.same_pages.waivers import WAIVERS, waiver_uses
from tests.support.dynamodb_servers import Server
from tests.support.fake_clock import FakeClock
from tests.support.run_depth import examples

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
    """Both stores on one event loop; each program has its own tenant, and so its own hash keys."""

    runner: asyncio.Runner
    sqlite: Store
    dynamodb: Store
    folder: Path

    def pair(self, drawn: DrawnCatalog) -> PairedEngines:
        definition = drawn.catalog.table_definition()
        for store in (self.sqlite, self.dynamodb):
            # The program controls the time; DynamoDB would remove expired records by its own clock.
            self.runner.run(store.ensure_table(replace(definition, ttl_attribute=None)))
        clock, tenant = FakeClock(NOW), new_tenant()
        one, other = (
            Database(drawn.catalog, store, SEAL, clock=clock, tenant=tenant) for store in (self.sqlite, self.dynamodb)
        )
        return PairedEngines(one, other, clock)


@pytest.fixture
def engines(dynamodb: Server, tmp_path: Path) -> Iterator[Engines]:
    """Both engines, with a table of their own."""
    with asyncio.Runner() as runner:
        stores = runner.run(open_sqlite(tmp_path / "pair.db")), runner.run(dynamodb.open("pair"))
        yield Engines(runner, *stores, tmp_path)
        for store in stores:
            runner.run(store.close())


def test_both_engines_return_the_same_pages(engines: Engines, request: pytest.FixtureRequest) -> None:
    """After any writes, loads, deletes and added generations, both engines return the same pages and errors."""

    @examples(20, deep=1_000)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        drawn = build(few_shards(data.draw(shapes(), label="shape")))
        seen["150 shards"] += 150 in drawn.shape.sizes
        engines.runner.run(_run(data, drawn, engines.pair(drawn), engines.folder))

    run_in_batches(law, request, CLASSES)
    assert [waiver.name for waiver in WAIVERS if not waiver_uses[waiver.name]] == []


async def _run(data: st.DataObject, drawn: DrawnCatalog, pair: PairedEngines, folder: Path) -> None:
    program, begin = draw_program(data, drawn, pair, folder)
    await program.write(begin)
    for _ in range(program.choose("steps", *range(3, 11))):
        await program.step()
    for number in range(len(program.searches)):
        await program.read_all_pages(number)
    await program.expire_tokens()
