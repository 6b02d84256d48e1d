"""The commands for DynamoDB in the how-to about changes of a catalog. Its other blocks run with all examples."""

import asyncio
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from graphql_api import Catalog, Entity, open_catalog
from graphql_api.errors import NotReady
from graphql_api.evolution import DEFAULT_LEASE_SECONDS, EPOCH_KEY, TABLE_RECORD_KEY, read_record, save_record
from graphql_api.storage import Delete, Put
from graphql_api.storage.engines import opened_store
from tests.docs.page_commands import COLUMNS
from tests.docs.pages import ROOT
from tests.docs.test_examples import SYBIL, PageModule
from tests.support.cli_runner import run
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server, session

PAGE = ROOT / "docs" / "how-to" / "changing-a-catalog.md"
SHORT_LEASE = 3.0
SHOWN_URL = "dynamodb://app?region=eu-west-1"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


EARLIER_RECORD = {
    "hashKey": TABLE_RECORD_KEY.hash,
    "rangeKey": TABLE_RECORD_KEY.range,
    "format": 1,
    "spaces": {"user": {"width": 2, "function": "blake2b", "generations": [{"size": 1}]}},
    "indexes": {
        "user": {
            "id": "hashKey: user; rangeKey: userId text",
            "name": "hashKey: user; nameRangeKey: nameCanonical text, userId text",
        }
    },
}
"""what release 0.1.0 records of the first release of the page"""


def blocks_of(title: str) -> list[str]:
    """Return the commands in a section of the page, and their output."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [text for _, text in BLOCK.findall(section)]


@pytest.fixture
def url(dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a table that does not exist yet. It is deleted after the test."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    name = f"t-{uuid4().hex}"
    timeouts = "table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
    yield f"dynamodb://{name}?region={REGION}&endpoint={dynamodb.endpoint}&{timeouts}"

    async def delete() -> None:
        async with session().client("dynamodb", endpoint_url=dynamodb.endpoint) as client:
            await client.delete_table(TableName=name)

    asyncio.run(delete())


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The namespace of the page after its section about indexes, as the module `app`."""
    monkeypatch.chdir(tmp_path)
    document = SYBIL.parse(PAGE)
    namespace: dict[str, Any] = document.namespace
    namespace["__name__"] = "__page__"
    for name in ("__page__", "app"):
        monkeypatch.setitem(sys.modules, name, PageModule(namespace))
    for example in document:
        example.evaluate()
        if hasattr(namespace["User"], "by_town"):
            return namespace
    raise AssertionError("The page declares no index by_town.")


async def set_lease(url: str, seconds: float) -> None:
    """Change the lease of the table: a test cannot wait for the default one."""
    async with opened_store(url) as store:
        record = await read_record(store)
        assert record is not None
        assert await save_record(store, record, replace(record.changed(), lease_seconds=seconds))


async def write_new_property(catalog: Catalog, user: type[Entity], url: str) -> int:
    """Write a value of a new property until it is accepted. Return how often it was refused."""
    refused = 0
    opened = open_catalog(catalog, url, migrate=False, lease_margin_seconds=0.1, request_life_seconds=0.2)
    async with opened as db, asyncio.timeout(60):
        while True:
            try:
                await db.update(user, "A", nickname="Countess")
            except NotReady:
                refused += 1
                await asyncio.sleep(0.1)
            else:
                return refused


def test_commands_for_dynamodb(page: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New properties become writable. The plan is as shown, and applying it makes the new search answer."""
    plan, shown, apply = blocks_of("DynamoDB")
    ask, names, user = page["ask"], page["names"], page["User"]
    page["URL"] = url
    assert run("table", "create", "app:first_release", "--store", url).exit_code == 0
    monkeypatch.setitem(page, "User", page["FirstUser"])
    assert ask(page["create_users"], page["first_release"]) is None

    def search() -> Any:
        return ask(lambda db: names(db.search(user.by_town, town="Bern")))

    def run_shown(command: str) -> Any:
        return run(*shlex.split(command.replace(SHOWN_URL, url))[1:], width=COLUMNS)

    assert search() == "NOT_READY"
    asyncio.run(set_lease(url, SHORT_LEASE))
    assert asyncio.run(write_new_property(page["catalog"], user, url)) > 0
    asyncio.run(set_lease(url, DEFAULT_LEASE_SECONDS))
    planned = run_shown(plan)
    assert planned.exit_code == 1
    assert [line.rstrip() for line in planned.stdout.replace(url, SHOWN_URL).splitlines()] == shown.splitlines()
    asyncio.run(set_lease(url, SHORT_LEASE))
    monkeypatch.setenv("SHARDQL_LEASE_MARGIN_SECONDS", "0.1")
    monkeypatch.setenv("SHARDQL_REQUEST_LIFE_SECONDS", "0.2")
    applied = run_shown(apply)
    assert (applied.exit_code, Path("violations.jsonl").read_bytes()) == (0, b""), applied.output
    assert search() == ["Ada", "Cleo"]


async def restore_earlier_record() -> None:
    """Replace the table's record by that of release 0.1.0."""
    async with opened_store("sqlite:///app.db") as store:
        assert await store.write([Put(EARLIER_RECORD), Delete(EPOCH_KEY)]) == [None, None]


def test_tables_of_the_first_release(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of release 0.1.0 is served as before, reported as unchecked, and verified by the command."""
    (command,) = blocks_of("Tables of release 0.1.0")
    asyncio.run(restore_earlier_record())
    monkeypatch.setitem(page, "catalog", page["first_release"])
    monkeypatch.setitem(page, "User", page["FirstUser"])

    def findings() -> list[str]:
        lines = run("doctor", "app:catalog", "--store", "sqlite:///app.db").stdout.splitlines()
        return [line for line in lines if line.startswith("!")]

    assert page["ask"](lambda db: page["names"](db.search(page["User"].by_name, prefix="a"))) == ["Ada"]
    assert "The index user.name is unchecked" in "".join(findings())
    migrated = run(*shlex.split(command)[1:])
    assert migrated.exit_code == 0, migrated.output
    assert findings() == []
