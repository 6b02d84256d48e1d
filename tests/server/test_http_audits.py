"""The GraphQL-over-HTTP audits of the specification's authors, against the example catalog on a real server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphql_api.examples.users import catalog
from tests.docs.pages import ROOT
from tests.server.catalog_server import start_server

RUNNER = Path(__file__).parent / "audits" / "run.cjs"
AUDITS = 61
SECONDS = 120.0


def unavailable(why: str) -> None:
    """Skip the test. In continuous integration, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the audits of GraphQL over HTTP must run here: {why}")
    pytest.skip(f"the audits of GraphQL over HTTP do not run: {why}")


@pytest.fixture(scope="module")
def audit_package() -> str:
    """Return the folder of the audits."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            unavailable(f"there is no {tool}")
    fetched = subprocess.run(  # noqa: S603 - a script of this repository
        [ROOT / "scripts" / "graphql-http-audits"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if fetched.returncode:
        unavailable(f"scripts/graphql-http-audits fails: {fetched.stderr[-300:]}")
    return fetched.stdout.strip()


@pytest.fixture(scope="module")
def results(audit_package: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the result of each audit."""
    folder = tmp_path_factory.mktemp("audits")
    with start_server(catalog, f"sqlite:///{folder}/a.db") as server:
        completed = subprocess.run(  # noqa: S603 - a script of this repository
            [shutil.which("node") or "node", RUNNER, audit_package, server.url],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert completed.returncode == 0, completed.stderr
    found: list[dict[str, Any]] = json.loads(completed.stdout)
    return found


def test_all_audits(results: list[dict[str, Any]]) -> None:
    """The server passes every audit, including recommendations."""
    failed = [f"{one['id']} {one['name']}: {one['reason']}" for one in results if one["status"] != "ok"]
    assert not failed, "\n".join(failed)
    assert len({one["id"] for one in results}) == len(results) == AUDITS
