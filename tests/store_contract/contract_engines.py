"""The engines that the contract suite tests: how to open a store, and which capabilities each engine has."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path

from graphql_api.storage.engines.dynamodb import DynamoSettings
from graphql_api.storage.engines.memory import MemoryStore, MemoryTable
from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.store_contract.engine_capabilities import PROBES, missing_capabilities
from tests.store_contract.writer_processes import Address
from tests.support.dynamodb_servers import LENIENT_SETTINGS, Server, dynamodb_local, moto, run_local

OpenStore = Callable[[Path, Callable[[], float]], Awaitable[Store]]
"""opens a store at a path, with a clock"""


@dataclass(frozen=True)
class Engine:
    """Opens stores at a path. A store that is opened again at the same path has the same records."""

    open: OpenStore
    capabilities: frozenset[str]
    """`reopen`: records survive closing the store. `clock`: tokens expire by the clock of the test. `processes`:
    several processes may write concurrently. The probes in `engine_capabilities.py` define the others."""
    address: Callable[[Path], Address]
    """the address by which another process opens the store at a path"""


CLIENT_TRANSPORT = "dynamodb-local by aioboto3"
"""the same server, with every request sent by the client of aioboto3; it is not probed again"""

KNOWN_MISSING: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset(),
    "memory": frozenset(),
    "moto": frozenset(
        {"exact size", "typed conditions", "tokens", "mistyped entries", "concurrent definitions", "capacity"}
    ),
    "dynamodb-local": frozenset({"mistyped entries"}),
    CLIENT_TRANSPORT: frozenset({"mistyped entries"}),
}
"""the probed capabilities that each engine is known to lack; a test compares this with the result of the probes"""

SERVERS: Mapping[str, Callable[[], AbstractContextManager[Server]]] = {
    "moto": moto,
    "dynamodb-local": dynamodb_local,
    CLIENT_TRANSPORT: dynamodb_local,
}
PROBED_SERVERS = {**SERVERS, "dynamodb-local": run_local}
"""servers for the probes: DynamoDB Local may never end the backfill that a probe begins, which blocks later ones"""


@contextmanager
def running_engine(name: str, folder: Path) -> Iterator[Engine]:
    """Start an engine and probe its capabilities."""
    if name == "memory":
        open_memory = _memory_opener()
        yield Engine(open_memory, _capabilities({"reopen", "clock"}, _probe(open_memory, folder)), _file_address)
        return
    if name not in SERVERS:
        missing = _probe(_open_file, folder)
        yield Engine(_open_file, _capabilities({"reopen", "clock", "processes"}, missing), _file_address)
        return
    if name == CLIENT_TRANSPORT:
        with SERVERS[name]() as server:
            opener = _table_opener(server, replace(LENIENT_SETTINGS, transport="aioboto3"))
            yield Engine(opener, _capabilities({"reopen"}, KNOWN_MISSING[name]), partial(_table_address, server))
        return
    with PROBED_SERVERS[name]() as probed:
        missing = _probe(_table_opener(probed), folder)
    declared = {"reopen"} if name == "moto" else {"reopen", "processes"}
    with SERVERS[name]() as server:
        yield Engine(_table_opener(server), _capabilities(declared, missing), partial(_table_address, server))


def _capabilities(declared: set[str], missing: frozenset[str]) -> frozenset[str]:
    return frozenset(declared | PROBES.keys() - missing)


def _table_address(server: Server, path: Path) -> Address:
    table = f"contract-{blake2b(str(path).encode(), digest_size=8).hexdigest()}"
    return "dynamodb", server.endpoint, table


def _table_opener(server: Server, settings: DynamoSettings = LENIENT_SETTINGS) -> OpenStore:
    async def open_table(path: Path, now: Callable[[], float]) -> Store:
        return await server.open(_table_address(server, path)[2], settings)

    return open_table


def _file_address(path: Path) -> Address:
    return "sqlite", str(path / "store.db")


async def _open_file(path: Path, now: Callable[[], float]) -> Store:
    return await open_sqlite(path / "store.db", now=now)


def _memory_opener() -> OpenStore:
    tables = defaultdict[Path, MemoryTable](MemoryTable)

    async def open_memory(path: Path, now: Callable[[], float]) -> Store:
        return MemoryStore(tables[path], now=now)

    return open_memory


def _probe(open_store: OpenStore, folder: Path) -> frozenset[str]:
    """Return the capabilities that an engine lacks."""

    async def open_probe_store(name: str) -> Store:
        path = folder / name
        path.mkdir()
        return await open_store(path, lambda: 0.0)

    # In a thread, because the tests own the event loop of this one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, missing_capabilities(open_probe_store)).result()
