"""Applications that a module creates when it is imported, as in the README."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from graphql_api import asgi
from graphql_api.errors import InvalidSettings
from graphql_api.examples.users import catalog
from graphql_api.server.settings import Settings
from tests.docs.pages import README
from tests.support.asgi_client import request

QUERY = b'{"query": "{ __typename }"}'
MODULE = re.search(r"```python\n(# people\.py\n.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module of the README."""
    assert MODULE is not None
    (tmp_path / "people.py").write_text(MODULE[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python(
    folder: Path, *words: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, without bytecode files."""
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin", **(variables or {})}
    command = [sys.executable, *words]
    return subprocess.run(  # noqa: S603 - Python itself
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=300
    )


def test_importing_writes_nothing(people: Path) -> None:
    """Importing the module of the README creates no files, and tools can read its schema without keys."""
    assert run_python(people, "-c", "import people").returncode == 0
    printed = run_python(
        people, "-m", "graphql_api.cli", "schema", "print", "people:catalog", variables={"SHARDQL_PRODUCTION": "1"}
    )
    assert printed.returncode == 0, printed.stderr
    assert "type User" in printed.stdout
    assert printed.stderr == ""
    assert [path.name for path in people.iterdir()] == ["people.py"]


def test_the_application_uses_the_store_of_the_server(people: Path) -> None:
    """The application of the README, `shardql serve` and `shardql load` have one database by default."""
    script = """
import asyncio
from tests.support.asgi_client import request
from people import app
query = b'{"query": "mutation { createUser(input: {userId: \\\\"u1\\\\", firstName: \\\\"Jo\\\\"}) { user { id } } }"}'
assert '"errors"' not in asyncio.run(request(app, query)).text
"""
    created = run_python(people, "-c", script, variables={"PYTHONPATH": str(Path(__file__).parents[2])})
    assert created.returncode == 0, created.stderr
    names = {path.name.removesuffix("-wal").removesuffix("-shm") for path in people.iterdir()}
    assert names == {
        "people.py",
        *(f"{Settings().store_url.rpartition('/')[2]}{end}" for end in ("", ".token-key", ".record-key")),
    }


async def test_missing_keys_are_an_error_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application without the keys of production is created, does not start, and answers no request."""
    monkeypatch.chdir(tmp_path)
    app = asgi(catalog, production=True)
    with pytest.raises(InvalidSettings, match="Production needs a key"):
        async with app.router.lifespan_context(app):
            raise AssertionError("the application has started")
    for _ in range(2):
        response = await request(app, QUERY)
        assert response.status == 500
        assert '"INVALID_SETTINGS"' in response.text
    assert not list(tmp_path.iterdir())


def test_a_server_without_keys_ends(people: Path) -> None:
    """A server of several processes does not restart for ever when the keys of production are missing."""
    ended = run_python(
        people,
        *("-m", "uvicorn", "people:app", "--workers", "2", "--port", "0", "--no-access-log"),
        variables={"SHARDQL_PRODUCTION": "1"},
    )
    assert "Production needs a key that seals page tokens" in ended.stderr
    assert "Application startup failed" in ended.stderr


def test_concurrent_first_requests(people: Path) -> None:
    """Requests without a lifespan create one key, although they arrive together."""

    async def send() -> None:
        app = asgi(catalog)
        answers = await asyncio.gather(*(request(app, QUERY) for _ in range(5)))
        assert {answer.status for answer in answers} == {200}
        await app.state.opened.close()

    asyncio.run(send())
    assert sorted(path.name for path in people.glob("*-key")) == ["shardql.db.record-key", "shardql.db.token-key"]
