"""`shardql serve` as a process of its own, in a folder of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import graphql_api
from tests.api.running import PATIENCE

USERS = "graphql_api.examples.users:catalog"
ROOT = Path(graphql_api.__file__).parents[1]
LAST_LINE = "Press Ctrl-C to stop."
KEY = bytes(range(32)).hex()


@dataclass(frozen=True, slots=True)
class Process:
    """A server that runs, or has run."""

    running: subprocess.Popen[str]
    said: str
    """on its output, until it listened"""
    log: Path

    @property
    def url(self) -> str:
        """As it printed it."""
        (found,) = re.findall(r"^Serving \S+ at (\S+)$", self.said, re.MULTILINE)
        return str(found)

    @property
    def address(self) -> str:
        return self.url.removesuffix("/graphql")

    def ask(self, query: str, **more: Any) -> Any:
        """The body of the reply to an operation."""
        return httpx.post(self.url, json={"query": query, **more}, timeout=PATIENCE).json()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code after a signal."""
        self.running.send_signal(number)
        return self.running.wait(PATIENCE)


def environment(**variables: str) -> Mapping[str, str]:
    """What a process finds around it: nothing of the settings where the tests run."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SHARDQL_")}
    return {**inherited, "PYTHONPATH": os.pathsep.join([str(ROOT), "."]), "COLUMNS": "300", **variables}


def command(*words: str) -> list[str]:
    """The words that serve a catalog."""
    return [sys.executable, "-m", "graphql_api.cli", "serve", *words]


@contextmanager
def serving(folder: Path, *words: str, **variables: str) -> Iterator[Process]:
    """A server that listens at a free port; at the end it is made sure that it is gone."""
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own words
            command(*words, "--port", "0"),
            cwd=folder,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if line.strip() == LAST_LINE:
                break
        else:
            raise AssertionError(f"the server did not start: {log.read_text()}")
        yield Process(process, said, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


def failing(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A server that does not start."""
    return subprocess.run(  # noqa: S603 - our own words
        command(*words),
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
