"""Apollo Client, as docs/clients.md sets it up, against a real server."""

from typing import Any

import pytest

from graphql_api.examples.users import User
from tests.clients.conftest import Play, Served

PAGE = 20


@pytest.fixture(scope="module")
def told(play: Play) -> dict[str, Any]:
    """What the lists held."""
    found: dict[str, Any] = play("apollo.mjs", "client.mjs", "lists.mjs")
    return found


def test_forward(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A list of edges grows forward, by pages of changing size, to what a search finds; the cache then holds it all."""
    assert told["forward"] == by_first_name
    assert told["cached"] == len(by_first_name)


def test_lists_stay_apart(
    told: dict[str, Any], by_first_name: list[str], by_last_name: list[str], users: Served
) -> None:
    """Lists of other conditions leave a list as it was, and a record that stands in several of them is kept once."""
    others = users.ids(User.by_first_name, prefix="a")
    assert told["otherPrefix"] == others
    assert told["forwardThen"] == by_first_name
    distinct = {*by_first_name, *others, *by_last_name}
    assert len(distinct) < len(by_first_name) + len(others) + len(by_last_name)
    assert sorted(told["records"]) == sorted(distinct)


def test_a_record_again(told: dict[str, Any]) -> None:
    """The key of a record in the cache ends in its id, by which that very record is asked for again."""
    kept, found = told["again"]
    assert found == kept


def test_backward(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A list of edges grows backward from the last record to the same rows in the same order."""
    assert told["backward"] == by_first_name


def test_tokens(told: dict[str, Any], by_last_name: list[str]) -> None:
    """A list of items grows by tokens to what a search finds, and a page that comes twice stands in it once."""
    assert len(by_last_name) > 2 * PAGE
    assert told["tokens"] == by_last_name
    assert told["tokensAfterAPageCameTwice"] == by_last_name


def test_retries(told: dict[str, Any], by_first_name: list[str]) -> None:
    """A page whose shard fails twice is asked for until it comes."""
    assert told["afterTwoFailures"] == by_first_name[: 2 * PAGE]


@pytest.mark.parametrize("style", ["edges", "items"])
def test_expiry(told: dict[str, Any], by_first_name: list[str], by_last_name: list[str], style: str) -> None:
    """Where its token has expired a list becomes its first page again, and grows from there to all rows."""
    rows = by_first_name if style == "edges" else by_last_name
    assert told[style] == {"beforeExpiry": 2 * PAGE, "afterExpiry": rows[:PAGE], "all": rows}


def test_partial(told: dict[str, Any], by_last_name: list[str]) -> None:
    """While a shard fails a list is incomplete and says so; its rows come with later pages, each of them once."""
    assert told["complete"] == [False, True]
    assert sorted(told["partial"]) == sorted(by_last_name)
    assert told["partial"] != by_last_name
