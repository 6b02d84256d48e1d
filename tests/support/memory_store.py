"""A read-only in-memory store, fast enough to measure the cost of many pages."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.storage.filter_evaluation import ATTRIBUTE_OPERATIONS, filter_matches, keep_supported_tests
from graphql_api.storage.metered_store import ForwardingStore
from graphql_api.storage.port import Store
from graphql_api.storage.table_definitions import projected_attributes
from graphql_api.storage.values import Item, Key, Position, RangeRead, ReadResult, Row, RowPage
from tests.support.store_doubles import all_items


@dataclass
class Entries:
    """The entries of one index under one hash key, in order."""

    values: list[Any] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


class MemoryStore(ForwardingStore):
    """Answers index searches from a copy of the inner store.

    Each range read is answered independently up to its own limit, without regard to other shards.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._records: dict[Key, Item] = {}
        self._entries = defaultdict[tuple[str | None, str], Entries](Entries)

    async def load_inner(self) -> None:
        """Copies all items of the inner store and builds its indexes."""
        definition = await self.inner.describe()
        assert definition is not None
        for item in await all_items(self.inner):
            self._records[Key(item[definition.hash_attribute], item[definition.range_attribute])] = item
        for index in definition.indexes:
            carried = projected_attributes(definition, index)
            listed = [(key, item) for key, item in self._records.items() if index.range_attribute in item]
            for key, item in sorted(listed, key=lambda entry: str(entry[1][index.range_attribute])):
                entries = self._entries[index.name, item[index.hash_attribute]]
                entries.values.append(item[index.range_attribute])
                entries.keys.append(key)
                entries.items.append(
                    item if carried is None else {name: value for name, value in item.items() if name in carried}
                )

    async def read_ranges(self, reads: Sequence[RangeRead], want: int) -> Sequence[ReadResult]:
        return [self._answer(read) for read in reads]

    async def get_many(self, keys: Sequence[Key], consistent: bool) -> Sequence[Item | None]:
        return [self._records.get(key) for key in keys]

    def _answer(self, read: RangeRead) -> RowPage:
        entries, wanted = self._entries[read.index, read.hash_key], read.range
        begin, end = 0, len(entries.values)
        if wanted.low is not None:
            begin = (bisect_right if wanted.low_open else bisect_left)(entries.values, wanted.low)
        if wanted.high is not None:
            end = (bisect_left if wanted.high_open else bisect_right)(entries.values, wanted.high)
        matching = range(begin, end)[::-1] if read.descending else range(begin, end)
        taken = matching[: read.limit]
        supported = keep_supported_tests(read.filter, ATTRIBUTE_OPERATIONS, lambda test: True)
        rows = [
            Row(entries.values[index], read.ordinal, entries.keys[index], entries.items[index])
            for index in taken
            if supported is None or filter_matches(supported, entries.items[index])
        ]
        if len(taken) == len(matching):
            return RowPage(rows, None, len(taken))
        last = taken[-1]
        return RowPage(rows, Position(entries.values[last], read.ordinal, entries.keys[last]), len(taken))
