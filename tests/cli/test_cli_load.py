"""`shardql load`: its default store. Loading itself is tested in `tests/ops`."""

import asyncio
from pathlib import Path

import pytest

from graphql_api import open_catalog
from graphql_api.examples.users import User, catalog
from tests.support.cli_runner import USERS, run


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory."""
    monkeypatch.chdir(tmp_path)


def count_users(path: str) -> int:
    """Count the users in a SQLite file."""

    async def count() -> int:
        async with open_catalog(catalog, f"sqlite:///{path}") as db:
            return (await db.count(User.by_created)).value

    return asyncio.run(count())


def test_default_store() -> None:
    """Without a store, the records are loaded into the one that `shardql serve` uses, whose URL is shown."""
    result = run("load", USERS, "--sample", "5")
    assert result.exit_code == 0
    assert "Store: sqlite:///shardql.db" in result.output
    assert count_users("shardql.db") == 5


def test_store_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable `SHARDQL_STORE` names the store, and the option overrides it."""
    monkeypatch.setenv("SHARDQL_STORE", "sqlite:///other.db")
    result = run("load", USERS, "--sample", "5")
    assert "Store: sqlite:///other.db" in result.output
    assert count_users("other.db") == 5
    assert run("load", USERS, "--sample", "5", "--store", "sqlite:///third.db").exit_code == 0
    assert count_users("third.db") == 5


def test_no_default_store_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """In production a store must be named."""
    monkeypatch.setenv("SHARDQL_PRODUCTION", "1")
    result = run("load", USERS, "--sample", "5")
    assert result.exit_code == 2
    assert "Production needs a store: pass --store or set SHARDQL_STORE." in result.output
    assert not list(Path.cwd().iterdir())
