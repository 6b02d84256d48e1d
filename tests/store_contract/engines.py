"""The engines that the contract is tried on: how each is opened, and what it can do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from graphql_api.adapters.sqlite import open_sqlite
from graphql_api.store.port import Store


@dataclass(frozen=True)
class Engine:
    """A way to open a store at a place; opening the same place again finds the same records."""

    open: Callable[[Path, Callable[[], float]], Awaitable[Store]]
    abilities: frozenset[str]
    """`reopen`: records outlive the store; `clock`: the age of tokens follows the clock that the test gives"""


async def _sqlite(place: Path, now: Callable[[], float]) -> Store:
    return await open_sqlite(place / "store.db", now=now)


ENGINES = {"sqlite": Engine(_sqlite, frozenset({"reopen", "clock"}))}
