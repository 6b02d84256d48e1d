"""Starts contestants: this code, release 0.1.0, and other servers and libraries."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tests.benchmarks.contestant_process import ROOT, ServerContestant, WorkerContestant, python_module
from tests.benchmarks.dynamodb_index import DynamoIndex
from tests.benchmarks.measurement import RELEASE, THIS_CODE
from tests.benchmarks.release_source import release_source
from tests.benchmarks.sample_rows import user_rows
from tests.support.dynamodb_servers import CREDENTIALS

NODE_FOLDER = ROOT / "tests" / "benchmarks" / "node"


@dataclass(slots=True)
class Contestants:
    """What can be started on this machine, in one folder for databases and logs."""

    folder: Path
    packages: Path | None = None
    """as `scripts/contestants` prints it; None: only contestants that need nothing else"""
    release: Path | None = None
    skipped: list[str] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    # --- what is there -----------------------------------------------------------------------------------------

    @property
    def node(self) -> str | None:
        """Return the program that runs JavaScript, if it and its packages are there."""
        found = shutil.which("node")
        return found if self.packages and (self.packages / "node" / "node_modules").is_dir() else None

    @property
    def codes(self) -> list[str]:
        """Return the names of this code and of the release, if it is there."""
        return [THIS_CODE] if self.release is None else [THIS_CODE, RELEASE]

    def environment(self, code: str = THIS_CODE, shards: int = 16, table: DynamoIndex | None = None) -> dict[str, str]:
        """Return the environment of a process, without the settings of this one."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SHARDQL_", "PYTHON"))}
        paths = [ROOT]
        if code == RELEASE and self.release is not None:
            paths = [self.release, ROOT]
        elif code != THIS_CODE and self.packages is not None:
            paths = [self.packages / "python", ROOT]
        more = {} if table is None else {"BENCH_TABLE": table.to_text()}
        if self.packages is not None:
            more["BENCH_NODE_MODULES"] = str(self.packages / "node" / "node_modules")
        return {
            **inherited,
            **CREDENTIALS,
            **more,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "BENCH_SHARDS": str(shards),
            "COLUMNS": "300",
            "NODE_ENV": "production",
        }

    # --- servers -----------------------------------------------------------------------------------------------

    def product_server(self, code: str, catalog: str, url: str, shards: int) -> ServerContestant:
        """Start this code or the release."""
        words = ("--store", url, "--port", "0", "--log-level", "warning")
        command = python_module("graphql_api.cli", "serve", f"tests.benchmarks.measured_catalog:{catalog}", *words)
        return self._started(
            ServerContestant(code, command, self.environment(code, shards), self.folder, last_word="Ctrl-C")
        )

    def python_server(
        self, name: str, module: str, *words: str, shards: int = 16, table: DynamoIndex | None = None
    ) -> ServerContestant:
        """Start a server of another library."""
        command = python_module(f"tests.benchmarks.{module}", *words)
        return self._started(ServerContestant(name, command, self.environment(name, shards, table), self.folder))

    def yoga_server(self, name: str, *words: str, table: DynamoIndex | None = None) -> ServerContestant:
        """Start graphql-yoga."""
        assert self.node is not None
        command = [self.node, str(NODE_FOLDER / "yoga_server.mjs"), *words]
        return self._started(ServerContestant(name, command, self.environment(name, table=table), self.folder))

    def _started(self, server: ServerContestant) -> ServerContestant:
        self.stack.callback(server.close)
        return server

    # --- workers -----------------------------------------------------------------------------------------------

    def product_worker(self, code: str, shards: int = 16) -> WorkerContestant:
        """Start a worker with this code or the release."""
        command = python_module("tests.benchmarks.product_worker")
        return self._worker(WorkerContestant(code, command, self.environment(code, shards), self.folder))

    def library_worker(self, name: str, table: DynamoIndex | None = None) -> WorkerContestant:
        """Start a worker with other Python libraries."""
        command = python_module("tests.benchmarks.library_worker")
        return self._worker(WorkerContestant(name, command, self.environment(name, table=table), self.folder))

    def node_worker(self, name: str, *words: str) -> WorkerContestant:
        """Start a worker with JavaScript libraries."""
        assert self.node is not None
        command = [self.node, str(NODE_FOLDER / "execution_worker.mjs"), *words]
        return self._worker(WorkerContestant(name, command, self.environment(name), self.folder))

    def _worker(self, worker: WorkerContestant) -> WorkerContestant:
        self.stack.callback(worker.close)
        return worker

    @contextmanager
    def stage(self) -> Iterator[None]:
        """End everything that is started within the block."""
        outer, self.stack = self.stack, ExitStack()
        try:
            with self.stack:
                yield
        finally:
            self.stack = outer

    # --- data --------------------------------------------------------------------------------------------------

    def sqlite_users(self, code: str, shards: int, users: int) -> str:
        """Return the URL of a database with users, made by the code that reads it."""
        file = self.folder / f"{code.replace(' ', '-')}-{shards}-{users}.db"
        url = f"sqlite:///{file}"
        if not file.exists():
            worker = self.product_worker(code, shards)
            worker.call("open", catalog="users", url=url)
            worker.call("put_users", count=users)
            worker.call("close")
            worker.close()
            with sqlite3.connect(file) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        return url

    def rows_file(self, users: int) -> Path:
        """Return a JSON file with all users."""
        file = self.folder / f"users-{users}.json"
        if not file.exists():
            file.write_bytes(orjson.dumps([*user_rows(users)]))
        return file


def make_contestants(folder: Path) -> Contestants:
    """Find out what can run. What cannot is listed as skipped."""
    if sys.platform != "linux":
        raise SystemExit("scripts/bench needs Linux: it reads the CPU time of other processes from its scheduler.")
    named = os.environ.get("BENCH_CONTESTANTS")
    found = Contestants(folder, Path(named) if named else None, release_source("0.1.0"))
    if found.release is None:
        found.skipped.append(f"{RELEASE}: its commit is not in this repository; fetch the whole history")
    if found.packages is None:
        found.skipped.append(
            "Strawberry with aiosqlite, sqlite-utils: run scripts/bench, which installs their packages"
        )
    if found.node is None:
        found.skipped.append("graphql-yoga, graphql-jit: they need node and npm on the PATH")
    return found
