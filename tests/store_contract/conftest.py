"""A store of every engine, with the contract's table."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graphql_api.store.port import Store
from tests.store_contract.engines import ENGINES, Engine
from tests.store_contract.samples import TABLE, Clock


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn; a test that asks for more than it can do is skipped."""
    found = ENGINES[request.param]
    for needed in request.node.iter_markers("needs"):
        for ability in needed.args:
            if ability not in found.abilities:
                pytest.skip(f"the engine cannot do this: {ability}")
    return found


@pytest.fixture
def clock() -> Clock:
    """The time that the store is given."""
    return Clock()


@pytest.fixture
async def bare_store(engine: Engine, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    """A store without a table."""
    store = await engine.open(tmp_path, clock)
    yield store
    await store.close()


@pytest.fixture
async def store(bare_store: Store) -> Store:
    """A store with the contract's table, still empty."""
    await bare_store.ensure_table(TABLE)
    return bare_store


def pytest_configure(config: pytest.Config) -> None:
    """Makes the contract's own marker known."""
    config.addinivalue_line("markers", "needs(*abilities): skipped on engines that lack one of them")
