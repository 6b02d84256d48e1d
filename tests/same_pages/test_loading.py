"""The same commands load the same records into both engines."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from graphql_api.cli import app
from graphql_api.codecs.record_key import RecordKey, RecordKeySeal
from graphql_api.connection import Secrets, open_catalog
from graphql_api.database import Database
from graphql_api.examples.users import Email, User, catalog
from graphql_api.model.markers import IndexRef
from tests.same_pages.paired_engines import page_view
from tests.same_pages.waivers import check_same
from tests.support.dynamodb_servers import CREDENTIALS, REGION, Server

USERS = "graphql_api.examples.users:catalog"
SECRETS = Secrets((b"a secret of thirty-two bytes only",))
KEY_SEAL = RecordKeySeal(b"this secret never changes at all")
BAD_LINES = b'no json\n{"userId": "u"}\n'


@pytest.fixture
def urls(dynamodb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The URLs of a SQLite file and of a table of DynamoDB Local that the command line has created."""
    monkeypatch.chdir(tmp_path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    table = (
        f"dynamodb://same-{uuid4().hex}?region={REGION}&endpoint={dynamodb.endpoint}"
        "&table_pause=0.05&connect_seconds=10&read_seconds=20&deadline=60"
    )
    assert run("table", "create", USERS, "--store", table).exit_code == 0
    return "sqlite:///same.db", table


def run(*words: str) -> Result:
    """Runs a command as a shell would; re-raises unexpected exceptions."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def command_outcome(result: Result) -> tuple[int, str]:
    """Returns the exit code and the output of a command, without durations."""
    return result.exit_code, re.sub(r"[\d.]+ s\b", "", result.stdout)


def run_on_both(urls: tuple[str, str], operation: Any) -> Any:
    """Runs an operation on both databases at the same time of their clocks."""

    async def both() -> Any:
        sqlite, dynamodb = (open_catalog(catalog, url, secrets=SECRETS, clock=lambda: 1_800_000_000) for url in urls)
        async with sqlite as one, dynamodb as other:
            return await operation(one, other)

    return asyncio.run(both())


async def assert_same_pages(one: Database, other: Database, index: IndexRef, **arguments: Any) -> int:
    """Reads all pages of a search, which must be the same on both engines."""
    token, found = None, 0
    while True:
        pages = [await db.search(index, limit=40, next_token=token, **arguments) for db in (one, other)]
        check_same(*(page_view(page, "created") for page in pages), ties=False)
        found, token = found + len(pages[0].items), pages[0].next_token
        if token is None:
            return found


def test_loading_samples_stores_the_same_records_on_both_engines(urls: tuple[str, str]) -> None:
    """`load --sample` writes the same records to both engines: every search returns the same pages."""
    loaded = [run("load", USERS, "--sample", "150", "--store", url) for url in urls]
    assert command_outcome(loaded[0]) == command_outcome(loaded[1])
    assert loaded[0].exit_code == 0

    async def compare_pages(one: Database, other: Database) -> None:
        for index in (User.by_created, User.by_first_name, User.by_last_name, Email.by_id):
            assert await assert_same_pages(one, other, index) >= 150
        assert await assert_same_pages(one, other, User.by_first_name, prefix="m", reverse=True) > 1

    run_on_both(urls, compare_pages)


def test_loading_a_file_has_the_same_outcome_on_both_engines(urls: tuple[str, str]) -> None:
    """`load` of a file with invalid lines writes, counts and rejects the same on both engines."""
    lines = run("sample", USERS, "User", "--count", "120").stdout_bytes
    rejected = []
    outcomes = []
    for url in urls:
        file = Path("users.jsonl")
        file.write_bytes(lines + BAD_LINES)
        outcomes.append(command_outcome(run("load", USERS, "User", str(file), "--store", url, "--batch", "25")))
        rejected.append(Path("users.jsonl.rejected").read_bytes())
        Path("users.jsonl.rejected").unlink()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 1
    assert rejected[0] == rejected[1]
    assert [json.loads(line)["line"] for line in rejected[0].splitlines()] == [121, 122]

    async def compare_pages(one: Database, other: Database) -> None:
        assert await assert_same_pages(one, other, User.by_first_name) == 120

    run_on_both(urls, compare_pages)


def test_a_record_key_of_one_engine_opens_the_record_on_the_other(urls: tuple[str, str]) -> None:
    """A record key made from a record of one engine opens the same record on the other engine."""
    for url in urls:
        run("load", USERS, "--sample", "30", "--store", url)

    async def open_on_the_other(one: Database, other: Database) -> None:
        user = catalog.entity(User)
        for here, there in ((one, other), (other, one)):
            page = await here.search(User.by_created, limit=30)
            assert len(page.items) == 30
            for found in page.items:
                generation = user.space.generation_at(found.created)
                text = KEY_SEAL.seal(RecordKey(user.name, (found.user_id,), (), here.tenant, generation))
                (user_id,) = KEY_SEAL.open(text, origin=user.name, tenant=there.tenant).ids
                assert await there.get(User, user_id) == found

    run_on_both(urls, open_on_the_other)
