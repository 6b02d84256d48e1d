"""What a row of an index tells of its record: the attributes that the index carries, and what its keys are made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphql_api.codecs import decode_tuple
from graphql_api.model import EntitySpec, IndexSpec, PropertySpec, from_stored, has_expired
from graphql_api.query.property_values import Values, default_needs_record, value_reader
from graphql_api.storage import Row


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
        """Whether every row tells the value of a property.

        A record may have been written without it: what it is computed from then must be told as well.
        """
        if self.is_whole or name in self.known or name in self._decoded:
            return True
        part = self.entity.properties[name]
        if self.index.raw and part == self.index.sort[0].property:
            return True
        if part.stored not in self._attributes or default_needs_record(self.entity, part):
            return False
        return part.function is None or all(map(self.tells, part.sources))

    def stores(self, name: str) -> bool:
        """Whether every row has the attribute of a property, if its record has."""
        return self.is_whole or self.entity.properties[name].stored in self._attributes

    def attributes_of(self, names: Iterable[str]) -> frozenset[str] | None:
        """The attributes by which a row tells some properties; None where it takes all of them."""
        found = set[str]()
        left = [*names]
        while left:
            name = left.pop()
            part = self.entity.properties[name]
            if not self.is_whole and (name in self.known or name in self._decoded):
                continue
            if default_needs_record(self.entity, part):
                return None
            found.add(part.stored)
            left += part.sources
        return frozenset(found)

    def values(self, row: Row) -> Mapping[str, Any]:
        """The values of all properties that a row tells, where it is not the whole record."""
        read, found = self.reader(row), dict[str, Any]()
        for part in self._told:
            value = read(part)
            found[part.name] = value if part.codec is not None else from_stored(self.entity, part, value)
        return found

    def reader(self, row: Row) -> Values:
        """Reads single properties of a row; what it does not tell must not be asked for."""
        told = {} if self.is_whole else {**self.known, **self._decoded_values(row)}
        return value_reader(self.entity, row.item, told)

    def has_expired(self, row: Row, now: float) -> bool:
        """Whether a row says that its record only waits to be removed; one that does not say is still to be asked."""
        ttl = self._expiry
        if ttl is None:
            return False
        if self.stores(ttl.name):
            return has_expired(self.entity, row.item, now)
        expires = self.reader(row)(ttl)
        return expires is not None and bool(expires <= now)

    # --- the same for every row --------------------------------------------------------------------------------

    @cached_property
    def _told(self) -> tuple[PropertySpec, ...]:
        """The properties that every row tells."""
        return tuple(part for name, part in self.entity.properties.items() if self.tells(name))

    @cached_property
    def _expiry(self) -> PropertySpec | None:
        """The property that says when a record expires, if every row tells it."""
        ttl = self.entity.ttl
        return ttl if ttl is not None and self.tells(ttl.name) else None

    @cached_property
    def _attributes(self) -> frozenset[str]:
        carried = self.index.projection if isinstance(self.index.projection, tuple) else ()
        keys = {self.index.sort[0].property.stored} if self.index.raw else set()
        return frozenset({*carried, *keys})

    @cached_property
    def _decoded(self) -> frozenset[str]:
        """Properties that the range value is made of; a raw one is its plain attribute, but the record's key is not."""
        return frozenset(part.name for part in self._encoded.range_parts)

    @property
    def _encoded(self) -> IndexSpec:
        return self.entity.indexes["by_id"] if self.index.raw else self.index

    def _decoded_values(self, row: Row) -> dict[str, Any]:
        encoded = self._encoded
        values = decode_tuple(encoded.columns, row.key.range if self.index.raw else str(row.value))
        return dict(zip((part.name for part in encoded.range_parts), values, strict=True))
