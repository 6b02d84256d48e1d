"""The Python recipe of docs/how-to/clients.md against a real server."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphql_api.examples.users import generate_users
from tests.clients.conftest import PREFIX, USERS, ExampleServer
from tests.clients.fault_switch import FaultSwitch
from tests.clients.recipes import write_recipe

Traverse = Callable[..., Iterator[dict[str, Any]]]


@pytest.fixture
def recipe(folder: Path, users: ExampleServer) -> dict[str, Any]:
    """The namespace of the recipe."""
    return runpy.run_path(str(write_recipe("people.py", folder, users.server.address)))


@pytest.fixture
def traverse(recipe: dict[str, Any]) -> Iterator[Traverse]:
    """The traversal of the recipe, with an HTTP client."""
    with httpx.Client() as client:
        yield lambda *given, **more: recipe["people"](client, *given, **more)


@pytest.mark.parametrize("limit", [7, 50, 500])
def test_all_pages(traverse: Traverse, by_first_name: list[str], limit: int) -> None:
    """The traversal returns all records with the requested properties, for any page size."""
    found = list(traverse(PREFIX, limit))
    assert [user["userId"] for user in found] == by_first_name
    names = {user.user_id: (user.first_name, user.last_name) for user in generate_users(USERS)}
    assert all((user["firstName"], user["lastName"]) == names[user["userId"]] for user in found)


def test_retries(traverse: Traverse, fault_switch: FaultSwitch, by_first_name: list[str]) -> None:
    """A page whose shard fails twice is retried until it succeeds."""
    fault_switch.failing.write_text("2")
    assert [user["userId"] for user in traverse(PREFIX)] == by_first_name
    assert not fault_switch.failing.exists()


def test_giving_up(
    traverse: Traverse, recipe: dict[str, Any], fault_switch: FaultSwitch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the shard keeps failing, the pauses grow, and the traversal ends with the error code."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    fault_switch.failing.write_text("1000")
    with pytest.raises(recipe["RequestFailed"], match="does not answer") as refused:
        list(traverse(PREFIX))
    assert refused.value.code == "STORE_UNAVAILABLE"
    assert fault_switch.failing.read_text() == str(1000 - recipe["MAX_ATTEMPTS"])
    assert len(pauses) == recipe["MAX_ATTEMPTS"] - 1
    assert pauses == sorted(set(pauses))


def test_partial(
    traverse: Traverse, fault_switch: FaultSwitch, by_first_name: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PARTIAL, records of the failing shard follow on later pages, once each."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    fault_switch.failing.write_text("2")
    found = [user["userId"] for user in traverse(PREFIX, on_shard_failure="PARTIAL")]
    assert sorted(found) == sorted(by_first_name)
    assert found != by_first_name
    assert len(pauses) == 2


def test_expiry(
    traverse: Traverse, recipe: dict[str, Any], fault_switch: FaultSwitch, by_first_name: list[str]
) -> None:
    """A traversal that is suspended for over a day ends with EXPIRED_TOKEN. A new one succeeds."""
    late = traverse(PREFIX, 10)
    next(late)
    fault_switch.late.touch()
    with pytest.raises(recipe["RequestFailed"]) as refused:
        list(late)
    assert refused.value.code == "EXPIRED_TOKEN"
    assert [user["userId"] for user in traverse(PREFIX, 100)] == by_first_name
