"""The known capabilities of the engines match the probed ones."""

import pytest

from tests.store_contract.contract_engines import CLIENT_TRANSPORT, KNOWN_MISSING, Engine
from tests.store_contract.engine_capabilities import PROBES


@pytest.mark.parametrize("engine", [name for name in KNOWN_MISSING if name != CLIENT_TRANSPORT], indirect=True)
def test_probed_capabilities_match_the_known_ones(engine: Engine, request: pytest.FixtureRequest) -> None:
    """The capabilities that an engine lacks are exactly those listed in `KNOWN_MISSING`."""
    name = request.node.callspec.params["engine"]
    assert PROBES.keys() - engine.capabilities == KNOWN_MISSING[name]
