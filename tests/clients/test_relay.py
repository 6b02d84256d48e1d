"""Relay, configured as in docs/how-to/clients.md, against a real server: compiled, rendered and clicked."""

from pathlib import Path
from typing import Any

import pytest

from graphql_api.examples.users import catalog
from graphql_api.schema.graph import build_schema
from graphql_api.schema.sdl import print_sdl
from tests.clients.conftest import RunClient

PAGE = 20


@pytest.fixture(scope="module")
def report(run_client: RunClient, folder: Path) -> dict[str, Any]:
    """The lists that the client has rendered."""
    printed = print_sdl({"graphql_api.examples.users:catalog": build_schema(catalog)})
    (folder / "schema.graphql").write_text(printed, encoding="utf-8")
    found: dict[str, Any] = run_client("relay.cjs", "relay.config.js", "environment.js", "People.jsx")
    return found


def test_forward(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A list loads all records forward, with varying page sizes."""
    assert report["forward"] == by_first_name


def test_refetch_a_record(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A record is refetched by `node` alone, and the list is unchanged."""
    (query,) = report["again"]["queries"]
    assert "node(id: $id)" in query
    assert report["again"]["ids"] == by_first_name


def test_backward(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A list loads all records backward in the same order."""
    assert report["backward"] == by_first_name


def test_retries(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A page whose shard fails twice is retried until it succeeds. If it keeps failing, the list is unchanged."""
    assert report["afterTwoFailures"] == by_first_name[: 2 * PAGE]
    assert not report["failuresLeft"]
    assert report["afterGivingUp"] == by_first_name[:PAGE]


def test_expiry(report: dict[str, Any], by_first_name: list[str]) -> None:
    """When its token has expired, a list restarts at its first page, and loads all records from there."""
    assert report["beforeExpiry"] == 2 * PAGE
    assert report["afterExpiry"] == by_first_name[:PAGE]
    assert report["all"] == by_first_name
