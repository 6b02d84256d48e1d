"""The tutorial works as written: its files, commands and queries give the results that it shows."""

import asyncio
import json
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphql_api import asgi
from tests.docs.tutorial_script import blocks, commands, files
from tests.support.cli_runner import run

STORE = "sqlite:///library.db"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the tutorial saves, as the working directory."""
    for name, text in files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "library", raising=False)
    return tmp_path


def words_of(name: str) -> list[list[str]]:
    """Return the words of each `shardql` command with this name in the tutorial."""
    lines = [line for line in commands() if line.startswith(f"shardql {name} ")]
    return [shlex.split(line)[1:] for line in lines if "--sample" not in line]


def steps() -> list[tuple[str, Any]]:
    """Return each query of the tutorial with the response that it shows."""
    return [
        (query, json.loads(response))
        for (language, query), (next_language, response) in pairwise(blocks())
        if (language, next_language) == ("graphql", "json")
    ]


async def responses(catalog: Any, queries: Sequence[str]) -> list[Any]:
    """Return the responses of the server. The last token replaces `…` in a query, and `…` the token in a response."""
    app = asgi(catalog, STORE)
    token = ""
    answers = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost:8000") as client,
    ):
        for query in queries:
            answers.append((await client.post("/graphql", json={"query": query.replace("…", token)})).json())
            page = answers[-1].get("data", {}).get("bookByTitle")
            if page and page["nextToken"]:
                token, page["nextToken"] = page["nextToken"], "…"
    assert token
    return answers


def test_queries_give_the_responses_shown(folder: Path) -> None:
    """Every query returns what the tutorial shows, after the files are loaded by its commands."""
    for words in words_of("load"):
        assert run(*words).exit_code == 0
    catalog = import_module("library").catalog
    queries, shown = zip(*steps(), strict=True)
    assert len(queries) == 5
    assert asyncio.run(responses(catalog, queries)) == list(shown)


def test_commands_run(folder: Path) -> None:
    """Doctor finds no problem in the catalog, and `explain` prints the plan shown."""
    assert run("doctor", "library:catalog").exit_code == 0
    (explain,) = words_of("explain")
    (shown,) = [text for language, text in blocks() if language == "text"]
    printed = run(*explain).output.splitlines()
    assert [line.rstrip() for line in printed if line.strip()][1:] == shown.splitlines()


def test_serve_command_names_the_loaded_store() -> None:
    """The server of the tutorial serves the store that its commands load."""
    assert words_of("serve") == [["serve", "library:catalog", "--store", STORE]]
    assert all(words[-1] == STORE for words in words_of("load"))
