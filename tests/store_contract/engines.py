"""The engines that the contract is tried on: how each is opened, and what it can do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from graphql_api.storage.engines.sqlite import open_sqlite
from graphql_api.storage.port import Store
from tests.dynamodb_local import Server, dynamodb_local, moto
from tests.store_contract.abilities import TRIALS, missing
from tests.store_contract.crowd import Address, open_address


@dataclass(frozen=True)
class Engine:
    """A way to open a store at a place; opening the same place again finds the same records."""

    open: Callable[[Path, Callable[[], float]], Awaitable[Store]]
    abilities: frozenset[str]
    """`reopen`: records outlive the store; `clock`: the age of tokens follows the clock that the test gives; `crowds`:
    several processes may write at once; the others are told in `abilities.py`"""
    address: Callable[[Path], Address]
    """how another process finds the store at a place"""


KNOWN_TO_MISS: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset(),
    "moto": frozenset({"exact size", "typed conditions", "tokens", "unfit", "definers", "charges"}),
    "dynamodb-local": frozenset({"unfit"}),
}
"""what each engine is known not to be able to do, out of what is tried; a test compares this with what was found"""

SERVERS: Mapping[str, Callable[[], AbstractContextManager[Server]]] = {"moto": moto, "dynamodb-local": dynamodb_local}


@contextmanager
def running(name: str, folder: Path) -> Iterator[Engine]:
    """The engine of a name, and what it turns out to be able to do."""
    if name in SERVERS:
        with SERVERS[name]() as server:

            def address(place: Path) -> Address:
                table = f"contract-{blake2b(str(place).encode(), digest_size=8).hexdigest()}"
                return "dynamodb", server.endpoint, table

            async def open_table(place: Path, now: Callable[[], float]) -> Store:
                return await open_address(address(place))

            own = {"reopen"} if name == "moto" else {"reopen", "crowds"}
            yield _tried(open_table, address, folder, own)
    else:
        yield _tried(_open_file, _file, folder, {"reopen", "clock", "crowds"})


def _file(place: Path) -> Address:
    return "sqlite", str(place / "store.db")


async def _open_file(place: Path, now: Callable[[], float]) -> Store:
    return await open_sqlite(place / "store.db", now=now)


def _tried(
    open_store: Callable[[Path, Callable[[], float]], Awaitable[Store]],
    address: Callable[[Path], Address],
    folder: Path,
    own: set[str],
) -> Engine:
    async def open_named(name: str) -> Store:
        place = folder / name
        place.mkdir()
        return await open_store(place, lambda: 0.0)

    # In a thread, since the loop of this one belongs to the tests.
    with ThreadPoolExecutor(1) as thread:
        lacking = thread.submit(asyncio.run, missing(open_named)).result()
    return Engine(open_store, frozenset(own | TRIALS.keys() - lacking), address)
