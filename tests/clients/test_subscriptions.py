"""The clients graphql-ws and graphql-sse against a real server."""

import json
import shutil
from pathlib import Path
from time import time
from typing import Any

import pytest

from graphql_api import asgi
from graphql_api.server.auth.bearer_tokens import mint_token
from graphql_api.server.auth.principals import Identity
from tests.clients.conftest import HERE, run, tool
from tests.server.notes_graph import notes_graph
from tests.support.loopback import serve_app

SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def report(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the clients have received, by client."""
    folder = tmp_path_factory.mktemp("subscriptions")
    (folder / "node_modules").symlink_to(packages)
    shutil.copy(HERE / "subscriptions.mjs", folder)
    minted = mint_token(SECRET, Identity("ann"), now=time(), seconds=3600)
    app = asgi(notes_graph(), f"sqlite:///{folder}/notes.db", token_keys=SECRET.hex())
    with serve_app(app) as address:
        output = run([tool("node"), "subscriptions.mjs", f"{address}/graphql", f"Bearer {minted}"], folder)
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize("client", ["ws", "sse"])
def test_client(report: dict[str, Any], client: str) -> None:
    """A client receives the events and the end of a subscription, the response to a query, and errors with codes."""
    received = report[client]
    assert received["events"] == [{"data": {"count": number}} for number in range(3)]
    assert received["query"] == [{"data": {"__typename": "Query"}}]
    assert received["restricted"] == [{"data": {"watched": 1}}]
    (failing,) = received["failing"]
    assert [error["extensions"]["code"] for error in failing["errors"]] == ["INTERNAL_ERROR"]
    (invalid,) = received["invalid"]
    if client == "ws":
        assert invalid == {"refused": ["GRAPHQL_VALIDATION_FAILED"]}
    else:
        assert [error["extensions"]["code"] for error in invalid["errors"]] == ["GRAPHQL_VALIDATION_FAILED"]
