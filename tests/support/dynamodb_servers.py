"""Local servers with the DynamoDB protocol, for tests: AWS's DynamoDB Local and moto."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import aioboto3
import pytest

from graphql_api.storage.engines.dynamodb import DynamoSettings, DynamoStore, open_dynamodb
from graphql_api.storage.values import TableDefinition
from tests.support.engines_report import DID_NOT_RUN
from tests.support.loopback import free_port

ROOT = Path(__file__).parents[2]
ENGINE = "dynamodb-local"
"""the engine name in reports and test parameters"""
REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": REGION}
"""accepted by both servers, for tests that open a store by its URL"""

LENIENT_SETTINGS = DynamoSettings(
    deadline=60.0, connect_seconds=10.0, read_seconds=30.0, attempts=12, breaker_failures=100, table_pause=0.2
)
"""generous timeouts, so that a loaded machine does not fail tests of behaviour"""

_START_SECONDS = 60.0


class ServerUnavailable(Exception):
    """The server cannot be started on this machine. The message gives the reason."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    endpoint: str

    async def open(self, table: str, settings: DynamoSettings = LENIENT_SETTINGS, **more: Any) -> DynamoStore:
        """Opens a store on one table."""
        given = {"region": REGION, "endpoint": self.endpoint, "session": session(), "random": Random(1)}
        return await open_dynamodb(table, settings=settings, **{**given, **more})

    async def create_table(self, table: str, definition: TableDefinition) -> None:
        """Creates a table that several tests share."""
        store = await self.open(table)
        try:
            await store.ensure_table(definition)
        finally:
            await store.close()


@cache
def session() -> aioboto3.Session:
    """A session with dummy credentials. It caches the driver's service models, so that opening a store is fast."""
    return aioboto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=REGION)  # noqa: S106 - dummy


def find_local() -> Path:
    """The folder with the jar of DynamoDB Local."""
    named = os.environ.get("SHARDQL_DYNAMODB_LOCAL")
    folders = [Path(named)] if named else sorted((ROOT / ".dynamodb-local").glob("**/dynamodb_local_*"))
    for folder in folders:
        if (folder / "DynamoDBLocal.jar").is_file():
            return folder
    if named:
        raise ServerUnavailable(f"SHARDQL_DYNAMODB_LOCAL is {named}, and there is no DynamoDBLocal.jar")
    raise ServerUnavailable("scripts/dynamodb-local installs it")


@dataclass
class SharedServer:
    """A server that runs while at least one test uses it, because starting it takes seconds."""

    start: Callable[[], AbstractContextManager[Server]]
    users: int = 0
    stack: ExitStack = field(default_factory=ExitStack)
    server: Server | None = None

    @contextmanager
    def use(self) -> Iterator[Server]:
        """Starts the server for the first user and stops it after the last one."""
        if self.server is None:
            self.server = self.stack.enter_context(self.start())
        self.users += 1
        try:
            yield self.server
        finally:
            self.users -= 1
            if self.users == 0:
                self.server = None
                self.stack.close()


def dynamodb_local() -> AbstractContextManager[Server]:
    """DynamoDB Local, shared by all users in this process."""
    return _LOCAL.use()


@contextmanager
def run_local() -> Iterator[Server]:
    """Runs DynamoDB Local in memory on a free port, for one user, by the command of docs/how-to/dynamodb.md."""
    folder, port = find_local(), free_port()
    command = [
        "java",
        "-Xmx512m",
        f"-Djava.library.path={folder / 'DynamoDBLocal_lib'}",
        "-jar",
        str(folder / "DynamoDBLocal.jar"),
        *("-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)),
    ]
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)  # noqa: S603 - constant
        except FileNotFoundError as problem:
            raise ServerUnavailable("it needs Java 17 or newer on the PATH") from problem
        try:
            _wait_for(port, process, lambda: _output_of(output))
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait()


_LOCAL = SharedServer(run_local)


@contextmanager
def moto() -> Iterator[Server]:
    """Runs the moto server."""
    command = [sys.executable, "-m", "tests.support.moto_server"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)  # noqa: S603 - constant
        assert process.stdout is not None
        try:
            port = process.stdout.readline().decode().strip()
            if not port:
                raise ServerUnavailable(f"it exited at once: {_output_of(log)}")
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def _wait_for(port: int, process: subprocess.Popen[bytes], read_output: Any) -> None:
    ends = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None:
            raise ServerUnavailable(f"it exited at once: {read_output()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > ends:
                raise ServerUnavailable(f"no listener after {_START_SECONDS:g} seconds: {read_output()}") from None
            time.sleep(0.05)
        else:
            return


def _output_of(output: Any) -> str:
    output.seek(0)
    return str(output.read().decode(errors="replace")).strip()[-500:]


T = TypeVar("T")


def engine_or_skip(found: T | ServerUnavailable, engine: str, request: pytest.FixtureRequest) -> T:
    """Returns the engine. If it is unavailable, skips the test, or fails it when CI=true."""
    if isinstance(found, ServerUnavailable):
        if os.environ.get("CI") == "true":
            pytest.fail(f"{engine} does not run here: {found}.")
        request.node.user_properties.append((DID_NOT_RUN, f"{engine}: {found}"))
        pytest.skip(f"{engine} does not run here: {found}")
    return found
