"""Stores with troubles: transactions that meet others, and replies that are lost although everything was done."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from graphql_api.errors import Conflict, StoreError, StoreUnavailable
from graphql_api.storage.port import Store
from graphql_api.storage.values import TransactionWrite, Write
from tests.stores import WrappedStore


class TroubledStore(WrappedStore):
    """Spoils a share of all writes."""

    def __init__(self, inner: Store, random: Random, *, conflicts: float = 0.0, lost: float = 0.0) -> None:
        super().__init__(inner)
        self.begin_anew(random, conflicts=conflicts, lost=lost)

    def begin_anew(self, random: Random, *, conflicts: float = 0.0, lost: float = 0.0) -> None:
        """Has these troubles from now on, and counts those that come."""
        self.random = random
        self.conflicts = conflicts
        """share of transactions and of other conditional writes that are refused, with nothing done"""
        self.lost = lost
        """share of writes that are done, and of which nobody is told"""
        self.met = 0

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        if self._comes(self.conflicts):
            raise Conflict("Another transaction is under way, by order: try again.")
        await super().write_together(writes, token)
        if self._comes(self.lost):
            raise StoreUnavailable("The reply is lost, by order: try again.")

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        refused = {at for at, write in enumerate(writes) if write.expect is not None and self._comes(self.conflicts)}
        rest = iter(await super().write([write for at, write in enumerate(writes) if at not in refused]))
        if self._comes(self.lost):
            raise StoreUnavailable("The reply is lost, by order: try again.")
        conflict = Conflict("A transaction is under way, by order: try again.")
        return [conflict if at in refused else next(rest) for at in range(len(writes))]

    def _comes(self, share: float) -> bool:
        comes = self.random.random() < share
        self.met += comes
        return comes


def troubled(open_store: Callable[[str], Awaitable[Store]], **shares: float) -> Callable[[str], Awaitable[Store]]:
    """Opens stores with troubles instead of healthy ones."""

    async def open_troubled(url: str) -> Store:
        return TroubledStore(await open_store(url), Random(), **shares)

    return open_troubled
