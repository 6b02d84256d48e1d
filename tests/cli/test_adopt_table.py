"""Tables that belong to other applications: refused until `--adopt-table` confirms that they are shared."""

import asyncio
from pathlib import Path

import pytest

from graphql_api.examples.issues import catalog as issues
from graphql_api.storage.engines import opened_store
from graphql_api.storage.values import Key, Put
from graphql_api.writes.entity_records import item_at
from tests.server.server_processes import run_failing_server
from tests.support.cli_runner import USERS, run

STORE = "sqlite:///table.db"
ISSUES = "graphql_api.examples.issues:catalog"
REFUSAL = (
    "shardql: The table belongs to other catalogs: it knows issue, project, tenant, and no entity of this one. "
    "Name another table. If this catalog is to share the table, confirm it once with the option --adopt-table "
    "of serve, load or table create, or with adopt_table=True in Python.\n"
)


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in an empty directory."""
    monkeypatch.chdir(tmp_path)


def test_a_table_of_other_catalogs_is_not_taken_over() -> None:
    """A table that knows no entity of the catalog is refused by every command that would record one."""
    run("table", "create", ISSUES, "--store", STORE)
    before = run("table", "describe", ISSUES, "--store", STORE, "--json").stdout
    for words in (["table", "create", USERS], ["load", USERS, "--sample", "0"]):
        refused = run(*words, "--store", STORE)
        assert (refused.exit_code, refused.stderr) == (3, REFUSAL), words
    served = run_failing_server(Path.cwd(), USERS, "--port", "0", "--store", STORE)
    assert (served.returncode, served.stderr) == (3, REFUSAL)
    assert run("table", "describe", ISSUES, "--store", STORE, "--json").stdout == before
    assert "! The table belongs to other catalogs" in run("table", "describe", USERS, "--store", STORE).stdout
    assert run("load", USERS, "--sample", "1", "--store", STORE, "--adopt-table").exit_code == 0
    assert run("load", USERS, "--sample", "1", "--store", STORE).exit_code == 0, "confirmed once"
    assert run("table", "describe", ISSUES, "--store", STORE).exit_code == 0


def test_items_without_a_record() -> None:
    """A table with items that no catalog recorded is refused, and an empty one is not."""

    async def write_item() -> None:
        async with opened_store(STORE) as store:
            await store.ensure_table(issues.table_definition())
            assert not any(await store.write([Put(item_at(Key("a", "b"), {}))]))

    asyncio.run(write_item())
    refused = run("table", "create", ISSUES, "--store", STORE)
    assert refused.exit_code == 3
    assert "The table holds items, but no record of ShardQL" in refused.stderr
    assert run("table", "create", ISSUES, "--store", STORE, "--adopt-table").exit_code == 0


def test_an_empty_table_is_no_foreign_table() -> None:
    """A table without items and without a record belongs to nobody."""

    async def create() -> None:
        async with opened_store(STORE) as store:
            await store.ensure_table(issues.table_definition())

    asyncio.run(create())
    assert run("table", "create", ISSUES, "--store", STORE).exit_code == 0
