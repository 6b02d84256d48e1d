"""Apollo Client, configured as in docs/how-to/clients.md, against a real server."""

from typing import Any

import pytest

from graphql_api.examples.users import User
from tests.clients.conftest import ExampleServer, RunClient

PAGE = 20


@pytest.fixture(scope="module")
def report(run_client: RunClient) -> dict[str, Any]:
    """The lists that the client has loaded."""
    found: dict[str, Any] = run_client("apollo.mjs", "client.mjs", "lists.mjs")
    return found


def test_forward(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A list of edges loads all records forward, with varying page sizes. The cache contains all of them."""
    assert report["forward"] == by_first_name
    assert report["cached"] == len(by_first_name)


def test_lists_are_separate(
    report: dict[str, Any], by_first_name: list[str], by_last_name: list[str], users: ExampleServer
) -> None:
    """Lists with other conditions are separate. A record in several lists is cached once."""
    others = users.ids(User.by_first_name, prefix="a")
    assert report["otherPrefix"] == others
    assert report["forwardThen"] == by_first_name
    distinct = {*by_first_name, *others, *by_last_name}
    assert len(distinct) < len(by_first_name) + len(others) + len(by_last_name)
    assert sorted(report["records"]) == sorted(distinct)


def test_refetch_a_record(report: dict[str, Any]) -> None:
    """The cache key of a record contains its id, which refetches the same record."""
    kept, found = report["again"]
    assert found == kept


def test_backward(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A list of edges loads all records backward in the same order."""
    assert report["backward"] == by_first_name


def test_tokens(report: dict[str, Any], by_last_name: list[str]) -> None:
    """A list of items loads all records by tokens. A page that is loaded twice appears once."""
    assert len(by_last_name) > 2 * PAGE
    assert report["tokens"] == by_last_name
    assert report["tokensAfterAPageCameTwice"] == by_last_name


def test_retries(report: dict[str, Any], by_first_name: list[str]) -> None:
    """A page whose shard fails twice is retried until it succeeds."""
    assert report["afterTwoFailures"] == by_first_name[: 2 * PAGE]


@pytest.mark.parametrize("style", ["edges", "items"])
def test_expiry(report: dict[str, Any], by_first_name: list[str], by_last_name: list[str], style: str) -> None:
    """When its token has expired, a list restarts at its first page, and loads all records from there."""
    rows = by_first_name if style == "edges" else by_last_name
    assert report[style] == {"beforeExpiry": 2 * PAGE, "afterExpiry": rows[:PAGE], "all": rows}


def test_partial(report: dict[str, Any], by_last_name: list[str]) -> None:
    """While a shard fails, a list is marked incomplete. The missing records follow on later pages, once each."""
    assert report["complete"] == [False, True]
    assert sorted(report["partial"]) == sorted(by_last_name)
    assert report["partial"] != by_last_name
