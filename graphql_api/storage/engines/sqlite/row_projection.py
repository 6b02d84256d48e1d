"""Row projection of a read: its pushed-down filter, its attributes, and the size of index entries."""

from collections.abc import Callable, Sequence
from typing import Any

from graphql_api.storage import (
    Item,
    Key,
    RangeRead,
    Row,
    StoreFilter,
    filter_matches,
    keep_supported_tests,
    record_size,
    tested_attributes,
)
from graphql_api.storage.engines.sqlite.record_body import attribute_decoder, decode_body
from graphql_api.storage.engines.sqlite.table_layout import TableLayout

Decode = Callable[[bytes], Item]


class RowProjection:
    """Makes the rows of reads that have one index, filter and set of attributes."""

    def __init__(self, layout: TableLayout, read: RangeRead) -> None:
        projected = layout.projected[read.index]
        self._decode_entry: Decode = decode_body if projected is None else attribute_decoder(projected)
        """decodes the entry of the index"""
        self._filter: StoreFilter | None = None
        if read.filter is not None:
            self._filter = keep_supported_tests(
                read.filter, lambda test: projected is None or test.attribute in projected
            )
        self._decode = self._decode_entry
        """decodes the requested attributes and those of the filter, so that nothing is decoded twice"""
        if read.attributes is not None:
            index, table = layout.by_name[read.index].definition, layout.definition
            keys = {table.hash_attribute, table.range_attribute, index.hash_attribute, index.range_attribute}
            needed = read.attributes | tested_attributes(self._filter)
            self._decode = attribute_decoder(keys.union(needed if projected is None else projected & needed))

    def make_row(self, value: Any, ordinal: int, key: Key, body: bytes) -> Row | None:
        """Return the row of a record, or None if the filter excludes it."""
        if self._filter is None:
            return Row(value, ordinal, key, body, self._decode)
        item = self._decode(body)
        if not filter_matches(self._filter, item):
            return None
        return Row(value, ordinal, key, item, _decoded_item)

    def entry_size(self, body: bytes) -> int:
        """Return the size of the index entry, as DynamoDB counts it."""
        return record_size(self._decode_entry(body))


def row_projections(layout: TableLayout, reads: Sequence[RangeRead]) -> list[RowProjection]:
    """Return the projection of each read. Reads of one search share a projection."""
    projections: list[RowProjection] = []
    for number, read in enumerate(reads):
        previous = reads[number - 1]
        shared = projections and read.filter is previous.filter and read.attributes == previous.attributes
        projections.append(projections[-1] if shared else RowProjection(layout, read))
    return projections


def _decoded_item(item: Item) -> Item:
    return item
