"""Fixtures for tests of the server."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def restore_loggers() -> Iterator[None]:
    """Restore the configuration of loggers after a test."""
    names = (None, "shardql", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    saved = [(log := logging.getLogger(name), log.level, [*log.handlers], log.propagate) for name in names]
    yield
    for log, level, handlers, propagate in saved:
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)
