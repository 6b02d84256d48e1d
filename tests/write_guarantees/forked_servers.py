"""Server processes that start quickly, as forks of a process that has already imported all modules.

`with start_forker() as forker: forker.serve(folder, CATALOG, "--store", url)` is like `shardql serve`, but
starts faster.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.server.server_processes import LAST_LINE, environment
from tests.support.dynamodb_servers import ROOT
from tests.support.loopback import TIMEOUT
from tests.write_guarantees.faulty_store import faulty_opener

_POLL_SECONDS = 0.005
NO_FAULTS: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs or has run."""

    pid: int
    url: str
    log: Path

    @property
    def address(self) -> str:
        """The URL of the server without path."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"

    def kill(self) -> None:
        """Kills the process without any cleanup, like a power failure."""
        _end(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Lets the process end after its requests."""
        _end(self.pid, signal.SIGTERM)


class ServerForker:
    """The client side of the process that forks servers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._count = 0

    def start(
        self, folder: Path, *arguments: str, faults: Mapping[str, float] = NO_FAULTS, **variables: str
    ) -> "StartingServer":
        """Starts a server with these arguments over a store with faults. Does not wait until it listens."""
        self._count += 1
        output, log = folder / f"output-{self._count}", folder / f"log-{self._count}"
        files = {"folder": str(folder), "output": str(output), "log": str(log)}
        request = {**files, "arguments": arguments, "variables": variables, "faults": dict(faults)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return StartingServer(int(self._process.stdout.readline()), output, log)

    def serve(self, folder: Path, *arguments: str, **variables: str) -> Server:
        """Starts a server over a store without faults, and waits until it listens."""
        return self.start(folder, *arguments, faults=NO_FAULTS, **variables).wait_until_ready()


@dataclass(frozen=True, slots=True)
class StartingServer:
    """A server that may not listen yet."""

    pid: int
    output: Path
    log: Path

    def kill(self) -> None:
        """Kills the process, even if it does not listen yet."""
        _end(self.pid, signal.SIGKILL)

    def wait_until_ready(self) -> Server:
        """Waits until the server listens, and returns it."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            text = self.output.read_text() if self.output.exists() else ""
            if text.endswith(f"{LAST_LINE}\n"):
                (line,) = [line for line in text.splitlines() if line.startswith("Serving ")]
                return Server(self.pid, line.split()[-1], self.log)
            alive = _exists(self.pid)
            assert alive, f"the server did not start: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"the server does not listen: {self.log.read_text()}"
            time.sleep(_POLL_SECONDS)


@contextmanager
def start_forker(**variables: str) -> Iterator[ServerForker]:
    """Starts the process. At the end it and all its servers are stopped."""
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.write_guarantees.forked_servers"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(**variables),
    )
    try:
        yield ServerForker(process)
    finally:
        process.communicate(timeout=TIMEOUT)


def cpu_wait_seconds(pid: int) -> float:
    """The time that a process was runnable but waited for a CPU. 0 if the system does not report it."""
    waited = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # The thread has ended.
            waited += int(thread.read_text().split()[1])
    return waited / 1e9


def _end(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + TIMEOUT
    while _exists(pid):
        assert time.monotonic() < deadline, "the server does not end"
        time.sleep(_POLL_SECONDS)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- forking process -------------------------------------------------------------------------------------------


def _fork_servers() -> None:
    """Forks a server for each line of the input. Kills all of them at its end."""
    from graphql_api.cli.process import serve_startup  # noqa: F401, PLC0415 - imports slow modules once, here

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children leave no zombies
    children: list[int] = []
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _serve(request)
        children.append(child)
        print(child, flush=True)  # noqa: T201 - the reply
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _serve(request: Mapping[str, Any]) -> None:
    """Runs a server and exits."""
    code = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, path in ((1, request["output"]), (2, request["log"])):
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(request["folder"])
        os.environ.update(request["variables"])
        from graphql_api.cli import app  # noqa: PLC0415 - only the child needs it
        from graphql_api.storage.engines import registry  # noqa: PLC0415 - likewise

        if request["faults"]:
            setattr(registry, "open_store", faulty_opener(registry.open_store, **request["faults"]))  # noqa: B010 - a direct assignment is a type error
        code = app(["serve", *request["arguments"], "--port", "0"], standalone_mode=False) or 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    _fork_servers()
