"""The rows of a read: the requested attributes that its index projects, without records that its filter excludes."""

from graphql_api.codecs import RangeValue
from graphql_api.storage.filter_evaluation import (
    ATTRIBUTE_OPERATIONS,
    filter_matches,
    keep_supported_tests,
    tested_attributes,
)
from graphql_api.storage.record_body import BODY_FORMAT, attributes_format
from graphql_api.storage.table_definitions import key_attributes, projected_attributes
from graphql_api.storage.values import BodyFormat, IndexDefinition, Key, RangeRead, Row, TableDefinition


class RowProjection:
    """Makes the rows of reads that have one index, filter and set of attributes."""

    def __init__(self, table: TableDefinition, index: IndexDefinition, read: RangeRead) -> None:
        projected = projected_attributes(table, index)
        self.format = BODY_FORMAT if projected is None else attributes_format(projected)
        self.decode_entry = self.format.decode
        """decodes the entry of the index"""
        self._filter = keep_supported_tests(
            read.filter, ATTRIBUTE_OPERATIONS, lambda test: projected is None or test.attribute in projected
        )
        if read.attributes is not None:
            needed = read.attributes | tested_attributes(self._filter)
            needed = needed if projected is None else projected & needed
            # Also those of the filter, so that nothing is decoded twice.
            self.format = attributes_format(key_attributes(table, index) | needed)

    @property
    def unfiltered_format(self) -> BodyFormat | None:
        """Return the format of the rows if there is no filter: then each record has a row."""
        return self.format if self._filter is None else None

    def make_row(self, value: RangeValue, ordinal: int, key: Key, body: bytes) -> Row | None:
        """Return the row of a record, or None if the filter excludes it."""
        if self._filter is None:
            return Row(value, ordinal, key, body, self.format)
        item = self.format.decode(body)
        return Row(value, ordinal, key, item) if filter_matches(self._filter, item) else None
