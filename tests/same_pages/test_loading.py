"""The same commands fill both engines with the same records."""

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
from graphql_api.database import Database
from graphql_api.examples.users import Email, User, catalog
from graphql_api.model.markers import IndexRef
from graphql_api.opening import Secrets, open_catalog
from tests.dynamodb_local import CREDENTIALS, REGION, Server
from tests.same_pages.twins import page_view
from tests.same_pages.waivers import check_same

USERS = "graphql_api.examples.users:catalog"
SECRETS = Secrets((b"a secret of thirty-two bytes only",))
KEY_SEAL = RecordKeySeal(b"this secret never changes at all")
BAD_LINES = b'no json\n{"userId": "u"}\n'


@pytest.fixture
def urls(dynamodb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """SQLite, and a table of DynamoDB Local that a command has made."""
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
    """A command as a shell would run it; whatever it did not foresee comes through."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def said(result: Result) -> tuple[int, str]:
    """How a command ended and what it said, without how long it took."""
    return result.exit_code, re.sub(r"[\d.]+ s\b", "", result.stdout)


def same(urls: tuple[str, str], act: Any) -> Any:
    """What comes of an act on both databases, seen at one moment."""

    async def both() -> Any:
        sqlite, dynamodb = (open_catalog(catalog, url, secrets=SECRETS, clock=lambda: 1_800_000_000) for url in urls)
        async with sqlite as one, dynamodb as other:
            return await act(one, other)

    return asyncio.run(both())


async def check_walk(one: Database, other: Database, index: IndexRef, **arguments: Any) -> int:
    """All pages of a search, which are the same on both."""
    token, found = None, 0
    while True:
        pages = [await db.search(index, limit=40, next_token=token, **arguments) for db in (one, other)]
        check_same(*(page_view(page, "created") for page in pages), ties=False)
        found, token = found + len(pages[0].items), pages[0].next_token
        if token is None:
            return found


def test_sample_data_is_the_same(urls: tuple[str, str]) -> None:
    """`load --sample` fills both with records that come on the same pages, by every order."""
    loaded = [run("load", USERS, "--sample", "150", "--store", url) for url in urls]
    assert said(loaded[0]) == said(loaded[1])
    assert loaded[0].exit_code == 0

    async def walks(one: Database, other: Database) -> None:
        for index in (User.by_created, User.by_first_name, User.by_last_name, Email.by_id):
            assert await check_walk(one, other, index) >= 150
        assert await check_walk(one, other, User.by_first_name, prefix="m", reverse=True) > 1

    same(urls, walks)


def test_a_file_is_loaded_alike(urls: tuple[str, str]) -> None:
    """`load` of a file with lines that are no records writes, counts and rejects the same on both."""
    lines = run("sample", USERS, "User", "--count", "120").stdout_bytes
    rejected = []
    said_of_both = []
    for url in urls:
        file = Path("users.jsonl")
        file.write_bytes(lines + BAD_LINES)
        said_of_both.append(said(run("load", USERS, "User", str(file), "--store", url, "--batch", "25")))
        rejected.append(Path("users.jsonl.rejected").read_bytes())
        Path("users.jsonl.rejected").unlink()
    assert said_of_both[0] == said_of_both[1]
    assert said_of_both[0][0] == 1
    assert rejected[0] == rejected[1]
    assert [json.loads(line)["line"] for line in rejected[0].splitlines()] == [121, 122]

    async def walks(one: Database, other: Database) -> None:
        assert await check_walk(one, other, User.by_first_name) == 120

    same(urls, walks)


def test_a_record_key_of_one_engine_opens_the_record_on_the_other(urls: tuple[str, str]) -> None:
    """A record key says nothing of an engine: made of what one has found, it finds the same record on the other."""
    for url in urls:
        run("load", USERS, "--sample", "30", "--store", url)

    async def cross(one: Database, other: Database) -> None:
        user = catalog.entity(User)
        for here, there in ((one, other), (other, one)):
            page = await here.search(User.by_created, limit=30)
            assert len(page.items) == 30
            for found in page.items:
                generation = user.space.generation_at(found.created)
                text = KEY_SEAL.seal(RecordKey(user.name, (found.user_id,), (), here.tenant, generation))
                (user_id,) = KEY_SEAL.open(text, origin=user.name, tenant=there.tenant).ids
                assert await there.get(User, user_id) == found

    same(urls, cross)
