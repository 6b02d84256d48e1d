"""Relay, as docs/clients.md sets it up, against a real server: compiled, rendered and clicked."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api.examples.users import catalog
from graphql_api.schema.graph import build_schema
from graphql_api.schema.sdl import print_sdl
from tests.clients.conftest import Play

PAGE = 20


@pytest.fixture(scope="module")
def told(play: Play, folder: Path) -> dict[str, Any]:
    """What the lists held."""
    printed = print_sdl({"graphql_api.examples.users:catalog": build_schema(catalog)})
    (folder / "schema.graphql").write_text(printed, encoding="utf-8")
    found: dict[str, Any] = play("relay.cjs", "relay.config.js", "environment.js", "People.jsx")
    return found


def test_forward(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A list grows forward, by pages of changing size, to what a search finds."""
    assert told["forward"] == by_first_name


def test_a_record_again(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A record of a list is asked for again by `node` alone, and the list stays as it was."""
    (query,) = told["again"]["queries"]
    assert "node(id: $id)" in query
    assert told["again"]["ids"] == by_first_name


def test_backward(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A list grows backward from the last record to the same rows in the same order."""
    assert told["backward"] == by_first_name


def test_retries(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A page whose shard fails twice is asked for until it comes; if it never comes, the list stays as it was."""
    assert told["afterTwoFailures"] == by_first_name[: 2 * PAGE]
    assert not told["failuresLeft"]
    assert told["afterGivingUp"] == by_first_name[:PAGE]


def test_expiry(told: dict[str, Any], by_first_name: list[str]) -> None:
    """Where its token has expired a list becomes its first page again, and grows from there to all rows."""
    assert told["beforeExpiry"] == 2 * PAGE
    assert told["afterExpiry"] == by_first_name[:PAGE]
    assert told["all"] == by_first_name
