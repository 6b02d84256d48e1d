"""Run `shardql serve` in a separate process and folder."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import graphql_api
from tests.support.cpu_quota import cpu_quota
from tests.support.loopback import TIMEOUT

USERS = "graphql_api.examples.users:catalog"
ROOT = Path(graphql_api.__file__).parents[1]
LAST_LINE = "Press Ctrl-C to stop."
KEY = bytes(range(32)).hex()


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server process that runs or has ended."""

    process: subprocess.Popen[str]
    output: str
    """Its standard output until it was ready."""
    log: Path

    @property
    def url(self) -> str:
        """Return the URL that it printed."""
        (found,) = re.findall(r"^Serving \S+ at (\S+)$", self.output, re.MULTILINE)
        return str(found)

    @property
    def address(self) -> str:
        return self.url.removesuffix("/graphql")

    def execute(self, query: str, **more: Any) -> Any:
        """Return the response body of an operation."""
        return httpx.post(self.url, json={"query": query, **more}, timeout=TIMEOUT).json()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT)


def environment(**variables: str) -> Mapping[str, str]:
    """Return the environment of a subprocess, without the settings of the test run."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SHARDQL_")}
    return {**inherited, "PYTHONPATH": os.pathsep.join([str(ROOT), "."]), "COLUMNS": "300", **variables}


def command(*words: str) -> list[str]:
    """Return the command line that serves a catalog."""
    return [sys.executable, "-m", "graphql_api.cli", "serve", *words]


def server_process(folder: Path, *words: str, **variables: str) -> AbstractContextManager[ServerProcess]:
    """Start a server at a free port. At the end, ensure that the process has ended."""
    return limited_server_process(folder, 1, *words, **variables)


@contextmanager
def limited_server_process(folder: Path, cpu_share: float, *words: str, **variables: str) -> Iterator[ServerProcess]:
    """Start a server with a share of a CPU."""
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            command(*words, "--port", "0"),
            cwd=folder,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        with cpu_quota(process.pid, cpu_share) if cpu_share < 1 else nullcontext():
            output = ""
            for line in process.stdout:
                output += line
                if line.strip() == LAST_LINE:
                    break
            else:
                raise AssertionError(f"the server did not start: {log.read_text()}")
            yield ServerProcess(process, output, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(TIMEOUT)
        process.stdout.close()


def run_failing_server(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a server that fails to start."""
    return subprocess.run(  # noqa: S603 - a fixed command
        command(*words),
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def wait_until_refused(address: str) -> None:
    """Wait until connections to an address are refused."""
    host, _, port = address.removeprefix("http://").partition(":")
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        with closing(socket.socket()) as probe:
            if probe.connect_ex((host, int(port))):
                return
        time.sleep(0.02)
    raise AssertionError("the server still listens")
