"""Runs mypy and pyright on files as a user does, and returns the errors by file and line."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from tests.docs.pages import ROOT

Errors = Mapping[str, Mapping[int, Sequence[str]]]
"""messages by name of the file and line"""

_MESSAGE = re.compile(r"^([^:]+):(\d+): error: (.+?)(?:  \[[\w-]+\])?$", re.MULTILINE)


def run_mypy(folder: Path, *words: str) -> Errors:
    """Return the errors of `mypy --strict` in a folder."""
    # The cache holds what other options do not change: the packages.
    options = ["--strict", "--no-pretty", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache" / "strict")]
    command = [sys.executable, "-m", "mypy", *options, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - mypy
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr
    return _by_line((path, int(line), text) for path, line, text in _MESSAGE.findall(done.stdout))


def run_pyright(folder: Path) -> Errors:
    """Return the errors of pyright on all files of a folder. Skip the test if pyright is not installed."""
    program = [_program("node"), str(_pyright() / "pyright" / "index.js")]
    command = [*program, "--outputjson", "--pythonpath", sys.executable, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - pyright
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return _by_line(
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"])
        for one in found
        if one["severity"] == "error"
    )


def _by_line(messages: Iterable[tuple[str, int, str]]) -> Errors:
    errors: dict[str, dict[int, list[str]]] = {}
    for path, line, text in messages:
        errors.setdefault(path, {}).setdefault(line, []).append(text)
    return errors


def _pyright() -> Path:
    """Return the folder of packages that `scripts/pyright` has installed."""
    folders = sorted((ROOT / ".pyright").glob("*/node_modules"), key=lambda one: one.stat().st_mtime)
    return folders[-1] if folders else _unavailable("run scripts/pyright")


def _program(name: str) -> str:
    return shutil.which(name) or _unavailable(f"there is no {name}")


def _unavailable(why: str) -> NoReturn:
    """Skip the test. In continuous integration, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"pyright must run here: {why}")
    pytest.skip(f"pyright does not run: {why}")
