"""A store whose searches wait until a test lets them pass."""

import asyncio
from collections.abc import Sequence
from threading import Event

from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import RangeRead, ReadResult


class GatedStore(ForwardingStore):
    """Lets searches wait at a gate. Reads by key pass, as those of the readiness probe."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.gate = Event()
        self.waiting = 0

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        self.waiting += 1
        await asyncio.to_thread(self.gate.wait)
        self.waiting -= 1
        return await super().read_ranges(reads, want)
