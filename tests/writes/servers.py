"""Servers that are processes of their own and start quickly: children of one that has imported everything already.

`with mother() as servers: servers.serve(folder, CATALOG, "--store", url)` is `shardql serve`, without the time that it
takes to import.
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

from tests.api.processes import LAST_LINE, environment
from tests.api.running import PATIENCE
from tests.dynamodb_local import ROOT
from tests.writes.troubles import troubled

_LOOK_SECONDS = 0.005
NONE: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, or has run."""

    pid: int
    url: str
    log: Path

    @property
    def address(self) -> str:
        """Of the server, without the path."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"

    def kill(self) -> None:
        """Ends it as a power cut would: it gets to do nothing more."""
        _kill(self.pid)


class Mother:
    """The process that has the servers, seen from the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._born = 0

    def begin(self, folder: Path, *words: str, troubles: Mapping[str, float] = NONE, **variables: str) -> "Coming":
        """Has a server that serves what these words say, over a store with troubles; does not wait until it listens."""
        self._born += 1
        said, log = folder / f"said-{self._born}", folder / f"log-{self._born}"
        files = {"folder": str(folder), "said": str(said), "log": str(log)}
        wish = {**files, "words": words, "variables": variables, "troubles": dict(troubles)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wish) + "\n")
        self._process.stdin.flush()
        return Coming(int(self._process.stdout.readline()), said, log)

    def serve(self, folder: Path, *words: str, **variables: str) -> Server:
        """Has a server on a healthy store, and waits until it listens."""
        return self.begin(folder, *words, troubles=NONE, **variables).here()


@dataclass(frozen=True, slots=True)
class Coming:
    """A server that may not listen yet."""

    pid: int
    said: Path
    log: Path

    def kill(self) -> None:
        """Ends it, whether it listens or not."""
        _kill(self.pid)

    def here(self) -> Server:
        """The server, as soon as it listens."""
        ends = time.monotonic() + PATIENCE
        while True:
            text = self.said.read_text() if self.said.exists() else ""
            if text.endswith(f"{LAST_LINE}\n"):
                (line,) = [line for line in text.splitlines() if line.startswith("Serving ")]
                return Server(self.pid, line.split()[-1], self.log)
            alive = _is_there(self.pid)
            assert alive, f"the server did not start: {self.log.read_text()}"
            assert time.monotonic() < ends, f"the server does not listen: {self.log.read_text()}"
            time.sleep(_LOOK_SECONDS)


@contextmanager
def mother(**variables: str) -> Iterator[Mother]:
    """Starts the process; at the end it is gone with all its servers."""
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.writes.servers"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(**variables),
    )
    try:
        yield Mother(process)
    finally:
        process.communicate(timeout=PATIENCE)


def seconds_in_line(pid: int) -> float:
    """How long a process could have run and had to wait for others, since it began; 0 where the system says nothing."""
    waited = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # It has ended meanwhile.
            waited += int(thread.read_text().split()[1])
    return waited / 1e9


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    ends = time.monotonic() + PATIENCE
    while _is_there(pid):
        assert time.monotonic() < ends, "the server does not go"
        time.sleep(_LOOK_SECONDS)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- the process -----------------------------------------------------------------------------------------------


def _bear() -> None:
    """Has one server for each line that it reads; when there are no more, all of them end."""
    from graphql_api.cli.process import serve_startup  # noqa: F401, PLC0415 - what takes long is done once, here

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever has ended is gone at once
    children: list[int] = []
    for line in sys.stdin:
        wish = json.loads(line)
        child = os.fork()
        if not child:
            _serve(wish)
        children.append(child)
        print(child, flush=True)  # noqa: T201 - the answer
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _serve(wish: Mapping[str, Any]) -> None:
    """A server, from its start to its end."""
    code = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, path in ((1, wish["said"]), (2, wish["log"])):
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(wish["folder"])
        os.environ.update(wish["variables"])
        from graphql_api import opening  # noqa: PLC0415 - only the child needs it
        from graphql_api.cli import app  # noqa: PLC0415 - likewise
        from graphql_api.storage import engines  # noqa: PLC0415 - likewise

        if wish["troubles"]:
            setattr(opening, "open_store", troubled(engines.open_store, **wish["troubles"]))  # noqa: B010 - of its own type
        code = app(["serve", *wish["words"], "--port", "0"], standalone_mode=False) or 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    _bear()
