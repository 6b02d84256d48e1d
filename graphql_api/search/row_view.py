"""What a row of an index tells of its record: the attributes that the index carries, and what its keys are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql_api.catalog.specs import EntitySpec, IndexSpec
from graphql_api.keys.ranges import decode_tuple
from graphql_api.search.filters import Values, value_reader
from graphql_api.store.values import Row


@dataclass(frozen=True)
class RowView:
    """Reads the rows of one index, as far as they go."""

    entity: EntitySpec
    index: IndexSpec
    known: Mapping[str, Any]
    """properties that have one value in every row"""

    @property
    def is_whole(self) -> bool:
        """Whether a row is the whole record."""
        return self.index.projection == "ALL"

    def tells(self, name: str) -> bool:
        """Whether every row tells the value of a property."""
        if self.is_whole or name in self.known:
            return True
        part = self.entity.properties[name]
        return part.stored in self._attributes or name in self._decoded

    def stores(self, name: str) -> bool:
        """Whether every row has the attribute of a property, if its record has."""
        return self.is_whole or self.entity.properties[name].stored in self._attributes

    def values(self, row: Row) -> Mapping[str, Any]:
        """The values of all properties that a row tells, where it is not the whole record."""
        read = value_reader(self.entity, row.item)
        found = dict(self.known) | self._decoded_values(row)
        for part in self.entity.properties.values():
            if part.name not in found and part.stored in self._attributes:
                found[part.name] = read(part)
        return found

    def reader(self, row: Row) -> Values:
        """Reads single properties of a row; what it does not tell must not be asked for."""
        if self.is_whole:
            return value_reader(self.entity, row.item)
        values = self.values(row)
        return lambda part: values[part.name]

    @property
    def _attributes(self) -> frozenset[str]:
        carried = self.index.projection if isinstance(self.index.projection, tuple) else ()
        keys = {self.index.sort[0].property.stored} if self.index.raw else set()
        return frozenset({*carried, *keys})

    @property
    def _decoded(self) -> frozenset[str]:
        """Properties that the range value is made of; a raw one is its plain attribute."""
        return frozenset() if self.index.raw else frozenset(part.name for part in self.index.range_parts)

    def _decoded_values(self, row: Row) -> dict[str, Any]:
        if self.index.raw:
            return {}
        values = decode_tuple(self.index.columns, str(row.value))
        return dict(zip((part.name for part in self.index.range_parts), values, strict=True))
