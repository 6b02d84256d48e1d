"""Fixtures: one store per engine, with the table of the contract suite."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from graphql_api.storage.port import Store
from tests.store_contract.contract_engines import KNOWN_MISSING, Engine, running_engine
from tests.store_contract.samples import TABLE
from tests.support.dynamodb_servers import ServerUnavailable, engine_or_skip
from tests.support.engines_report import LACKS, RAN
from tests.support.fake_clock import FakeClock


@pytest.fixture(scope="session")
def engine_by_name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Engine | ServerUnavailable]]:
    """Start engines by name. Each starts at its first use, is probed once, and stops at the end of the run."""
    started: dict[str, Engine | ServerUnavailable] = {}
    with ExitStack() as stack:

        def start(name: str) -> Engine | ServerUnavailable:
            if name not in started:
                try:
                    started[name] = stack.enter_context(running_engine(name, tmp_path_factory.mktemp(name)))
                except ServerUnavailable as error:
                    started[name] = error
            return started[name]

        yield start


# DynamoDB Local shows what moto would, and moto takes long to start.
@pytest.fixture(
    params=[pytest.param("moto", marks=pytest.mark.deep) if name == "moto" else name for name in KNOWN_MISSING]
)
def engine(request: pytest.FixtureRequest, engine_by_name: Callable[[str], Engine | ServerUnavailable]) -> Engine:
    """Each engine in turn. Skips a test that needs a capability that the engine lacks."""
    started_engine = engine_or_skip(engine_by_name(request.param), request.param, request)
    for needed in request.node.iter_markers("needs"):
        for capability in needed.args:
            if capability not in started_engine.capabilities:
                request.node.user_properties.append((LACKS, f"{request.param}: {capability}"))
                pytest.skip(f"the engine lacks the capability: {capability}")
    request.node.user_properties.append((RAN, request.param))
    return started_engine


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the store."""
    return FakeClock()


@pytest.fixture
async def bare_store(engine: Engine, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    """A store without a table."""
    store = await engine.open(tmp_path, clock)
    yield store
    await store.close()


@pytest.fixture
async def store(bare_store: Store) -> Store:
    """A store with the empty table of the contract suite."""
    await bare_store.ensure_table(TABLE)
    return bare_store


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `needs`."""
    config.addinivalue_line(
        "markers", "needs(*capabilities): skip the test on engines that lack one of these capabilities"
    )
