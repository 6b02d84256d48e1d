"""urql with its normalized cache, as docs/clients.md sets it up, against a real server."""

from typing import Any

import pytest

from tests.clients.conftest import Play


@pytest.fixture(scope="module")
def told(play: Play) -> dict[str, Any]:
    """What the lists held, and the methods of the requests."""
    found: dict[str, Any] = play("urql.mjs", "client.urql.mjs")
    return found


def test_forward(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A list grows forward, by pages of changing size, to what a search finds."""
    assert told["forward"] == by_first_name


def test_backward(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A list grows backward from the last record to the same rows in the same order."""
    assert told["backward"] == by_first_name


def test_requests(told: dict[str, Any]) -> None:
    """Queries go by POST, which browsers may send."""
    assert told["methods"] == ["POST"]
