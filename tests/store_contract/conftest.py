"""A store of every engine, with the contract's table."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from graphql_api.storage.port import Store
from tests.clocks import Clock
from tests.dynamodb_local import NoServer
from tests.dynamodb_local import running as required
from tests.engines_report import LACKS, RAN
from tests.store_contract.engines import KNOWN_TO_MISS, Engine, running
from tests.store_contract.samples import TABLE


@pytest.fixture(scope="session")
def engine_named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Engine | NoServer]]:
    """Engines by name; each is started and tried when the first test needs it, and ends with the run."""
    started: dict[str, Engine | NoServer] = {}
    with ExitStack() as stack:

        def find(name: str) -> Engine | NoServer:
            if name not in started:
                try:
                    started[name] = stack.enter_context(running(name, tmp_path_factory.mktemp(name)))
                except NoServer as problem:
                    started[name] = problem
            return started[name]

        yield find


@pytest.fixture(params=KNOWN_TO_MISS)
def engine(request: pytest.FixtureRequest, engine_named: Callable[[str], Engine | NoServer]) -> Engine:
    """Each engine in turn; a test that asks for more than it can do is skipped."""
    found = required(engine_named(request.param), request.param, request)
    for needed in request.node.iter_markers("needs"):
        for ability in needed.args:
            if ability not in found.abilities:
                request.node.user_properties.append((LACKS, f"{request.param}: {ability}"))
                pytest.skip(f"the engine cannot do this: {ability}")
    request.node.user_properties.append((RAN, request.param))
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
