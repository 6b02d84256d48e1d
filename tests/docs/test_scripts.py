"""The scripts that start the server and the checks."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graphql_api import examples
from graphql_api.model.catalog import load_catalog
from tests.docs.pages import ROOT

USERS, ORDERS = "graphql_api.examples.users:catalog", "graphql_api.examples.orders:catalog"


@pytest.fixture
def serve(tmp_path: Path) -> Path:
    """Return a copy of `scripts/serve` with a fake Python that prints its arguments."""
    script = tmp_path / "scripts" / "serve"
    python = tmp_path / ".venv" / "bin" / "python"
    for file in (script, python):
        file.parent.mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "serve", script)
    script.with_name("environment").write_text('cd "$(dirname "$0")/.."\n')
    python.write_text('#!/bin/sh\necho "$SHARDQL_STORE $*"\n')
    python.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("words", "store", "expected"),
    [
        ((), None, f"sqlite:///users.db -m graphql_api.cli serve {USERS} --sample 5000"),
        (("--port", "0"), None, f"sqlite:///users.db -m graphql_api.cli serve {USERS} --sample 5000 --port 0"),
        ((ORDERS,), None, f"sqlite:///orders.db -m graphql_api.cli serve {ORDERS} --sample 5000"),
        (
            (ORDERS, "--sample", "9"),
            "sqlite:///own.db",
            f"sqlite:///own.db -m graphql_api.cli serve {ORDERS} --sample 5000 --sample 9",
        ),
    ],
)
def test_serve_takes_a_catalog(serve: Path, words: tuple[str, ...], store: str | None, expected: str) -> None:
    """`scripts/serve` serves the users or the given catalog. The default store is named after the catalog."""
    environment = {name: value for name, value in os.environ.items() if name != "SHARDQL_STORE"}
    completed = subprocess.run(  # noqa: S603 - a script of this repository
        [serve, *words],
        env=environment | ({"SHARDQL_STORE": store} if store else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == expected


def test_every_example_is_in_the_checked_schema() -> None:
    """The check of `schema.graphql` includes the catalog of every example."""
    modules = sorted(path.stem for folder in examples.__path__ for path in Path(folder).glob("[a-z]*.py"))
    catalogs = [
        f"graphql_api.examples.{module}:catalog"
        for module in modules
        if "catalog = Catalog(" in (ROOT / "graphql_api" / "examples" / f"{module}.py").read_text(encoding="utf-8")
    ]
    assert {USERS, ORDERS} <= {*catalogs}
    assert all(load_catalog(address).entities for address in catalogs)
    checks = (ROOT / "scripts" / "check").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in checks if " schema check " in line]
    assert {*line.partition(" schema check ")[2].split()} == {*catalogs}
