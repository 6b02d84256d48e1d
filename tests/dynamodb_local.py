"""Servers that speak DynamoDB's protocol on loopback, for tests: AWS's DynamoDB Local and moto's."""

import os
import socket
import subprocess
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
from tests.engines_report import DID_NOT_RUN

ROOT = Path(__file__).parent.parent
ENGINE = "dynamodb-local"
"""what reports and parameters of tests call it"""
REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": REGION}
"""what both servers take, for tests that open a store by its URL"""

PATIENT = DynamoSettings(
    deadline=60.0, connect_seconds=10.0, read_seconds=30.0, attempts=12, breaker_failures=100, table_pause=0.2
)
"""for tests that ask what is right, on machines that are busy with other tests"""

_START_SECONDS = 60.0


class NoServer(Exception):
    """The server cannot be started here, and why."""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    endpoint: str

    async def open(self, table: str, settings: DynamoSettings = PATIENT, **more: Any) -> DynamoStore:
        """Opens a table of it."""
        given = {"region": REGION, "endpoint": self.endpoint, "session": session(), "random": Random(1)}
        return await open_dynamodb(table, settings=settings, **{**given, **more})

    async def make(self, table: str, definition: TableDefinition) -> None:
        """Makes a table that several tests share."""
        store = await self.open(table)
        try:
            await store.ensure_table(definition)
        finally:
            await store.close()


@cache
def session() -> aioboto3.Session:
    """A session with credentials that a local server takes; it keeps the driver's models, so that opening is quick."""
    return aioboto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=REGION)  # noqa: S106 - no secret


def find_local() -> Path:
    """The folder of DynamoDB Local's jar."""
    named = os.environ.get("SHARDQL_DYNAMODB_LOCAL")
    folders = [Path(named)] if named else sorted((ROOT / ".dynamodb-local").glob("**/dynamodb_local_*"))
    for folder in folders:
        if (folder / "DynamoDBLocal.jar").is_file():
            return folder
    if named:
        raise NoServer(f"SHARDQL_DYNAMODB_LOCAL is {named}, and there is no DynamoDBLocal.jar")
    raise NoServer("scripts/dynamodb-local installs it")


@dataclass
class Shared:
    """A server that runs as long as somebody uses it: it takes seconds to start, and as long again to be quick."""

    start: Callable[[], AbstractContextManager[Server]]
    users: int = 0
    stack: ExitStack = field(default_factory=ExitStack)
    server: Server | None = None

    @contextmanager
    def use(self) -> Iterator[Server]:
        """The server; tables are told apart by their names."""
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
    """DynamoDB Local; all who use it at the same time in one process share it."""
    return _LOCAL.use()


@contextmanager
def _run_local() -> Iterator[Server]:
    """Runs DynamoDB Local, in memory, on a free port."""
    folder, port = find_local(), _free_port()
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
            process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)  # noqa: S603 - a command of ours
        except FileNotFoundError as problem:
            raise NoServer("it needs Java 17 or newer on the PATH") from problem
        try:
            _wait_for(port, process, lambda: _written(output))
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait()


_LOCAL = Shared(_run_local)


@contextmanager
def moto() -> Iterator[Server]:
    """Runs moto's server in a thread."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - takes a second to import

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Server(f"http://{host}:{port}")
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], written: Any) -> None:
    ends = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None:
            raise NoServer(f"it ended at once: {written()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > ends:
                raise NoServer(f"it does not listen after {_START_SECONDS:g} seconds: {written()}") from None
            time.sleep(0.05)
        else:
            return


def _written(output: Any) -> str:
    output.seek(0)
    return str(output.read().decode(errors="replace")).strip()[-500:]


T = TypeVar("T")


def running(found: T | NoServer, engine: str, request: pytest.FixtureRequest) -> T:
    """The engine that a test asks for; where it does not run the test is skipped, and with CI=true it fails."""
    if isinstance(found, NoServer):
        if os.environ.get("CI") == "true":
            pytest.fail(f"{engine} does not run here: {found}.")
        request.node.user_properties.append((DID_NOT_RUN, f"{engine}: {found}"))
        pytest.skip(f"{engine} does not run here: {found}")
    return found
