"""What tests of servers share."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def loggers_as_before() -> Iterator[None]:
    """Sets loggers back after a test that sets them up."""
    names = (None, "shardql", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    kept = [(log := logging.getLogger(name), log.level, [*log.handlers], log.propagate) for name in names]
    yield
    for log, level, handlers, propagate in kept:
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)
