"""Clients that leave while the store works for them: no call of it is left behind."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from graphql_api.examples.users import catalog, sample
from graphql_api.storage.port import Store
from graphql_api.storage.values import Item, Key, RangeRead, ReadResult
from tests.api.running import PATIENCE, Wire, request
from tests.api.server import served
from tests.stores import WrappedStore

SOON = 0.2
"""seconds within which no call may be under way"""


class WaitingStore(WrappedStore):
    """Answers no read until it is let go, and knows how many wait."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.waits = True
        self.asked = threading.Semaphore(0)
        self.under_way = 0

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        async with self._waiting():
            return await super().read_ranges(reads, want)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        async with self._waiting():
            return await super().get_many(keys, consistent)

    @asynccontextmanager
    async def _waiting(self) -> AsyncIterator[None]:
        if self.waits:
            self.under_way += 1
            self.asked.release()
            try:
                await asyncio.Event().wait()
            finally:
                self.under_way -= 1
        yield


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ('{ userByFirstName(prefix: "a") { items { userId } } }', 1),
        ('{ user(id: "u") { userId } }', 1),
        ('{ a: userByFirstName { nextToken } b: userByLastName { nextToken } c: user(id: "u") { userId } }', 3),
    ],
)
def test_no_call_is_left_behind(query: str, calls: int, tmp_path: Path) -> None:
    """200 ms after a client has closed its connection no call of the store is under way; the next client is served."""
    waiting: list[WaitingStore] = []

    def wrap(inner: Store) -> Store:
        waiting.append(WaitingStore(inner))
        return waiting[0]

    with served(catalog, f"sqlite:///{tmp_path}/a.db", records=[*sample(3)], wrap=wrap) as server:
        (store,) = waiting
        with Wire(server.address) as wire:
            wire.send(request("POST /graphql", json.dumps({"query": query}).encode(), content_type="application/json"))
            for _ in range(calls):
                assert store.asked.acquire(timeout=PATIENCE)
            assert store.under_way == calls
        left = time.monotonic()
        while store.under_way and time.monotonic() < left + SOON:
            time.sleep(0.005)
        assert store.under_way == 0
        store.waits = False
        server.ask(query)
