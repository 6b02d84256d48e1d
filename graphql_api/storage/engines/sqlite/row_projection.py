"""What a read sees of the records under its index: which of them it answers, with which attributes, at what size."""

from collections.abc import Callable, Sequence
from typing import Any

from graphql_api.storage import (
    Item,
    Key,
    RangeRead,
    Row,
    StoreFilter,
    filter_matches,
    record_size,
    tested_attributes,
    weakened,
)
from graphql_api.storage.engines.sqlite.record_body import decode_body, decode_some
from graphql_api.storage.engines.sqlite.table_layout import Layout

Decode = Callable[[bytes], Item]


class View:
    """Makes the rows of reads that ask the same of one index."""

    def __init__(self, layout: Layout, read: RangeRead) -> None:
        carried = layout.carried[read.index]
        self._entry: Decode = decode_body if carried is None else decode_some(carried)
        """a record as the index holds it"""
        self._filter: StoreFilter | None = None
        if read.filter is not None:
            self._filter = weakened(read.filter, lambda test: carried is None or test.attribute in carried)
        self._decode = self._entry
        """what is asked for of it, and what the filter tests: nothing is decoded twice"""
        if read.attributes is not None:
            index, table = layout.by_name[read.index].definition, layout.definition
            keys = {table.hash_attribute, table.range_attribute, index.hash_attribute, index.range_attribute}
            wanted = read.attributes | tested_attributes(self._filter)
            self._decode = decode_some(keys.union(wanted if carried is None else carried & wanted))

    def row(self, value: Any, ordinal: int, key: Key, body: bytes) -> Row | None:
        """The row of a record; None where the filter does not hold."""
        if self._filter is None:
            return Row(value, ordinal, key, body, self._decode)
        item = self._decode(body)
        if not filter_matches(self._filter, item):
            return None
        return Row(value, ordinal, key, item, _as_it_is)

    def size(self, body: bytes) -> int:
        """The bytes of the index's entry, as DynamoDB counts them."""
        return record_size(self._entry(body))


def views_of(layout: Layout, reads: Sequence[RangeRead]) -> list[View]:
    """The view of each read; reads of one search share theirs."""
    found: list[View] = []
    for number, read in enumerate(reads):
        before = reads[number - 1]
        shared = found and read.filter is before.filter and read.attributes == before.attributes
        found.append(found[-1] if shared else View(layout, read))
    return found


def _as_it_is(item: Item) -> Item:
    return item
