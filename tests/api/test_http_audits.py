"""The audits of GraphQL over HTTP by the makers of its specification, against the example catalog on a real server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graphql_api.examples.users import catalog
from tests.api.server import served
from tests.docs.pages import ROOT

RUNNER = Path(__file__).parent / "audits" / "run.cjs"
AUDITS = 61
SECONDS = 120.0


def unavailable(why: str) -> None:
    """Skips where the audits cannot run; fails where they must."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the audits of GraphQL over HTTP must run here: {why}")
    pytest.skip(f"the audits of GraphQL over HTTP do not run: {why}")


@pytest.fixture(scope="module")
def package() -> str:
    """The folder of the audits."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            unavailable(f"there is no {tool}")
    fetched = subprocess.run(  # noqa: S603 - our own script
        [ROOT / "scripts" / "graphql-http-audits"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if fetched.returncode:
        unavailable(f"scripts/graphql-http-audits fails: {fetched.stderr[-300:]}")
    return fetched.stdout.strip()


@pytest.fixture(scope="module")
def results(package: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each audit says."""
    folder = tmp_path_factory.mktemp("audits")
    with served(catalog, f"sqlite:///{folder}/a.db") as server:
        ran = subprocess.run(  # noqa: S603 - our own script
            [shutil.which("node") or "node", RUNNER, package, server.url],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def test_all_audits(results: list[dict[str, Any]]) -> None:
    """The server passes every audit, those that are mere recommendations included."""
    failed = [f"{one['id']} {one['name']}: {one['reason']}" for one in results if one["status"] != "ok"]
    assert not failed, "\n".join(failed)
    assert len({one["id"] for one in results}) == len(results) == AUDITS
