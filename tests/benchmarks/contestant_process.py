"""Processes of contestants: servers that listen on loopback, and workers that execute calls from their input."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.benchmarks.cpu_time import cpu_seconds, process_tree, resident_bytes

ROOT = Path(__file__).parents[2]
_URL = re.compile(r"http://127\.0\.0\.1:[0-9]+[^ \n]*")
_SECONDS_TO_END = 20.0


class ContestantProcess:
    """A running process, whose CPU time can be read."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self._log = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.log"
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - a command of the benchmark
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._pids: list[int] | None = None

    @property
    def pids(self) -> list[int]:
        """Return the process and its descendants, as of the first call."""
        if self._pids is None:
            self._pids = process_tree(self._process.pid)
        return self._pids

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pids)

    def resident_bytes(self, field: str = "VmRSS") -> int:
        return resident_bytes(self.pids, field)

    def read_line(self) -> str:
        """Read a line of the output. Fail with the log if the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"{self.name} has ended: {self._log.read_text()[-3000:]}")
        return line

    def write_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class ServerContestant(ContestantProcess):
    """A server. It is ready when it has printed its URL, and for ShardQL the last line of its banner."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, last_word: str = ""
    ) -> None:
        super().__init__(name, command, environment, folder)
        self.url = ""
        line = ""
        try:
            while not self.url or last_word not in line:
                line = self.read_line()
                found = _URL.search(line)
                self.url = self.url or (found.group() if found else "")
        except BaseException:
            self.close()
            raise


class WorkerContestant(ContestantProcess):
    """A worker: it executes a call, and answers with one line of JSON."""

    def call(self, function: str, **arguments: Any) -> Any:
        """Execute a function of the worker and return its result."""
        self.write_line(json.dumps({"call": function, "arguments": arguments}))
        return json.loads(self.read_line())["result"]


def python_module(module: str, *words: str) -> list[str]:
    """Return the command that runs a module with the Python of this process."""
    return [sys.executable, "-m", module, *words]
