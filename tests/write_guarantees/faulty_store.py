"""A store with random faults: conflicts, and replies that are lost after the write was applied."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from graphql_api.errors import Conflict, StoreError, StoreUnavailable
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import TransactionWrite, Write


class FaultyStore(ForwardingStore):
    """Injects faults into a share of all writes."""

    def __init__(self, inner: Store, random: Random, *, conflicts: float = 0.0, lost: float = 0.0) -> None:
        super().__init__(inner)
        self.reset(random, conflicts=conflicts, lost=lost)

    def reset(self, random: Random, *, conflicts: float = 0.0, lost: float = 0.0) -> None:
        """Sets the faults from now on, and resets their count."""
        self.random = random
        self.conflicts = conflicts
        """share of transactions and other conditional writes that fail without being applied"""
        self.lost = lost
        """share of writes that are applied, but whose reply is lost"""
        self.fault_count = 0

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if self._occurs(self.conflicts):
            raise Conflict("Another transaction is in progress. Try again.")
        await super().write_together(writes, token)
        if self._occurs(self.lost):
            raise StoreUnavailable("The reply is lost. Try again.")

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        refused = {at for at, write in enumerate(writes) if write.expect is not None and self._occurs(self.conflicts)}
        rest = iter(await super().write([write for at, write in enumerate(writes) if at not in refused]))
        if self._occurs(self.lost):
            raise StoreUnavailable("The reply is lost. Try again.")
        conflict = Conflict("A transaction is in progress. Try again.")
        return [conflict if at in refused else next(rest) for at in range(len(writes))]

    def _occurs(self, share: float) -> bool:
        occurs = self.random.random() < share
        self.fault_count += occurs
        return occurs


def faulty_opener(open_store: Callable[..., Awaitable[Store]], **shares: float) -> Callable[[str], Awaitable[Store]]:
    """Returns an opener of faulty stores."""

    async def open_faulty(url: str, **options: Any) -> Store:
        return FaultyStore(await open_store(url, **options), Random(), **shares)

    return open_faulty
