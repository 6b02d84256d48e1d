"""A store that answers from memory, read by read: fast enough for the cost of very many pages."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphql_api.storage.filter_evaluation import filter_matches
from graphql_api.storage.port import Store
from graphql_api.storage.table_definitions import projected_attributes
from graphql_api.storage.values import Item, Key, Position, RangeRead, ReadResult, Row, RowPage
from tests.stores import WrappedStore, all_items


@dataclass
class Entries:
    """What an index holds under one hash key, in order."""

    values: list[Any] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)


class RememberedStore(WrappedStore):
    """Answers searches of encoded indexes as the inner store would have when it was remembered.

    Every read is answered by itself up to its own limit, as by an engine that knows nothing of the other shards.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._records: dict[Key, Item] = {}
        self._entries = defaultdict[tuple[str | None, str], Entries](Entries)

    async def remember(self) -> None:
        """Looks at everything."""
        definition = await self.inner.describe()
        assert definition is not None
        for item in await all_items(self.inner):
            self._records[Key(item[definition.hash_attribute], item[definition.range_attribute])] = item
        for index in definition.indexes:
            carried = projected_attributes(definition, index)
            there = [(key, item) for key, item in self._records.items() if index.range_attribute in item]
            for key, item in sorted(there, key=lambda entry: str(entry[1][index.range_attribute])):
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
        there, asked = self._entries[read.index, read.hash_key], read.range
        begin, end = 0, len(there.values)
        if asked.low is not None:
            begin = (bisect_right if asked.low_open else bisect_left)(there.values, asked.low)
        if asked.high is not None:
            end = (bisect_left if asked.high_open else bisect_right)(there.values, asked.high)
        whole = range(begin, end)[::-1] if read.descending else range(begin, end)
        taken = whole[: read.limit]
        rows = [
            Row(there.values[at], read.ordinal, there.keys[at], there.items[at], _as_it_is)
            for at in taken
            if read.filter is None or filter_matches(read.filter, there.items[at])
        ]
        if len(taken) == len(whole):
            return RowPage(rows, None, len(taken))
        last = taken[-1]
        return RowPage(rows, Position(there.values[last], read.ordinal, there.keys[last]), len(taken))


def _as_it_is(item: Item) -> Item:
    return item
