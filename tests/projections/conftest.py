"""Fixtures: the URL of an empty table on each engine."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.dynamodb_servers import CREDENTIALS, ENGINE, REGION


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a table that does not exist: a SQLite file, or with `on_both_stores` also one of DynamoDB Local."""
    if getattr(request, "param", "sqlite") != ENGINE:
        return f"sqlite:///{tmp_path / 'events.db'}"
    server = request.getfixturevalue("dynamodb")
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return f"dynamodb://events-{uuid4().hex}?endpoint={server.endpoint}&region={REGION}&deadline=60&read_seconds=30"
