"""The Python recipe of docs/clients.md against a real server."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphql_api.examples.user_samples import generate_users
from tests.clients.conftest import PREFIX, USERS, Served
from tests.clients.recipes import write_recipe
from tests.clients.trouble import Trouble

Walk = Callable[..., Iterator[dict[str, Any]]]


@pytest.fixture
def recipe(folder: Path, users: Served) -> dict[str, Any]:
    """What the recipe defines."""
    return runpy.run_path(str(write_recipe("people.py", folder, users.server.address)))


@pytest.fixture
def walk(recipe: dict[str, Any]) -> Iterator[Walk]:
    """Its walk, with a client."""
    with httpx.Client() as client:
        yield lambda *given, **more: recipe["people"](client, *given, **more)


@pytest.mark.parametrize("limit", [7, 50, 500])
def test_all_pages(walk: Walk, by_first_name: list[str], limit: int) -> None:
    """The walk gives what a search finds, whatever the size of its pages, with the properties that it asks for."""
    found = list(walk(PREFIX, limit))
    assert [user["userId"] for user in found] == by_first_name
    names = {user.user_id: (user.first_name, user.last_name) for user in generate_users(USERS)}
    assert all((user["firstName"], user["lastName"]) == names[user["userId"]] for user in found)


def test_retries(walk: Walk, trouble: Trouble, by_first_name: list[str]) -> None:
    """A page whose shard fails twice is asked for until it comes."""
    trouble.failing.write_text("2")
    assert [user["userId"] for user in walk(PREFIX)] == by_first_name
    assert not trouble.failing.exists()


def test_giving_up(walk: Walk, recipe: dict[str, Any], trouble: Trouble, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the shard never answers the walk pauses longer each time, and ends with the error's code."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    trouble.failing.write_text("1000")
    with pytest.raises(recipe["RequestFailed"], match="does not answer") as refused:
        list(walk(PREFIX))
    assert refused.value.code == "STORE_UNAVAILABLE"
    assert trouble.failing.read_text() == str(1000 - recipe["MAX_ATTEMPTS"])
    assert len(pauses) == recipe["MAX_ATTEMPTS"] - 1
    assert pauses == sorted(set(pauses))


def test_partial(walk: Walk, trouble: Trouble, by_first_name: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With PARTIAL the others' records come first, and those of the shard that failed later, each of them once."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    trouble.failing.write_text("2")
    found = [user["userId"] for user in walk(PREFIX, on_shard_failure="PARTIAL")]
    assert sorted(found) == sorted(by_first_name)
    assert found != by_first_name
    assert len(pauses) == 2


def test_expiry(walk: Walk, recipe: dict[str, Any], trouble: Trouble, by_first_name: list[str]) -> None:
    """A walk that rests for more than a day ends with EXPIRED_TOKEN; another one begins anew."""
    late = walk(PREFIX, 10)
    next(late)
    trouble.late.touch()
    with pytest.raises(recipe["RequestFailed"]) as refused:
        list(late)
    assert refused.value.code == "EXPIRED_TOKEN"
    assert [user["userId"] for user in walk(PREFIX, 100)] == by_first_name
