"""Commands of how-to pages that need a running server: authentication.md, operations.md and projections.md."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphql_api.examples import users
from tests.docs.page_commands import CommandRunner, marked_blocks
from tests.docs.pages import ROOT
from tests.server.server_processes import KEY, ServerProcess, environment, server_process
from tests.support.dynamodb_servers import Server

HOW_TO = ROOT / "docs" / "how-to"
ADDRESSES = ("http://127.0.0.1:8000", "http://localhost:8000", "https://api.example.com")
API_KEY = "a-key-of-at-least-twenty-characters"


def block(page: str, start: str) -> str:
    """Return the shell block of a page that starts with this text."""
    texts = [text for _, _, text in marked_blocks(HOW_TO / page)]
    (found,) = [text for text in texts if text.startswith(start)]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the module of projections.md, and an API key of a feed."""
    folder = tmp_path_factory.mktemp("served")
    page = (HOW_TO / "projections.md").read_text("utf-8")
    first = page.partition("```python\n")[2].partition("```")[0]
    (folder / "shop.py").write_text(first, encoding="utf-8")
    (folder / "keys.json").write_text(json.dumps([{"key": API_KEY, "subject": "feed", "groups": ["Feed"]}]))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """A server of this module in development."""
    with server_process(folder, "shop:graph", SHARDQL_API_KEYS_FILE="keys.json") as server:
        yield server


def run_shell(folder: Path, text: str, server: ServerProcess | None = None, **variables: str) -> str:
    """Run a block in a shell, with the address of the server in place of the one on the page."""
    for address in ADDRESSES:
        text = text.replace(address, "" if server is None else server.address)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    line = [str(shutil.which("sh")), "-euc", text]
    done = subprocess.run(  # noqa: S603 - the commands of our own pages
        line, cwd=folder, env=environment(PATH=path, **variables), capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def test_a_key_and_its_digest(folder: Path) -> None:
    """The commands print a new key, and the digest that the file of API keys on the page would have for a key."""
    key, digest = run_shell(folder, block("authentication.md", "openssl rand"), KEY=API_KEY).split("\n", 1)
    assert len(key) >= 20
    assert re.fullmatch(r"[0-9a-f]{64}  -\n", digest)


def test_a_development_token(folder: Path, server: ServerProcess) -> None:
    """The token is accepted by the server."""
    assert json.loads(run_shell(folder, block("authentication.md", "TOKEN="), server)) == {
        "data": {"__typename": "Query"}
    }


def test_posted_events(folder: Path, server: ServerProcess) -> None:
    """The event is applied, and the response is the one that the page shows."""
    answer = run_shell(folder, block("projections.md", "curl -X POST"), server, KEY=API_KEY)
    assert json.loads(answer) == {"projections": {"accounts": {"applied": 1, "repeated": 0, "deadLetters": []}}}
    assert '"applied": 1, "repeated": 0, "deadLetters": []' in (HOW_TO / "projections.md").read_text("utf-8")


def test_compared_metrics(folder: Path, server: ServerProcess) -> None:
    """The metrics are saved, and compared with those of the same server after more operations."""
    save, compare = block("operations.md", "curl -s").splitlines()
    query = '{ accountByOwner(owner: "ann") { items { accountId } } }'
    assert "data" in server.execute(query)
    run_shell(folder, save, server)
    assert "data" in server.execute(query)
    assert f"after   {server.address}" in run_shell(folder, compare, server)


def test_the_first_command_of_operations(tmp_path: Path, dynamodb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server starts in production, with keys from files and a table of DynamoDB."""
    monkeypatch.setitem(sys.modules, "app", users)
    text = block("operations.md", "SHARDQL_TOKEN_KEYS_FILE=")
    for name in ("token-keys", "record-key"):
        (tmp_path / name).write_text(KEY)
    local = text.replace("/run/secrets", str(tmp_path)).replace("--host 0.0.0.0", "")
    printed = CommandRunner(tmp_path, lambda: dynamodb).run(local)
    assert any("mode" in line and "production" in line for line in printed), printed
