"""Reads of several items that can be proven to have existed at one moment, and reads that share calls."""

from collections.abc import Sequence

from graphql_api.runtime import CoalescedCall, RequestCoalescer
from graphql_api.storage import ForwardingStore, Item, Key, RangeRead, ReadResult, RowPage, Store
from graphql_api.writes import WRITE_ID

_CHANGED = object()
"""version of an item that has changed between two reads"""


class SnapshotReads(ForwardingStore):
    """A store that remembers what was read, so that the same reads can be repeated.

    Every write gives its item a new write id. If two rounds of the same reads return the same write ids, then all items
    existed together at the moment between the rounds. Whatever was concluded from them was true at that moment.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._items: dict[Key, object] = {}
        self._ranges: list[tuple[Sequence[RangeRead], int, object]] = []

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        items = await super().get_many(keys, consistent)
        for key, item in zip(keys, items, strict=True):
            version = _version(item)
            if self._items.setdefault(key, version) != version:
                self._items[key] = _CHANGED
        return items

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        results = await super().read_ranges(reads, want)
        self._ranges.append((reads, want, [*map(_result_version, results)]))
        return results

    async def is_unchanged(self) -> bool:
        """Return whether the same reads return the same items again."""
        keys = [*self._items]
        items = await self.inner.get_many(keys, consistent=True) if keys else ()
        if [*map(_version, items)] != [self._items[key] for key in keys]:
            return False
        for reads, want, version in self._ranges:
            if [*map(_result_version, await self.inner.read_ranges(reads, want))] != version:
                return False
        return True


def _version(item: Item | None) -> object:
    """Return what changes with every write of an item; its attributes if another application wrote it."""
    return None if item is None else item.get(WRITE_ID, item)


def _result_version(result: ReadResult) -> object:
    if not isinstance(result, RowPage):
        raise result
    return [(row.key, _version(row.item)) for row in result.rows]


class BatchedReads(ForwardingStore):
    """A store that sends concurrent reads by key as one call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._coalescer = RequestCoalescer[tuple[Key, ...], list[Item | None]](self._send)

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:  # noqa: ARG002 - of the port
        return await self._coalescer.submit(tuple(keys)).wait()

    async def _send(self, calls: Sequence[CoalescedCall[tuple[Key, ...], list[Item | None]]]) -> None:
        keys = [*dict.fromkeys(key for call in calls for key in call.part)]
        items = dict(zip(keys, await self.inner.get_many(keys, consistent=True), strict=True))
        for call in calls:
            call.succeed([items[key] for key in call.part])
