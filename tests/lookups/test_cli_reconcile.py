"""`shardql reconcile`, and the other commands with a lookup store."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from graphql_api import open_catalog
from graphql_api.connection import opened_with_lookups
from graphql_api.examples.orders import Customer, catalog
from graphql_api.storage import Delete, Put
from graphql_api.storage.engines import opened_store
from graphql_api.writes import item_key
from tests.support.cli_runner import run
from tests.support.store_doubles import all_items

ORDERS = "graphql_api.examples.orders:catalog"


@pytest.fixture
def urls(tmp_path: Path) -> tuple[str, str]:
    """The URLs of a table with customers, and of its lookup store."""
    records, lookups = (f"sqlite:///{tmp_path}/{name}.db" for name in ("records", "lookups"))

    async def create() -> None:
        async with open_catalog(catalog, records, lookups=lookups) as db:
            for number in range(4):
                await db.create(Customer, customer_id=f"c{number}", name=f"n{number}", email=f"e{number % 2}@x")

    asyncio.run(create())
    return records, lookups


def command(name: str, urls: tuple[str, str], *words: str) -> Any:
    """Runs a command with both stores."""
    return run(*name.split(), ORDERS, "--store", urls[0], "--lookup-store", urls[1], *words)


def damage(lookups: str) -> None:
    """Removes one mapping item, and adds one that dangles since long ago."""

    async def change() -> None:
        async with opened_store(lookups) as store:
            mappings = [item for item in await all_items(store) if "~lookup." in item["hashKey"]]
            first, second, *_ = sorted(mappings, key=lambda item: str(item["rangeKey"]))
            gone = {
                **second,
                "rangeKey": "customerId#gone",
                "_owner": [second["_owner"][0], "customerId#gone"],
                "_at": 5,
            }
            assert not any(await store.write([Delete(item_key(first)), Put(gone)]))

    asyncio.run(change())


def test_nothing_to_reconcile(urls: tuple[str, str]) -> None:
    """Without findings the exit code is 0, and the output has the numbers of records and mapping items."""
    result = command("reconcile", urls)
    assert result.exit_code == 0, result.output
    assert "4 mapping items read; nothing is left to repair." in result.stdout


def test_findings_are_reported_first_and_repaired_with_apply(urls: tuple[str, str]) -> None:
    """Without --apply nothing changes; with it, missing mapping items are written and dangling ones removed."""
    damage(urls[1])
    for _ in range(2):
        result = command("reconcile", urls)
        assert result.exit_code == 1
        assert "missing: customer~lookup.email!|email#e0@x / customerId#c0" in result.stdout
        assert "dangling: customer~lookup.email!|email#e1@x / customerId#gone" in result.stdout
        assert "2 to repair with --apply" in result.stdout
    printed = json.loads(command("reconcile", urls, "--json").stdout)
    assert (printed["missing"], printed["dangling"], printed["remaining"]) == (
        {"customer.email": 1},
        {"customer.email": 1},
        2,
    )
    printed = json.loads(command("reconcile", urls, "--apply", "--json").stdout)
    assert (printed["created"], printed["removed"], printed["remaining"]) == (
        {"customer.email": 1},
        {"customer.email": 1},
        0,
    )
    assert command("reconcile", urls).exit_code == 0


@pytest.mark.parametrize("seconds", ["59", "-1", "x"])
def test_a_grace_age_that_is_too_short_is_refused(urls: tuple[str, str], seconds: str) -> None:
    """The grace age is at least a minute."""
    assert command("reconcile", urls, "--grace", seconds).exit_code == 2


def test_a_missing_file_is_not_created(urls: tuple[str, str], tmp_path: Path) -> None:
    """A mistyped lookup store is an error."""
    missing = tmp_path / "nothing.db"
    result = command("reconcile", (urls[0], f"sqlite:///{missing}"))
    assert result.exit_code == 3
    assert not missing.exists()


def test_other_commands_take_the_lookup_store(urls: tuple[str, str], tmp_path: Path) -> None:
    """Commands that open the table work with both stores, and are refused without the second one."""
    assert command("migrate", urls).exit_code == 0
    assert command("verify", urls).exit_code == 0
    lines = tmp_path / "customers.jsonl"
    lines.write_text(json.dumps({"customerId": "c9", "name": "n", "email": "e9@x"}) + "\n")
    assert run("load", ORDERS, "Customer", str(lines), "--store", urls[0], "--lookup-store", urls[1]).exit_code == 0
    assert json.loads(command("export", urls, "Customer").stdout.splitlines()[-1])["email"] == "e9@x"
    assert command("doctor", urls).exit_code <= 1
    (lookup,) = json.loads(command("table describe", urls, "--json").stdout)["lookups"]
    assert lookup == {
        "name": "email",
        "entity": "customer",
        "secondaryKey": ["email"],
        "recordKey": ["customerId"],
        "hashKey": "customer~lookup.email!",
        "lookupStore": lookup["lookupStore"],
        "state": "ready",
        "progress": None,
        "declared": True,
    }
    assert lookup["lookupStore"]
    for words in ([], ["--apply"], ["--drop", "--yes"]):
        result = run("migrate", ORDERS, "--store", urls[0], *words)
        assert result.exit_code == 3
        assert "--lookup-store" in result.output
    assert run("export", ORDERS, "Customer", "--store", urls[0]).exit_code == 0
    for words in (["export", ORDERS, "Customer", 'Plugin_CustomerByEmail(email: "e9@x")'], ["doctor", ORDERS]):
        result = run(*words, "--store", urls[0])
        assert result.exit_code != 0
        assert "--lookup-store URL" in result.output
    result = run("verify", ORDERS, "--store", urls[0])
    assert "The entity customer is not verified" in result.stdout
    described = run("table", "describe", ORDERS, "--store", urls[0])
    assert described.exit_code == 1
    assert "lookup customer.email" in described.stdout

    async def found() -> list[str]:
        async with opened_with_lookups(*urls, catalog) as (store, _):
            return [item["hashKey"] for item in await all_items(store) if item["rangeKey"] == "customerId#c9"]

    assert "customer~lookup.email!|email#e9@x" in asyncio.run(found())


def test_table_describe_lists_lookups(tmp_path: Path) -> None:
    """The lookups of a table are listed with their keys and states."""
    url = f"sqlite:///{tmp_path}/orders.db"
    assert run("table", "create", ORDERS, "--store", url).exit_code == 0
    printed = run("table", "describe", ORDERS, "--store", url).stdout
    (line,) = [line for line in printed.splitlines() if line.split()[:1] == ["email"]]
    assert line.split() == ["email", "customer", "email", "customerId", "ready"]
    (lookup,) = json.loads(run("table", "describe", ORDERS, "--store", url, "--json").stdout)["lookups"]
    assert (lookup["lookupStore"], lookup["state"]) == (None, "ready")


def test_explain_shows_a_lookup() -> None:
    """`shardql explain` shows that a search reads mapping items under one hash key, and then records."""
    printed = run("explain", ORDERS, '{ Plugin_CustomerByEmail(email: "x") { items { name } } }').stdout
    assert "names the lookup email." in printed
    assert "email (mapping items), by customerId" in printed
    assert "1: customer~lookup.email!|email#x" in printed
    assert "the records by key, which the mapping items name" in printed


def test_capacity_includes_mapping_items() -> None:
    """`shardql capacity` lists the mapping items of a lookup among the additional items."""
    entities = json.loads(run("capacity", ORDERS, "--sample-records", "20", "--json").stdout)
    (customer,) = [one for one in entities if one["entity"] == "Customer"]
    assert [(one["kind"], one["name"], one["share"]) for one in customer["constraintItems"]][:1] == [
        ("lookup", "by_email", 1.0)
    ]
