"""urql with its normalized cache, configured as in docs/how-to/clients.md, against a real server."""

from typing import Any

import pytest

from tests.clients.conftest import RunClient


@pytest.fixture(scope="module")
def report(run_client: RunClient) -> dict[str, Any]:
    """The lists that the client has loaded, and the methods of its requests."""
    found: dict[str, Any] = run_client("urql.mjs", "client.urql.mjs")
    return found


def test_forward(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A list loads all records forward, with varying page sizes."""
    assert report["forward"] == by_first_name


def test_backward(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A list loads all records backward in the same order."""
    assert report["backward"] == by_first_name


def test_method(report: dict[str, Any]) -> None:
    """Queries are sent by POST."""
    assert report["methods"] == ["POST"]
