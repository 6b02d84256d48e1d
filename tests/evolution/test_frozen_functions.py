"""A function of AWS Lambda that is frozen between its events neither writes nor answers under an expired lease."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphql_api import open_catalog
from graphql_api.evolution import read_record
from graphql_api.storage.engines import opened_store
from tests.evolution.test_stopped_processes import (
    NEWER,
    OLDER,
    SEARCH,
    SECRETS,
    TOWN,
    TOWNS,
    UPDATE,
    VARIABLES,
    Stage,
    searches_towns,
    staged,
)
from tests.server.lambda_events import HttpRequest, function_url
from tests.server.server_processes import KEY, environment
from tests.support.dynamodb_servers import CREDENTIALS, ROOT, Server

BRIEF_LEASE = 0.4
"""seconds; a function needs no renewals between its events"""
FUNCTION = """
import json, sys
from graphql_api import aws_lambda
from tests.evolution import test_stopped_processes as releases

handler = aws_lambda(getattr(releases, sys.argv[1]), sys.argv[2])
for line in sys.stdin:
    print(json.dumps(handler(json.loads(line), None)), flush=True)
"""
"""It reads an event from each line, as the runtime of Lambda gets one from its API."""


class Function:
    """A process that answers events, and is stopped whenever it has none, as Lambda freezes it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.freeze()

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def execute(self, query: str) -> tuple[Any, set[str]]:
        """The only field of a response, and the codes of its errors, which are all retryable."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        event = function_url(HttpRequest(body=json.dumps({"query": query}).encode()))
        self._process.stdin.write(json.dumps(event) + "\n")
        self._process.stdin.flush()
        os.kill(self._process.pid, signal.SIGCONT)
        answer = json.loads(json.loads(self._process.stdout.readline())["body"])
        self.freeze()
        errors = [error["extensions"] for error in answer.get("errors", ())]
        assert all(error.get("retryable") for error in errors), answer
        return None if errors else next(iter(answer["data"].values())), {error["code"] for error in errors}


@contextmanager
def function(release: str, url: str) -> Iterator[Function]:
    """Start a function that serves a release."""
    variables = {"SHARDQL_PRODUCTION": "1", "SHARDQL_ALLOWED_HOSTS": "*", **VARIABLES}
    keys = {"SHARDQL_TOKEN_KEYS": KEY, "SHARDQL_RECORD_KEY": KEY}
    with subprocess.Popen(  # noqa: S603 - the program above
        [sys.executable, "-c", FUNCTION, release, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(**variables, **keys),
        text=True,
    ) as process:
        try:
            yield Function(process)
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def through(stage: Stage) -> str:
    """The URL of the table through the proxy."""
    return f"{stage.url(stage.proxy.endpoint)}&attempts=2"


async def test_a_frozen_function_does_not_write(dynamodb: Server) -> None:
    """A function with an older catalog maintains an index that was built while it was frozen, or refuses the write."""
    async with staged(dynamodb, OLDER, searches_towns, has_reply=True, lease_seconds=BRIEF_LEASE) as stage:
        with function("OLDER", through(stage)) as frozen:
            assert (await in_thread(frozen, '{ user(id: "u0") { town } }')) == ({"town": "Bern"}, set())
            await stage.migrate(NEWER)
            items, stage.is_cut = await stage.items(), True
            assert await in_thread(frozen, UPDATE) == (None, {"STORE_UNAVAILABLE"})
            assert await stage.items() == items
            stage.is_cut = False
            assert await in_thread(frozen, UPDATE) == ({"user": {"town": "Oslo"}}, set())
        assert await stage.found("Oslo") == ["u0", "u1", "u3", "u5"]
        assert await stage.found("Bern") == ["u2", "u4"]


async def test_a_frozen_function_does_not_answer(dynamodb: Server) -> None:
    """A function does not answer by an index that was dropped while it was frozen for longer than the read lease."""
    async with staged(dynamodb, NEWER, searches_towns, has_reply=True, lease_seconds=BRIEF_LEASE) as stage:
        with function("NEWER", through(stage)) as frozen:
            found, _ = await in_thread(frozen, SEARCH)
            assert len(found["items"]) == 3
            await stage.migrate(OLDER, drop=True)
            stage.is_cut = True
            assert await in_thread(frozen, SEARCH) == (None, {"STORE_UNAVAILABLE"})
            stage.is_cut = False
            assert await in_thread(frozen, SEARCH) == (None, {"NOT_READY"})


async def test_a_frozen_function_on_sqlite(tmp_path: Path) -> None:
    """On SQLite, the first event after a freeze acts on the table as it is: an index is maintained, or not ready."""
    url = f"sqlite:///{tmp_path}/users.db"
    user: Any = OLDER.entity("User").model
    async with open_catalog(OLDER, url, secrets=SECRETS) as db:
        await db.put_many([user(user_id=f"u{n}", town=TOWNS[n % 2]) for n in range(6)])
    with function("OLDER", url) as frozen:
        assert (await in_thread(frozen, '{ user(id: "u0") { town } }')) == ({"town": "Bern"}, set())
        async with open_catalog(NEWER, url, secrets=SECRETS) as db:
            newer: Any = NEWER.entity("User").model
            assert await in_thread(frozen, UPDATE) == ({"user": {"town": "Oslo"}}, set())
            found = await db.search(newer.by_town, town="Oslo")
            assert [record.user_id for record in found.items] == ["u0", "u1", "u3", "u5"]
    async with opened_store(url) as store:
        record = await read_record(store)
    assert record is not None
    assert record.elements[TOWN].state == "ready"


async def in_thread(frozen: Function, query: str) -> tuple[Any, set[str]]:
    """Execute an operation while the proxy of the test runs."""
    return await asyncio.to_thread(frozen.execute, query)
