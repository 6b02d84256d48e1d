"""A wrapper of a store that keeps the reads and writes of one request within its capacity ceiling."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from graphql_api.errors import QueryTooCostly, StoreError
from graphql_api.runtime import CapacityCeiling, meter_capacity
from graphql_api.storage.capacity_units import BoundOf, bounded_items, most_of_keys, most_of_ranges, most_of_writes
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.values import (
    Item,
    Key,
    RangeRead,
    ReadResult,
    TableDefinition,
    TransactionWrite,
    Write,
)

T = TypeVar("T")


class CeilingStore(ForwardingStore):
    """Reserves the most units of each call before it is sent, and settles them with the charge.

    A call that does not fit is refused, and nothing is sent. A call that is interrupted counts in full.
    It must be the outermost wrapper, so that nothing is awaited between a look at the ceiling and the reservation.
    """

    def __init__(self, inner: Store, ceiling: CapacityCeiling, table: TableDefinition, bound_of: BoundOf) -> None:
        super().__init__(inner)
        self.ceiling = ceiling
        self._table = table
        self._bound_of = bound_of

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return await self._reserved(most_of_ranges(reads), lambda: self.inner.read_ranges(reads, want))

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        most = most_of_keys(keys, self._bound_of, consistent=consistent)
        return await self._reserved(most, lambda: self.inner.get_many(keys, consistent))

    async def write(self, writes: Sequence[Write]) -> Sequence[StoreError | None]:
        most = most_of_writes(self._table, writes, self._bound_of, together=False)
        return await self._reserved(most, lambda: self.inner.write(writes))

    async def write_together(self, writes: Sequence[TransactionWrite], token: str) -> None:
        most = most_of_writes(self._table, writes, self._bound_of, together=True)
        await self._reserved(most, lambda: self.inner.write_together(writes, token), is_single=True)

    async def _reserved(self, most: float, call: Callable[[], Awaitable[T]], *, is_single: bool = False) -> T:
        """Return the result of a call. `is_single`: it is one request, so the charge is known also if it fails."""
        reservation = self.ceiling.reserve(most)
        if reservation is None:
            raise ceiling_error(self.ceiling, most)
        with meter_capacity() as meter:
            try:
                with reservation.active(), bounded_items(self._bound_of):
                    result = await call()
            except BaseException as problem:
                if is_single and isinstance(problem, StoreError):
                    reservation.settle_by(meter)
                else:
                    reservation.settle(reservation.units)
                raise
        reservation.settle_by(meter)
        return result


def ceiling_error(ceiling: CapacityCeiling, most: float) -> QueryTooCostly:
    """Return the error of a read or write that can charge more units than the ceiling has left."""
    taken = ceiling.max_units - ceiling.left
    used = f", of which {taken:g} are used or reserved" if taken else ""
    return QueryTooCostly(
        f"The next read or write can use up to {most:g} capacity units, and the request may use "
        f"{ceiling.max_units:g}{used}. Request less, or raise the ceiling. Entities with max_record_bytes need less.",
        limit=ceiling.max_units,
        found=most,
    )
