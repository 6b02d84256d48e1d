"""What engines are known to lack is what they lack."""

import pytest

from tests.store_contract.abilities import TRIALS
from tests.store_contract.engines import KNOWN_TO_MISS, Engine


def test_abilities_are_as_written_down(engine: Engine, request: pytest.FixtureRequest) -> None:
    """An engine that has learnt something, or forgotten it, no longer matches what is written down about it."""
    name = request.node.callspec.params["engine"]
    assert TRIALS.keys() - engine.abilities == KNOWN_TO_MISS[name]
