"""Store calls are cancelled when the client disconnects."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from graphql_api.examples.users import catalog, sample
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.server.catalog_server import start_server
from tests.support.loopback import TIMEOUT, RawConnection, request

CANCEL_SECONDS = 0.2
"""Seconds after which no store call may be in progress."""


class BlockingStore(ForwardingStore):
    """Blocks reads until released, and counts the blocked ones."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.blocked = True
        self.calls_started = threading.Semaphore(0)
        self.in_progress = 0

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        async with self._block():
            return await super().read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        async with self._block():
            return await super().get_many(keys, consistent)

    @asynccontextmanager
    async def _block(self) -> AsyncIterator[None]:
        if self.blocked:
            self.in_progress += 1
            self.calls_started.release()
            try:
                await asyncio.Event().wait()
            finally:
                self.in_progress -= 1
        yield


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ('{ userByFirstName(prefix: "a") { items { userId } } }', 1),
        ('{ user(id: "u") { userId } }', 1),
        ('{ a: userByFirstName { nextToken } b: userByLastName { nextToken } c: user(id: "u") { userId } }', 3),
    ],
)
def test_disconnect_cancels_store_calls(query: str, calls: int, tmp_path: Path) -> None:
    """200 ms after a disconnect no store call is in progress. The next client is served."""
    stores: list[BlockingStore] = []

    def wrap(inner: Store) -> Store:
        stores.append(BlockingStore(inner))
        return stores[0]

    with start_server(catalog, f"sqlite:///{tmp_path}/a.db", records=[*sample(3)], wrap=wrap) as server:
        (store,) = stores
        with RawConnection(server.address) as connection:
            connection.send(
                request("POST /graphql", json.dumps({"query": query}).encode(), content_type="application/json")
            )
            for _ in range(calls):
                assert store.calls_started.acquire(timeout=TIMEOUT)
            assert store.in_progress == calls
        disconnected = time.monotonic()
        while store.in_progress and time.monotonic() < disconnected + CANCEL_SECONDS:
            time.sleep(0.005)
        assert store.in_progress == 0
        store.blocked = False
        server.execute(query)
